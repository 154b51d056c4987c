"""LightGBM with the smooth calibration error on its log, also for a custom objective.

pip install . lightgbm
python examples/lightgbm_eval.py
"""

import lightgbm as lgb
import numpy as np

import calibrant


def calibration(preds, data):
    """For an objective of LightGBM's own: ``preds`` are probabilities."""
    error = calibrant.smooth_calibration_error(preds, data.get_label())
    return "smooth_ece", error, False  # lower is better


def calibration_of_margins(preds, data):
    """For a custom objective: ``preds`` are raw scores, here logits."""
    error = calibrant.smooth_calibration_error(preds, data.get_label(), logits=True)
    return "smooth_ece", error, False


def logistic(preds, data):
    """The logistic loss as a custom objective: its gradient and its second derivative."""
    probs = 1 / (1 + np.exp(-preds))
    return probs - data.get_label(), probs * (1 - probs)


def visits(n, rng):
    """Return visits to a shop, and whether something was bought."""
    features = rng.normal(size=(n, 8))
    log_odds = 1.5 * features[:, 0] + features[:, 1] * features[:, 2] - 1
    return features, (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(int)


def main(rounds=300):
    rng = np.random.default_rng(0)
    train = lgb.Dataset(*visits(2_000, rng))
    features, bought = visits(2_000, rng)
    valid = lgb.Dataset(features, bought, reference=train)
    params = {"learning_rate": 0.03, "verbosity": -1, "num_threads": 1}
    params |= {"seed": 0, "deterministic": True, "force_row_wise": True}
    logs = {}

    def fit(name, feval, *callbacks, **more):
        logs[name] = {}
        record = lgb.record_evaluation(logs[name])
        settings, calls = {**params, **more}, [record, *callbacks]
        return lgb.train(
            settings, train, rounds, [valid], ["valid"], feval=feval, callbacks=calls
        )

    def stop():
        return lgb.early_stopping(20, first_metric_only=True, verbose=False)

    # LightGBM's metrics come first, then feval's: the log loss decides.
    settings = {"objective": "binary", "metric": "binary_logloss"}
    booster = fit("log loss", calibration, stop(), **settings)
    losses, errors = (
        logs["log loss"]["valid"][n] for n in ("binary_logloss", "smooth_ece")
    )
    for i in (1, 10, 50, booster.best_iteration):
        print(f"round {i:3}: log loss {losses[i - 1]:.3f}, smooth ECE {errors[i - 1]:.3f}")
    error = calibrant.evaluate(booster.predict(features), bought)["smece"]  # the best round
    print(f"stopped by the log loss at round {booster.best_iteration}, ", end="")
    print(f"interval {error.low:.3f} to {error.high:.3f}")

    # Without metrics of LightGBM the calibration error decides. Do not do that: a model
    # that gives everyone the base rate is calibrated.
    hasty = fit("smooth ECE", calibration, stop(), objective="binary", metric="None")
    print(f"stopped by the calibration error: round {hasty.best_iteration}")

    # A custom objective. Not with metrics of LightGBM, which expect probabilities.
    custom = fit("custom", calibration_of_margins, objective=logistic, metric="None")
    last = logs["custom"]["valid"]["smooth_ece"][-1]
    print(f"custom objective, round {rounds}: smooth ECE {last:.3f}")
    models = {"booster": booster, "hasty": hasty, "custom": custom}
    return {**models, "features": features, "bought": bought, "logs": logs}


if __name__ == "__main__":
    main()
