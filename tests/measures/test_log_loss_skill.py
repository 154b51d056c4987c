"""The log loss skill score of one event."""

import math
import pickle

import numpy as np
import pytest
from sklearn.metrics import d2_log_loss_score

import calibrant


def drawn(seed, n=400):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.4, n).clip(1e-3, 1 - 1e-3)
    return p, (rng.random(n) < p).astype(int), rng.uniform(0.2, 2, n)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_explained_share_of_the_log_loss(seed):
    p, y, w = drawn(seed)
    assert calibrant.log_loss_skill_score(p, y) == pytest.approx(d2_log_loss_score(y, p), rel=1e-12)
    weighted = d2_log_loss_score(y, p, sample_weight=w)
    assert calibrant.log_loss_skill_score(p, y, weights=w) == pytest.approx(weighted, rel=1e-12)


def test_it_is_mcfaddens_share_of_the_likelihood():
    p, y, _ = drawn(3)
    likelihood = np.sum(y * np.log(p) + (1 - y) * np.log1p(-p))
    without = y.sum() * math.log(y.mean()) + (1 - y).sum() * math.log(1 - y.mean())
    assert calibrant.log_loss_skill_score(p, y) == pytest.approx(1 - likelihood / without, rel=1e-12)


def test_values_at_the_ends():
    assert calibrant.log_loss_skill_score([0, 1, 1], [0, 1, 1]) == 1
    assert calibrant.log_loss_skill_score([0.5] * 4, [0, 1, 1, 0]) == pytest.approx(0, abs=1e-15)
    assert calibrant.log_loss_skill_score([0.0, 0.5], [1, 0]) == -math.inf
    assert math.isnan(calibrant.log_loss_skill_score([0.2, 0.4], [1, 1]))


def test_the_interval_is_that_of_a_ratio_of_means():
    p, y, _ = drawn(4)
    losses = -np.where(y == 1, np.log(p), np.log1p(-p))
    rate = y.mean()
    base = -np.where(y == 1, math.log(rate), math.log(1 - rate))
    ratio = losses.mean() / base.mean()
    added = (ratio * base - losses) / base.mean()
    second = 0.75 * (ratio / base.mean() / 400) ** 2 * 400 / 399
    of_each = [
        (ratio * -np.log(rate if hit else 1 - rate) + np.log(p if hit else 1 - p)) / base.mean() for hit in (0, 1)
    ]
    implied = np.mean((1 - p) * of_each[0] ** 2 + p * of_each[1] ** 2)
    unlikely = 2 * max(np.minimum(p, 1 - p).sum(), ((p > 0.5) != y).sum())
    variance = max(added.var(), (unlikely * added.var() + 5 * implied) / (unlikely + 5))
    half = 1.959963984540054 * math.sqrt(variance / 399 + second)
    estimate = calibrant.evaluate(p, y, measures=["log_loss_skill"], n_resamples=0)["log_loss_skill"]
    assert (estimate.low, estimate.high) == pytest.approx((1 - ratio - half, 1 - ratio + half), rel=1e-9)


def test_one_score_has_an_interval_of_second_order():
    """Where every row has the base rate as its score, the skill is 0, and its estimate is never above it."""
    y = np.arange(200) < 60
    estimate = calibrant.evaluate(np.full(200, 0.3), y, measures=["log_loss_skill"], n_resamples=0)["log_loss_skill"]
    entropy = -0.3 * math.log(0.3) - 0.7 * math.log(0.7)
    half = 1.959963984540054 * math.sqrt(0.75 * 200 / 199) / entropy / 200
    assert (estimate.low, estimate.high) == pytest.approx((-half, half), rel=1e-6)


def test_reasons_without_a_value():
    infinite = calibrant.evaluate([0.0, 0.5, 0.5], [1, 0, 1], measures=["log_loss_skill"])["log_loss_skill"]
    assert infinite.details["reason"] == "infinite: an observed outcome had predicted probability 0"
    alike = calibrant.evaluate([0.2, 0.5], [1, 1], measures=["log_loss_skill"])["log_loss_skill"]
    assert alike.method == "not available: all outcomes are equal, so the base rate is a perfect prediction"


def test_the_metric_is_made_from_the_measure():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchmetrics")
    from calibrant.torch import LogLossSkill

    p, y, _ = drawn(5)
    rows, sketch = LogLossSkill(), LogLossSkill(state="sketch")
    for metric in (rows, sketch):
        metric.update(torch.tensor(p), torch.tensor(y))
    exact = calibrant.log_loss_skill_score(p, y)
    assert (rows.compute().item(), rows.error_bound, rows.higher_is_better) == (pytest.approx(exact), 0.0, True)
    assert abs(sketch.compute().item() - exact) <= sketch.error_bound + 1e-12
    assert 0 < sketch.error_bound < 1e-3
    assert pickle.loads(pickle.dumps(rows)).compute() == rows.compute()
