"""A Lightning module that logs calibration, and stops by the log loss.

    pip install ".[torch]" pytorch-lightning scikit-learn
    python examples/lightning_module.py

With the package ``lightning``, ``import lightning.pytorch as pl``; the rest stays.
"""

import logging
import tempfile

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from calibrant.torch import CalibrationError, CalibrationReport, NegativeLogLikelihood


class Digits(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
        # Attributes are moved to the module's device, and gathered from all ranks.
        self.ece = CalibrationError(
            "multiclass", num_classes=10, num_bins=15, closed="right", logits=True
        )
        self.log_loss = NegativeLogLikelihood(logits=True)
        self.calibration = CalibrationReport(logits=True)
        self.history = []

    def training_step(self, batch, _):
        images, labels = batch
        return nn.functional.cross_entropy(self.network(images), labels)

    def validation_step(self, batch, _):
        images, labels = batch
        logits = self.network(images)
        self.ece.update(logits, labels)
        self.log_loss.update(logits, labels)
        # Log the metrics, not their values: Lightning computes them at the end of the
        # epoch, and resets them.
        self.log("valid_ece", self.ece)
        self.log("valid_log_loss", self.log_loss)
        self.calibration.update(logits, labels)

    def on_validation_epoch_end(self):
        # A report is many numbers: log some as floats. Lightning does not reset it.
        report = self.calibration.compute()
        self.calibration.reset()
        error = report["ece"]
        self.log("valid_ece_low", error.low)
        self.log("valid_ece_high", error.high)
        self.log("valid_noise", error.floor.upper)
        if not self.trainer.sanity_checking:
            self.history.append((error.value, report["nll"].value))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-3)


def main(epochs=30):
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    pl.seed_everything(0, verbose=False)
    images, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    order = torch.randperm(len(labels))
    images, labels = images[order].float() / 16, labels[order]
    redrawn = torch.rand(len(labels)) < 0.4  # four labels in ten may be wrong
    labels[redrawn] = torch.randint(10, (int(redrawn.sum()),))
    train = TensorDataset(images[:500], labels[:500])
    valid = DataLoader(TensorDataset(images[500:], labels[500:]), batch_size=256)

    module = Digits()
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            default_root_dir=folder,
            callbacks=[pl.callbacks.EarlyStopping("valid_log_loss", patience=3)],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, DataLoader(train, batch_size=32, shuffle=True), valid)
    logged = {name: value.item() for name, value in trainer.callback_metrics.items()}
    print(f"stopped after epoch {len(module.history)}; logged last:")
    for name in sorted(logged):
        print(f"  {name} {logged[name]:.3f}")
    return {"module": module, "valid": valid, "logged": logged}


if __name__ == "__main__":
    main()
