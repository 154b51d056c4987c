"""The torch metrics on two processes: what each has seen adds up to what one process would have."""

from __future__ import annotations

import pickle
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchmetrics")

import calibrant  # noqa: E402
import tests.torch.test_torch_sketch as sketches  # noqa: E402
from calibrant import torch as ct  # noqa: E402

MAKES = {
    "binary": lambda: ct.CalibrationError("binary", num_bins=15),
    "multiclass": lambda: ct.CalibrationError("multiclass", num_classes=4, norm="l2"),
    "classwise": lambda: ct.ClasswiseCalibrationError(4),
    "adaptive": lambda: ct.AdaptiveCalibrationError("multiclass", num_classes=4),
    "adaptive classwise": lambda: ct.AdaptiveCalibrationError("multiclass", num_classes=4, notion="classwise"),
    "smooth": lambda: ct.SmoothCalibrationError("reflected"),
    "brier": lambda: ct.BrierScore(),
    "nll": lambda: ct.NegativeLogLikelihood(),
    "brier of rows": lambda: ct.BrierScore(reduction="none"),
    "nll of rows": lambda: ct.NegativeLogLikelihood(reduction=None),
    "report": lambda: ct.CalibrationReport(n_resamples=20),
}
# Rows of each rank, in batches: alike, uneven, one precision here and another there, nothing at all on one rank.
SPLITS = {
    "even": (((0, 100), (100, 200)), ((200, 300), (300, 400))),
    "uneven": (((0, 7), (7, 260), (260, 261)), ((261, 400),)),
    "one is empty": (((0, 100), (100, 400)), ()),
    "the other is empty": ((), ((0, 400),)),
}

# Whether the batches of each rank are double: alike, mixed among and within ranks, without a batch on one rank.
PRECISIONS = {
    "double": ((True, True), (True, True)),
    "mixed ranks": ((False, False), (True, True)),
    "mixed batches": ((True, False), (False, True)),
    "double and empty": ((True, False), ()),
    "empty and double": ((), (True,)),
}

# Of metrics that keep a sketch.
SKETCHES = ("adaptive classwise", "smooth", "report")
SKETCH_SPLITS = ("uneven", "one is empty", "the other is empty")


def batch(name, start, stop, double=False):
    rng = np.random.default_rng(12)
    logits, labels = rng.normal(size=(400, 4)), rng.integers(0, 4, 400)
    probs = torch.tensor(logits).softmax(1)
    target = torch.tensor(labels)
    if name == "binary":
        probs, target = probs[:, 1] * 0.9 + 0.05, (target == 1).long()
    return (probs if double else probs.float())[start:stop], target[start:stop]


def plain(value):
    """Return what compute gives; the scores of rows in their own order, since the ranks come one after the other."""
    return {k: value[k].value for k in value} if hasattr(value, "diagram") else value.sort().values.tolist()


def sketch_batch(name, start, stop):
    preds, target = sketches.data(sketches.METRICS[name][1], 400, seed=12)
    return preds[start:stop], target[start:stop]


def of_sketch(rank, split, name):
    metric = sketches.METRICS[name][0]()
    for bounds in SPLITS[split][rank]:
        metric.update(*sketch_batch(name, *bounds))
    value = sketches.numbers(metric.compute())
    sketch = metric.sketch().to_bytes()
    metric.sync()
    again = metric.sketch().to_bytes()  # of a metric that is gathered already, and stays so
    synced = metric._is_synced
    metric.unsync()
    metric.update(*sketch_batch(name, 0, 50))  # ranks go on by themselves
    return value, sketch, again, synced, sketches.numbers(metric.compute())


