"""What intervals, noise floors and p-values with 1,000 resamples add to `evaluate`; the floor is the values alone."""

from __future__ import annotations

import time

import numpy as np
import pytest
import relplot
from contest import Contest, over_floor, within
from samples import Sample, binary

import calibrant

ROWS_OF_GROUP = 57


def asked(sample: Sample) -> calibrant.Report:
    return calibrant.evaluate(sample.probs, sample.targets, n_resamples=1000)


def values(sample: Sample) -> calibrant.Report:
    return calibrant.evaluate(sample.probs, sample.targets, level=None)


def check(report: calibrant.Report, sample: Sample) -> None:
    """Compare value, floor and interval with their known values and limits."""
    ece, n = report["ece"], len(sample.probs)
    assert ece.value == pytest.approx(values(sample)["ece"].value, rel=1e-12)
    assert ece.low <= ece.value <= ece.high
    p = sample.probs.astype(np.float64)
    bins = np.minimum(np.ceil(p * 15).astype(int) - 1, 14)
    mean = np.sqrt(2 / np.pi) * np.sqrt(np.bincount(bins, p * (1 - p))).sum() / n
    assert ece.floor.mean == pytest.approx(mean, rel=0.05)  # 1,000 replicates with a deviation of a fifth of the mean
    assert ece.p_value == pytest.approx(1 / 1001)


GOALS = {200: within(0.06), 100_000: within(0.25), 2_000_000: over_floor(1.5)}


@pytest.mark.parametrize(("n", "rounds"), [(200, 21), (100_000, 9), (2_000_000, 5)])
def test_intervals(contest: Contest, n: int, rounds: int) -> None:
    sample = binary(n)
    answers = contest(
        f"{n:,} scores of one event: `evaluate` with every interval and curve; floor: values alone",
        lambda: asked(sample),
        floor=lambda: values(sample),
        goals=[GOALS[n]],
        rounds=rounds,
    )
    if n > 200:
        check(answers.ours, sample)


def test_against_relplot(contest: Contest) -> None:
    sample = binary(100_000)

    def peer() -> float:
        diagram = relplot.prepare_rel_diagram(sample.probs, sample.targets, plot_confidence_band=False, num_bootstrap=1)
        return float(diagram["ce"])

    answers = contest(
        "100,000 scores: `evaluate` with every interval and curve; peer: one interval of the smooth ECE, 100 resamples",
        lambda: asked(sample),
        floor=lambda: values(sample),
        peers={"relplot": peer},
        rounds=5,
        peer_rounds=2,
    )
    check(answers.ours, sample)
    assert answers.ours["smece"].value == pytest.approx(answers.peers["relplot"], abs=2e-3)


@pytest.mark.parametrize(("groups", "goal"), [(1_200, 5.0), (10_000, 40.0)])
def test_many_groups(contest: Contest, groups: int, goal: float) -> None:
    """Time the tests and intervals that tell groups apart, in processor time."""
    sample = binary(ROWS_OF_GROUP * groups)
    names = np.repeat(np.arange(groups), ROWS_OF_GROUP)
    answers = contest(
        f"{groups:,} groups of {ROWS_OF_GROUP} rows: `evaluate` with every group's test and interval; processor time",
        lambda: calibrant.evaluate(sample.probs, sample.targets, groups=names),
        floor=None,
        goals=[within(goal)],
        rounds=3 if groups < 10_000 else 1,
        warm_up=groups < 10_000,
        clock=time.process_time,
    )
    assert len(answers.ours.groups) == groups
    last = answers.ours.groups[-1]
    own = names == names[-1]
    alone = calibrant.evaluate(sample.probs[own], sample.targets[own])
    assert (last.ece, last.test) == (alone["ece"], alone.test)
