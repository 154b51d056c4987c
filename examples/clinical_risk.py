"""A risk model on 150 patients: what so few patients can say about calibration.

    pip install . scikit-learn
    python examples/clinical_risk.py

From four measurements of cell nuclei (scikit-learn's breast cancer data) the model predicts
whether a tumour is malignant. The nuclei's size is not among them: it makes the groups.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant
from calibrant.inference import cox_test, noise_floor

MEASURED = ["mean texture", "mean smoothness", "mean symmetry", "mean fractal dimension"]


def main(patients=150):
    # Before any data: the ECE of a perfect model on so few patients, and how many you need.
    before = noise_floor(patients)
    floor = before.floors["ece"]
    print(f"{patients} patients: a perfect model's ECE is {floor.mean:.3f}, ", end="")
    print(f"up to {floor.upper:.3f};")
    print(f"  {before.rows_for(0.02):,} patients are needed for one of 0.02")

    data = load_breast_cancer()
    columns = dict(zip(data.feature_names, data.data.T, strict=True))
    malignant = (data.target == 0).astype(int)
    rows, held_out = train_test_split(
        np.arange(len(malignant)), test_size=patients, stratify=malignant, random_state=0
    )
    measured = np.stack([columns[name] for name in MEASURED], axis=1)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(measured[rows], malignant[rows])
    risks, outcomes = model.predict_proba(measured[held_out])[:, 1], malignant[held_out]

    # Thirds by size, with limits from the patients that the model was fitted to.
    radius = columns["mean radius"]
    limits = np.quantile(radius[rows], [1 / 3, 2 / 3])
    names = np.array(["1 small", "2 medium", "3 large"])
    sizes = names[np.digitize(radius[held_out], limits)]
    report = calibrant.evaluate(risks, outcomes, groups=sizes)
    error, gap, gain = (report[name] for name in ("ece", "mean_gap", "miscalibration"))
    print(f"ECE {error.value:.3f} ({error.low:.3f} to {error.high:.3f}), ", end="")
    print(f"noise floor {error.floor.upper:.3f}")
    print(f"Mean difference (predicted - observed) {gap.value:+.3f} ", end="")
    print(f"({gap.low:+.3f} to {gap.high:+.3f})")

    # Cox: logit P = a + b logit risk. b below 1: too extreme, as overfitted models are.
    cox = cox_test(risks, outcomes)
    slope, intercept = cox.details["slope"], cox.details["in_the_large"]
    print(f"Slope {slope:.2f}; intercept at slope 1 {intercept:+.2f}; p {cox.p_value:.2f}")
    score = report["brier"].value
    print(f"Brier score {score:.3f}; isotonic recalibration lowers it by {gain.value:.3f},")
    print(f"  and would lower a perfect model's by {gain.floor.mean:.3f} on average")

    print("Mean difference in each group:")
    for group in report.groups:
        gap = group.report["mean_gap"]
        verdict = "significant" if group.called_out else "not significant"
        print(f"  {group.name:<8} {group.report.n} patients, {gap.value:+.2f} ", end="")
        print(f"({gap.low:+.2f} to {gap.high:+.2f}), ", end="")
        print(f"adjusted p {group.adjusted_p_value:.2g}: {verdict}")
    inputs = {"risks": risks, "outcomes": outcomes, "groups": sizes}
    return {**inputs, "report": report, "cox": cox, "floor": floor}


if __name__ == "__main__":
    main()