def worker(rank, folder):
    """Run on each process: every metric over every split; then leave what was found in a file."""
    warnings.simplefilter("ignore", UserWarning)  # of torchmetrics, on a rank that has no rows
    torch.set_num_threads(1)
    found = {}
    try:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
        for split in SKETCH_SPLITS:
            for name in SKETCHES:
                found["sketch", split, name] = of_sketch(rank, split, name)
        alone = sketches.METRICS["smooth"][0](sync_on_compute=False)
        alone.update(*sketch_batch("smooth", rank * 100, rank * 100 + 60))
        found["not gathered"] = alone.sketch().to_bytes()
        for split, parts in SPLITS.items():
            for name, make in MAKES.items():
                metric = make()
                for bounds in parts[rank]:
                    metric.update(*batch(name, *bounds))
                value = metric.compute()
                metric.sync()
                states = {key: pickle.dumps(state) for key, state in metric.metric_state.items()}
                metric.unsync()
                metric.update(*batch(name, 0, 50))  # ranks go on by themselves
                found[split, name] = plain(value), states, plain(metric.compute())
        for name, make in MAKES.items():
            for kind, doubles in PRECISIONS.items():
                mixed = make()
                for bounds, double in zip(((0, 150), (150, 200)), doubles[rank], strict=False):
                    mixed.update(*batch(name, *(200 * rank + bound for bound in bounds), double=double))
                found[kind, name] = plain(mixed.compute())
        # Each step's value is that of both ranks' batches together.
        step = ct.CalibrationError("binary", dist_sync_on_step=True)
        found["step"] = [plain(step(*batch("binary", *bounds))) for bounds in ((rank * 50, rank * 50 + 50),)]
        found["total"] = plain(step.compute())
        # One rank decided for probabilities, the other for logits: nobody can say which is right.
        divided = ct.CalibrationError("binary")
        divided.update(torch.tensor([0.2, 0.7]) * (10 if rank else 1), torch.tensor([0, 1]))
        with pytest.raises(ValueError, match="probabilities on one rank and logits on another"):
            divided.compute()
        # A rank without rows learns from the others how they read theirs.
        learning = ct.CalibrationError("binary")
        if rank == 0:
            learning.update(torch.tensor([-3.0, 4.0]), torch.tensor([0, 1]))
        learning.compute()
        learning.update(torch.tensor([0.2, 0.7]), torch.tensor([0, 1]))
        found["learnt"] = plain(learning.compute())
    except BaseException:
        found = {"error": traceback.format_exc()}
    Path(folder, f"rank{rank}").write_bytes(pickle.dumps(found))
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(worker, args=(str(folder),), nprocs=2)
    found = [pickle.loads(Path(folder, f"rank{rank}").read_bytes()) for rank in (0, 1)]
    for one in found:
        assert "error" not in one, one["error"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize("split", SPLITS)
def test_two_processes_are_one(ranks, split, name):
    alone = MAKES[name]()
    for bounds in (b for part in SPLITS[split] for b in part):
        alone.update(*batch(name, *bounds))
    value = plain(alone.compute())
    states = alone.clone().metric_state
    for _ in (0, 1):
        alone.update(*batch(name, 0, 50))
    after = plain(alone.compute())
    for found in ranks:
        got, synced, later = found[split, name]
        assert got == pytest.approx(value, rel=1e-7, nan_ok=True)  # values are single precision
        assert later == pytest.approx(after, rel=1e-7, nan_ok=True)
        for key, state in states.items():
            other = pickle.loads(synced[key])
            if isinstance(state, list):
                joined = torch.cat(state) if state else torch.empty(0)
                if key.startswith("class_"):  # one part a rank
                    other = other.reshape(-1, joined.numel()).sum(0)
                assert other.numel() == joined.numel()
                if not joined.is_floating_point():
                    assert torch.equal(other.sort(0).values, joined.sort(0).values)
            elif state.is_floating_point():
                torch.testing.assert_close(other, state, rtol=1e-12, atol=1e-12)
            else:
                assert torch.equal(other, state), key


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize("kind", PRECISIONS)
def test_ranks_of_different_precision(ranks, kind, name):
    """Values are double if any batch was; sums of two ranks round in another order, 1e-12 relative."""
    alone = MAKES[name]()
    for rank, doubles in enumerate(PRECISIONS[kind]):
        for bounds, double in zip(((0, 150), (150, 200)), doubles, strict=False):
            alone.update(*batch(name, *(200 * rank + bound for bound in bounds), double=double))
    expected = plain(alone.compute())
    for found in ranks:
        assert found[kind, name] == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.slow
def test_steps_are_of_all_ranks(ranks):
    alone = ct.CalibrationError("binary")
    alone.update(*batch("binary", 0, 100))
    for found in ranks:
        assert found["step"] == [pytest.approx(alone.compute().item(), rel=1e-7)]
        assert found["total"] == pytest.approx(alone.compute().item(), rel=1e-7)


@pytest.mark.slow
def test_ranks_share_the_decision(ranks):
    alone = ct.CalibrationError("binary", logits=True)
    alone.update(torch.tensor([-3.0, 4.0]), torch.tensor([0, 1]))
    for _ in (0, 1):
        alone.update(torch.tensor([0.2, 0.7]), torch.tensor([0, 1]))
    for found in ranks:
        assert found["learnt"] == pytest.approx(alone.compute().item(), rel=1e-6)


# ---------------------------------------------------------------- metrics that keep a sketch


@pytest.mark.slow
@pytest.mark.parametrize("name", SKETCHES)
@pytest.mark.parametrize("split", SKETCH_SPLITS)
def test_two_sketches_are_one(ranks, split, name):
    alone = sketches.METRICS[name][0]()
    for bounds in (b for part in SPLITS[split] for b in part):
        alone.update(*sketch_batch(name, *bounds))
    value, whole = sketches.numbers(alone.compute()), alone.sketch()
    for _ in (0, 1):
        alone.update(*sketch_batch(name, 0, 50))
    for got, sketch, again, synced, later in (found["sketch", split, name] for found in ranks):
        np.testing.assert_allclose(got, value, rtol=2e-7, atol=1e-9)
        np.testing.assert_allclose(later, sketches.numbers(alone.compute()), rtol=2e-7, atol=1e-9)
        assert sketch == again
        assert synced
        read = calibrant.CalibrationSketch.from_bytes(sketch)
        tables = (read.class_tables, whole.class_tables) if "classwise" in name else ([read.table], [whole.table])
        for table, expected in zip(*tables, strict=True):
            np.testing.assert_array_equal(table.counts, expected.counts)
            np.testing.assert_array_equal(table.positives, expected.positives)
            np.testing.assert_allclose(table.score_sums, expected.score_sums, rtol=1e-12)
        assert read.totals.correct == whole.totals.correct
        assert read.totals.brier == pytest.approx(whole.totals.brier, rel=1e-12)


@pytest.mark.slow
def test_a_rank_that_does_not_gather_has_its_own(ranks):
    for rank, found in enumerate(ranks):
        sketch = calibrant.CalibrationSketch()
        sketch.update(*sketch_batch("smooth", rank * 100, rank * 100 + 60))
        assert calibrant.CalibrationSketch.from_bytes(found["not gathered"]) == sketch
