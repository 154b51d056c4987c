"""What a leaderboard of twenty models costs: measures and pairs with intervals. The peer is paired t-tests alone."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from contest import Contest, within
from scipy import stats

import calibrant

MODELS, QUESTIONS = 20, 100_000


def test_twenty_models(contest: Contest) -> None:
    rng = np.random.default_rng(0)
    easy = rng.normal(1, 1, QUESTIONS)
    models = {}
    for k in range(MODELS):
        known = easy - 0.02 * k + rng.normal(0, 0.7, QUESTIONS)
        right = rng.random(QUESTIONS) < 1 / (1 + np.exp(-known))
        models[f"model {k}"] = 1 / (1 + np.exp(-1.2 * known)), right
    losses = [(p - y) ** 2 for p, y in models.values()]
    answers = contest(
        "20 models × 100,000 questions: 190 pairs, 7 measures, leaderboard; peer: paired t-tests of one measure alone",
        lambda: calibrant.compare(models),
        floor=np.concatenate([p for p, _ in models.values()]),
        peers={
            "scipy.stats.ttest_rel": lambda: [stats.ttest_rel(one, two) for one, two in combinations(losses, 2)],
        },
        goals=[within(5.0)],
    )
    comparison, tests = answers.ours, answers.peers["scipy.stats.ttest_rel"]
    for pair, test in zip(comparison.pairs, tests, strict=True):
        low, high = test.confidence_interval(0.95)
        assert (pair["brier"].low, pair["brier"].high) == pytest.approx((low, high), rel=1e-3, abs=1e-6)
    order = sorted(range(MODELS), key=lambda k: float(losses[k].mean()))
    assert [each.name for each in comparison.leaderboard] == [f"model {k}" for k in order]
