"""Measure how fast a GPU reads predictions: ours, a copy of the same bytes, and what people use, in one run.

python benchmarks/gpu.py              prints a row for each type and number of classes, and which goals are met
python benchmarks/gpu.py --quick      small inputs, few rounds
python benchmarks/gpu.py --counts     on any machine: more rows in a bin than float32 counts
python benchmarks/gpu.py --dry-run    on the host, tiny: shows that the script runs; its figures mean nothing

Without a GPU it says so and ends with status 0. With one it ends with 1 if an answer is wrong, for any times.

A round times each contender once, by the device's clock. A change of the device's speed then affects all of them, and
the figures are medians. Bytes per second count the bytes that must move: for the copy those read and written, for our
reading the input, the targets and the output of each row. The input exceeds any cache.

Answers are compared with those in float64. The answers of torchmetrics are printed too: it counts in float32, which
stops at 2^24 rows.

The last part is a table in Markdown, of small batches by wall clock, with the launches of the profiler, and of
functions of calibrant on tensors of the device.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchmetrics.classification import BinaryCalibrationError, MulticlassCalibrationError

from calibrant import evaluate, expected_calibration_error, recalibrate
from calibrant import torch as ct
from calibrant.kernels import tensor_cells, tensors
from calibrant.table import grid

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
CLASSES = (2, 10, 100, 1_000, 1_024, 4_096, 32_000, 50_257, 128_256, 262_144)
ROW_BYTES = 4 * 4 + 1  # that `tensors.read_blocks` writes: four floats and whether the row is right
SMALL = ((256, 10), (1_024, 1_000), (128, 50_257), (50_000, 1_000))
N_BINS = 15
LEAST_SHARE, FROM_CLASSES, LEAST_RATIO = 0.8, 1_024, 5.0


class Plan(NamedTuple):
    """Where to measure, how many bytes of input, how many rounds, which numbers of classes."""

    device: torch.device
    size: int
    rounds: int
    classes: tuple[int, ...]


class Sample(NamedTuple):
    logits: Tensor
    probs: Tensor
    targets: Tensor


def sample(plan: Plan, dtype: torch.dtype, n_classes: int) -> Sample:
    """Return a somewhat over-confident classifier's predictions: noise, and one class of each row far or near above."""
    n = max(4, plan.size // (n_classes * dtype.itemsize))
    generator = torch.Generator(plan.device).manual_seed(20_261_123)
    targets = torch.randint(0, n_classes, (n,), generator=generator, device=plan.device)
    favoured = torch.where(torch.rand(n, generator=generator, device=plan.device) < 0.7, targets, targets.flip(0))
    height = torch.randn(n, generator=generator, device=plan.device) * 2 + 3 + float(torch.tensor(n_classes).log())
    logits = torch.randn((n, n_classes), generator=generator, device=plan.device, dtype=dtype)
    logits.scatter_(1, favoured[:, None], height.clamp(max=14)[:, None].to(dtype))
    probs = torch.empty_like(logits)
    for rows in blocks(logits):
        probs[rows] = logits[rows].float().softmax(1).to(dtype)
    return Sample(logits, probs, targets)


def blocks(values: Tensor) -> list[slice]:
    step = max(1, (1 << 24) // values.shape[1])
    return [slice(a, a + step) for a in range(0, len(values), step)]


def clock(plan: Plan, call: Callable[[], Any]) -> float:
    """Return the seconds of one call, as the device counts them."""
    if plan.device.type != "cuda":
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    call()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) / 1e3


def peak(plan: Plan, call: Callable[[], Any]) -> int | None:
    """Return the most bytes that a call holds on the device in addition to those held before."""
    if plan.device.type != "cuda":
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - held


def probmetrics() -> Any:
    if importlib.util.find_spec("probmetrics") is None:
        return None
    from probmetrics.metrics import Metrics

    return Metrics.from_names(["logloss", "brier", f"ece-{N_BINS}"])


def read(values: Tensor, targets: Tensor, *, logits: bool) -> tensors.RowReading:
    return tensors.read_blocks(values, targets, logits=logits, ignore_index=None, tolerance=0.05)


def check(reading: tensors.RowReading, values: Tensor, targets: Tensor, *, logits: bool) -> None:
    """Compare the reading of each row with the formulas, in double precision."""
    assert reading.faults.sum() == 0
    for rows in blocks(values):
        wide = values[rows].double()
        logs = wide.log_softmax(1) if logits else wide.log()
        probs = logs.exp()
        labels = targets[rows, None]
        expected = (probs.amax(1), logs.gather(1, labels)[:, 0], probs.square().sum(1))
        for name, numbers in zip(("top", "log_p_target", "squares"), expected, strict=True):
            part = getattr(reading, name)[rows].double()
            torch.testing.assert_close(
                part, numbers, rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
            )
        assert torch.equal(reading.correct[rows] == 1, wide.argmax(1) == targets[rows])


class Row(NamedTuple):
    dtype: str
    n_classes: int
    n: int
    copied: float
    shares: tuple[float, float]
    seconds: dict[str, float]
    memory: dict[str, int | None]
    errors: tuple[float, float]


def reference_error(logits: Tensor, targets: Tensor) -> float:
    """Return the calibration error of the top label over bins of equal width, in double precision."""
    sums = torch.zeros((3, N_BINS), dtype=torch.float64, device=logits.device)
    for rows in blocks(logits):
        # Half types are widened first, so that their scores have double precision too.
        top, label = logits[rows].double().softmax(1).max(1)
        place = (top.float() * N_BINS).long().clamp(max=N_BINS - 1)
        ones, right = torch.ones_like(top), (label == targets[rows]).double()
        for total, part in zip(sums, (ones, top, right), strict=True):
            total.scatter_add_(0, place, part)
    return float((sums[1] - sums[2]).abs().sum() / sums[0].sum())


def measure(plan: Plan, dtype: torch.dtype, n_classes: int) -> Row:
    logits, probs, targets = sample(plan, dtype, n_classes)
    copy = torch.empty_like(logits)
    options = {"num_classes": n_classes, "num_bins": N_BINS, "logits": True}
    ours = ct.CalibrationError("multiclass", **options).to(plan.device)
    theirs = MulticlassCalibrationError(n_classes, n_bins=N_BINS).to(plan.device)
    calls: dict[str, Callable[[], Any]] = {
        "copy": lambda: copy.copy_(logits),
        "read probs": lambda: read(probs, targets, logits=False),
        "read logits": lambda: read(logits, targets, logits=True),
        "our update": lambda: ours.update(logits, targets),
        "torchmetrics": lambda: theirs.update(logits, targets),
        "softmax + max": lambda: logits.softmax(1).max(1),
    }
    metrics = probmetrics() if dtype == torch.float32 else None
    if metrics is not None:
        calls["probmetrics"] = lambda: metrics.compute_all_from_labels_logits(targets, logits)
    memory: dict[str, int | None] = {}
    for name, call in calls.items():  # everything runs once before it is timed: kernels are compiled
        call()
        memory[name] = peak(plan, call)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(plan.rounds):
        for name, call in calls.items():
            theirs.reset()  # it keeps every row
            seconds[name].append(clock(plan, call))
    medians = {name: statistics.median(times) for name, times in seconds.items()}

    assert torch.equal(copy, logits)
    theirs.reset()
    theirs.update(logits, targets)
    check(calls["read probs"](), probs, targets, logits=False)
    reading = calls["read logits"]()
    check(reading, logits, targets, logits=True)
    ours.reset()
    ours.update(logits, targets)
    right = reference_error(logits, targets)
    errors = (float(ours.compute()) - right, float(theirs.compute()) - right)
    assert abs(errors[0]) < 1e-4, errors
    if metrics is not None:
        answer = calls["probmetrics"]()
        loss = -reading.log_p_target.double().mean()
        brier = (reading.squares.double() - 2 * reading.p_target.double() + 1).mean()
        assert abs(float(answer["logloss"]) / float(loss) - 1) < 1e-3
        assert abs(float(answer["brier"]) / float(brier) - 1) < 1e-3
    moved = logits.nbytes + targets.nbytes + ROW_BYTES * len(targets)
    copied = 2 * logits.nbytes / medians["copy"]
    shares = (moved / medians["read probs"] / copied, moved / medians["read logits"] / copied)
    return Row(str(dtype).removeprefix("torch."), n_classes, len(targets), copied, shares, medians, memory, errors)


def measure_cells(plan: Plan) -> str:
    """Time scores into the cells of the grid, against a bucketize and a bincount for each outcome."""
    n = max(1_000, plan.size // 8)
    generator = torch.Generator(plan.device).manual_seed(20_261_124)
    scores = torch.rand(n, generator=generator, device=plan.device)
    outcomes = (torch.rand(n, generator=generator, device=plan.device) < scores).to(torch.uint8)
    evaluated = torch.ones(n, dtype=torch.bool, device=plan.device)
    edges = grid.edges("standard").astype("float32")
    table = tensor_cells.cell_table(edges, plan.device)
    bounds = torch.from_numpy(edges).to(plan.device)

    def counted() -> Tensor:
        cell = torch.bucketize(scores, bounds)
        return torch.stack([torch.bincount(cell[outcomes == y], minlength=len(bounds) + 1) for y in (0, 1)])

    calls = (lambda: tensor_cells.cells(scores, outcomes, evaluated, table), counted)
    cells = calls[0]()
    assert torch.equal(cells.counts, counted())
    assert abs(float(cells.sums[:2].sum()) / float(scores.double().sum()) - 1) < 1e-12
    times = [[clock(plan, call) for call in calls] for _ in range(plan.rounds)]
    ours, other = (statistics.median(column) for column in zip(*times, strict=True))
    return (
        f"{n:,} scores into {len(bounds) + 1:,} cells, counts and sums: {n / ours:.3g} a second; "
        f"bucketize and bincount, counts alone: {n / other:.3g} a second"
    )


def counts() -> str:
    """Return the calibration errors of 40 million scores: ours, that of torchmetrics and the right one."""
    scores = torch.cat([torch.full((30_000_000,), 0.9), torch.full((10_000_000,), 0.5)])
    outcomes = torch.ones(len(scores), dtype=torch.int64)
    outcomes[:30_000_000:5], outcomes[30_000_000::2] = 0, 0
    answers = []
    for metric in (ct.CalibrationError("binary", num_bins=N_BINS), BinaryCalibrationError(n_bins=N_BINS)):
        metric.update(scores, outcomes)
        answers.append(float(metric.compute()))
    assert abs(answers[0] - 0.075) < 1e-6
    return "ours {:.4f}, torchmetrics {:.4f}, right 0.0750".format(*answers)


def wall(plan: Plan, call: Callable[[], Any], times: int = 200) -> float:
    """Return the seconds of one call by the host's clock, until the device has done them all."""
    times = times if plan.device.type == "cuda" else 2
    call()
    if plan.device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        call()
    if plan.device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


def launches(plan: Plan, call: Callable[[], Any]) -> int | None:
    """Return how many kernels a call launches, as the profiler counts them."""
    if plan.device.type != "cuda":
        return None
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    return sum(event.count for event in seen.key_averages() if "Mem" not in event.key and "ynchronize" not in event.key)


def small_batches(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Yield rows of the table: an update by wall clock, torchmetrics', ours declared and not, and our launches."""
    generator = torch.Generator(plan.device).manual_seed(20_261_125)
    for n, n_classes in ((256, 10), (1_024, 1_000)) if plan.device.type != "cuda" else SMALL:
        logits = torch.randn((n, n_classes), generator=generator, device=plan.device) * 3
        targets = torch.randint(0, n_classes, (n,), generator=generator, device=plan.device)
        theirs = MulticlassCalibrationError(n_classes, n_bins=N_BINS).to(plan.device)
        of_theirs: float | None = wall(plan, lambda: (theirs.reset(), theirs.update(logits, targets)))  # noqa: B023
        makers: dict[str, Callable[..., Any]] = {
            "`CalibrationError`": lambda **how: ct.CalibrationError(
                "multiclass",
                num_classes=n_classes,  # noqa: B023
                num_bins=N_BINS,
                **how,
            ),
            "`CalibrationReport`": lambda **how: ct.CalibrationReport(state="sketch", level=None, **how),
            "`BrierScore`": ct.BrierScore,
        }
        for name, make in makers.items():
            declared, found = (make(logits=how).to(plan.device) for how in (True, None))
            seconds = [wall(plan, lambda metric=metric: metric.update(logits, targets)) for metric in (declared, found)]  # noqa: B023
            kernels = launches(plan, lambda metric=declared: metric.update(logits, targets))  # noqa: B023
            yield name, f"{n:,} × {n_classes:,}", micro(of_theirs), *map(micro, seconds), str(kernels or "–")
            of_theirs = None


def functions(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Yield rows of the table: functions of calibrant on tensors of the device, and on arrays of the host."""
    generator = torch.Generator(plan.device).manual_seed(20_261_126)
    for n, n_classes in ((1_024, 1_000), (50_000, 1_000)) if plan.device.type == "cuda" else ((200, 10),):
        logits = torch.randn((n, n_classes), generator=generator, device=plan.device) * 3
        targets = torch.randint(0, n_classes, (n,), generator=generator, device=plan.device)
        probs, on_host = logits.softmax(1), (logits.softmax(1).cpu().numpy(), targets.cpu().numpy())
        calls: dict[str, Callable[..., Any]] = {
            "`evaluate(level=None, classwise=False)`": lambda p, y: evaluate(p, y, level=None, classwise=False),
            "`expected_calibration_error`": lambda p, y: expected_calibration_error(p, y),
            "`recalibrate(notion='top-label')`": lambda p, y: recalibrate(p, y, notion="top-label"),
        }
        for name, call in calls.items():
            seconds = [wall(plan, lambda p=p, y=y: call(p, y), times=5) for p, y in ((probs, targets), on_host)]  # noqa: B023
            yield name, f"{n:,} × {n_classes:,}", micro(seconds[1]), micro(seconds[0]), "–", "–"


def micro(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1e6 * seconds:,.0f} µs"


def table(plan: Plan) -> str:
    """Return the table of small batches and of functions in Markdown."""
    heads = ("one call", "rows × classes", "torchmetrics, or from the host", "declared", "not declared", "launches")
    rows = [heads, ("---",) * len(heads), *small_batches(plan), *functions(plan)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def line(row: Row) -> str:
    times = [f"{name} {seconds * 1e3:.3g} ms" for name, seconds in row.seconds.items()]
    memory = [f"{name} {size / 1e6:.1f} MB" for name, size in row.memory.items() if size is not None]
    head = f"{row.dtype}, {row.n:,} × {row.n_classes:,}: copy {row.copied / 1e9:.1f} GB/s"
    shares = "of that probabilities are read at {:.0%}, logits at {:.0%}".format(*row.shares)
    beside = [f"in addition to the input: {', '.join(memory)}"] if memory else []
    beside.append("ECE less that of float64: ours {:.1e}, torchmetrics {:.1e}".format(*row.errors))
    return "\n    ".join([f"{head}; {shares}", ", ".join(times), *beside])


def goals(rows: list[Row]) -> list[str]:
    """Say which rows miss a goal."""
    missed = []
    for row in rows:
        name, share = f"{row.dtype}, {row.n_classes:,} classes", min(row.shares)
        if row.n_classes >= FROM_CLASSES and share < LEAST_SHARE:
            missed.append(f"{name}: {share:.0%} of the copy's bytes per second, not {LEAST_SHARE:.0%}")
        ratio = row.seconds["torchmetrics"] / row.seconds["our update"]
        if ratio < LEAST_RATIO:
            missed.append(f"{name}: update {ratio:.1f} times as fast as torchmetrics', not {LEAST_RATIO:g}")
        extra, entries = row.memory["our update"], row.n * row.n_classes
        if extra is not None and row.n_classes >= FROM_CLASSES and extra >= entries:
            missed.append(f"{name}: update holds {extra:,} bytes in addition to the input, at least one for each entry")
    return missed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small inputs, few rounds")
    parser.add_argument("--dry-run", action="store_true", help="on the host, tiny: figures mean nothing")
    parser.add_argument("--counts", action="store_true", help="on any machine: more rows than float32 counts")
    options = parser.parse_args(arguments)
    if options.counts:
        print(counts())
        return 0
    if options.dry_run:
        plan = Plan(torch.device("cpu"), 1 << 16, 2, (2, 1_000, 4_096))
    elif not torch.cuda.is_available():
        print("no GPU here (torch.cuda.is_available() is False): nothing was measured")
        return 0
    else:
        size, rounds = (1 << 28, 5) if options.quick else (1 << 30, 25)
        plan = Plan(torch.device("cuda", torch.cuda.current_device()), size, rounds, CLASSES)
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    rows = []
    for dtype in DTYPES:
        for n_classes in plan.classes:
            rows.append(measure(plan, dtype, n_classes))
            print(line(rows[-1]), flush=True)
    print(measure_cells(plan))
    print(table(plan), flush=True)
    if options.dry_run:
        print("a dry run: these figures mean nothing")
        return 0
    missed = goals(rows)
    print("\n".join(["missed:", *missed]) if missed else "all goals are met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
