"""A training loop of PyTorch Lightning that logs the metrics. Marked: run it with ``pytest -m examples``."""

from __future__ import annotations

import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchmetrics")

from calibrant import torch as ct  # noqa: E402

pytestmark = [
    pytest.mark.examples,
    # Lightning's own: it looks for loggers, workers and devices, and warns of what it does not find.
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]


def test_a_training_loop_logs_the_metrics(tmp_path):
    lightning = pytest.importorskip("pytorch_lightning", reason="pip install pytorch-lightning")
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(96, 5, generator=generator)
    labels = (features[:, 0] + torch.randn(96, generator=generator) > 0).long() + (features[:, 1] > 1).long()
    rows = torch.utils.data.TensorDataset(features, labels)
    logged = []

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(5, 3)
            self.ece = ct.CalibrationError("multiclass", num_classes=3, logits=True)
            self.scores = torch.nn.ModuleDict(
                {"nll": ct.NegativeLogLikelihood(), "smooth": ct.SmoothCalibrationError()}
            )
            self.seen = []

        def training_step(self, batch, _):
            logits = self.layer(batch[0])
            self.ece(logits, batch[1])
            self.log("ece", self.ece, on_step=True, on_epoch=True)
            return torch.nn.functional.cross_entropy(logits, batch[1])

        def validation_step(self, batch, _):
            logits = self.layer(batch[0])
            self.seen.append((logits.clone(), batch[1]))
            for name, metric in self.scores.items():
                metric.update(logits, batch[1])
                self.log(name, metric)

        def on_validation_epoch_end(self):
            logits, targets = (torch.cat(part) for part in zip(*self.seen, strict=True))
            expected = torch.nn.functional.cross_entropy(logits, targets)
            logged.append((self.scores["nll"].compute().item(), expected.item()))
            self.seen.clear()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module = Module()
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        default_root_dir=tmp_path,
        enable_progress_bar=False,
        logger=False,
        enable_checkpointing=True,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    loaders = [torch.utils.data.DataLoader(rows, batch_size=20, shuffle=shuffle) for shuffle in (True, False)]
    trainer.fit(module, *loaders)
    assert len(logged) == 3
    for value, expected in logged:
        assert value == pytest.approx(expected, rel=1e-5)  # single precision sums on Lightning's side
    assert 0 <= trainer.callback_metrics["ece_epoch"] <= 1
    assert trainer.callback_metrics["nll"].item() == pytest.approx(logged[-1][0])
    assert module.ece.update_count == 0  # Lightning resets at the end of an epoch


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="TorchScript is for Python up to 3.13")
@pytest.mark.parametrize("method", ["script", "trace"])
def test_a_module_that_holds_metrics_becomes_torchscript(method, tmp_path):
    """Lightning and torch both say that TorchScript is deprecated; the warnings are ignored above."""
    lightning = pytest.importorskip("pytorch_lightning", reason="pip install pytorch-lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(5, 3)
            self.ece = ct.CalibrationError("multiclass", num_classes=3, logits=True)
            self.others = torch.nn.ModuleDict(
                {
                    "adaptive": ct.AdaptiveCalibrationError("multiclass", num_classes=3, logits=True),
                    "classwise": ct.ClasswiseCalibrationError(3, logits=True),
                    "smooth": ct.SmoothCalibrationError(logits=True),
                    "brier": ct.BrierScore(logits=True),
                    "nll": ct.NegativeLogLikelihood(logits=True),
                    "report": ct.CalibrationReport(n_resamples=20, logits=True),
                }
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)

    module, x = Module(), torch.randn(8, 5)
    for metric in (module.ece, *module.others.values()):
        metric.update(module(x), torch.arange(8) % 3)
    before = module.ece.compute()
    options = {"example_inputs": x} if method == "trace" else {}
    scripted = module.to_torchscript(tmp_path / "module.pt", method=method, **options)
    for made in (scripted, torch.jit.load(tmp_path / "module.pt")):
        assert torch.equal(made(x), module(x))
    assert module.ece.update_count == 1  # the metrics are not called, and keep their rows
    assert torch.equal(module.ece.compute(), before)
