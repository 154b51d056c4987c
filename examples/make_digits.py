"""Make digits.parquet: held-out predictions of two real models on scikit-learn's bundled handwritten digits.

Every one of the 1,797 images is predicted by models that have not seen it (ten-fold cross-validation). Columns:

    p_0 ... p_9                 probabilities of the ten digits by a logistic regression
    overconfident_0 ... _9      the same by a Gaussian naive Bayes, which treats every pixel as independent evidence,
                                so it is over-confident
    target                      the digit

Run it again with scikit-learn and pyarrow installed: python examples/make_digits.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

TARGET = Path(__file__).with_name("digits.parquet")


def predictions() -> dict[str, np.ndarray]:
    """Return the columns of the file."""
    images, digits = load_digits(return_X_y=True)
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    models = {
        "p": make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000)),
        "overconfident": GaussianNB(var_smoothing=1e-3),
    }
    columns = {}
    for name, model in models.items():
        probs = cross_val_predict(
            model, images, digits, cv=folds, method="predict_proba"
        ).astype(np.float32)
        columns |= {f"{name}_{k}": probs[:, k] for k in range(10)}
    return columns | {"target": digits.astype(np.int8)}


def main() -> None:
    pq.write_table(pa.table(predictions()), TARGET, compression="zstd")


if __name__ == "__main__":
    main()
