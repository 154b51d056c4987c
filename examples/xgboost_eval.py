"""XGBoost with the calibration error on its log: an event, classes, and XGBClassifier.

    pip install . xgboost-cpu scikit-learn
    python examples/xgboost_eval.py

``xgboost`` is the same package with the libraries for GPUs.
"""

import numpy as np
import xgboost as xgb

import calibrant


def calibration(preds, data):
    """For an objective of XGBoost's own: ``preds`` are probabilities, (N,) or (N, C)."""
    return "ece", calibrant.expected_calibration_error(preds, data.get_label())


def calibration_of_margins(preds, data):
    """For a custom objective: ``preds`` are raw margins, here logits."""
    return "ece", calibrant.expected_calibration_error(preds, data.get_label(), logits=True)


def ece(targets, probs):
    """For XGBClassifier: targets first, as in scikit-learn; its name is logged."""
    return calibrant.expected_calibration_error(probs, targets)


def logistic(preds, data):
    """The logistic loss as a custom objective: its gradient and its second derivative."""
    probs = 1 / (1 + np.exp(-preds))
    return probs - data.get_label(), probs * (1 - probs)


def visits(n, rng):
    """Return visits to a shop, and whether nothing, little or much was bought."""
    features = rng.normal(size=(n, 8))
    log_odds = 1.5 * features[:, 0] + features[:, 1] * features[:, 2] + rng.logistic(size=n)
    return features, np.digitize(log_odds, [1, 3])


def main(rounds=200):
    rng = np.random.default_rng(0)
    (x, y), (features, amounts) = visits(2_000, rng), visits(2_000, rng)
    train, valid = xgb.DMatrix(x, y > 0), xgb.DMatrix(features, amounts > 0)
    params = {"eta": 0.1, "max_depth": 5, "seed": 0, "nthread": 1}
    logs = {name: {} for name in ("event", "custom", "classes")}

    # Stop by the log loss, and log the calibration error. By default the last decides.
    stop = xgb.callback.EarlyStopping(rounds=20, metric_name="logloss", save_best=True)
    booster = xgb.train(
        {**params, "objective": "binary:logistic", "eval_metric": "logloss"},
        train,
        rounds,
        evals=[(valid, "valid")],
        custom_metric=calibration,
        callbacks=[stop],
        evals_result=logs["event"],
        verbose_eval=False,
    )
    losses, errors = (logs["event"]["valid"][name] for name in ("logloss", "ece"))
    for i in (1, 10, booster.best_iteration + 1, len(errors)):
        print(f"round {i:3}: log loss {losses[i - 1]:.3f}, ECE {errors[i - 1]:.3f}")
    error = calibrant.evaluate(booster.predict(valid), amounts > 0)["ece"]
    print(
        f"the best round: ECE {error.value:.3f} ({error.low:.3f} to {error.high:.3f}), ",
        end="",
    )
    print(f"noise floor {error.floor.upper:.3f}")

    custom = xgb.train(
        {**params, "disable_default_eval_metric": True, "base_score": 0.0},
        train,
        30,
        obj=logistic,
        custom_metric=calibration_of_margins,
        evals=[(valid, "valid")],
        evals_result=logs["custom"],
        verbose_eval=False,
    )
    print(f"custom objective, round 30: ECE {logs['custom']['valid']['ece'][-1]:.3f}")

    classes = xgb.train(
        {**params, "objective": "multi:softprob", "num_class": 3},
        xgb.DMatrix(x, y),
        30,
        custom_metric=calibration,
        evals=[(xgb.DMatrix(features, amounts), "valid")],
        evals_result=logs["classes"],
        verbose_eval=False,
    )
    last = logs["classes"]["valid"]["ece"][-1]
    print(f"three classes, round 30: ECE of the predicted class {last:.3f}")

    model = xgb.XGBClassifier(
        n_estimators=30, max_depth=5, eval_metric=ece, seed=0, n_jobs=1
    )
    model.fit(x, y > 0, eval_set=[(features, amounts > 0)], verbose=False)
    logs["sklearn"] = model.evals_result()
    print(f"XGBClassifier, round 30: ECE {logs['sklearn']['validation_0']['ece'][-1]:.3f}")
    models = {"booster": booster, "custom": custom, "classes": classes, "model": model}
    return {**models, "features": features, "amounts": amounts, "logs": logs}


if __name__ == "__main__":
    main()
