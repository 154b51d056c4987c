"""Generated predictions: of one event, of classes and of labels, of rows in clusters, with weights and groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

N = 400
N_CLUSTERS = 60
_RNG = np.random.default_rng(20)


class Data(NamedTuple):
    """Predictions of two models, their targets, and the judged event if it is not that of the shape."""

    probs: np.ndarray
    other: np.ndarray
    targets: np.ndarray
    notion: str | None = None

    @property
    def evaluated(self) -> dict[str, str]:
        """The option that says what is judged."""
        return {} if self.notion is None else {"notion": self.notion}


#: Clusters of one row to twenty.
CLUSTERS = (N_CLUSTERS * _RNG.random(N) ** 1.5).astype(int)
_EFFECTS = _RNG.normal(size=N_CLUSTERS)
#: Groups of a hundred rows and more, and one of about twenty.
GROUPS = _RNG.choice(["a", "b", "c", "few"], N, p=[0.35, 0.3, 0.3, 0.05])
WHOLE, FRACTIONS = _RNG.integers(0, 4, N), _RNG.random(N) * 3


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of logits."""
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def logit(probs: np.ndarray) -> np.ndarray:
    """Return the log-odds of probabilities."""
    return np.asarray(np.log(probs / (1 - probs)))


def event(n: int = N, seed: int = 1) -> Data:
    """Return scores of one event, whose outcomes depend on the clusters of the rows."""
    rng = np.random.default_rng(seed)
    probs = rng.random(n)
    odds = 0.7 * logit(probs) - 0.3 + np.resize(_EFFECTS[CLUSTERS], n)
    return Data(probs, probs**1.3, (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int))


def classes(n: int = N, width: int = 3, seed: int = 2) -> Data:
    """Return probabilities of classes, and labels drawn from flatter ones that depend on the clusters."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, width)) * 2
    true = 0.6 * logits
    true[:, 0] += np.resize(_EFFECTS[CLUSTERS], n)
    targets = (rng.random((n, 1)) > softmax(true).cumsum(axis=1)).sum(axis=1)
    other = softmax(logits * 0.7 + rng.normal(size=(n, width)) * 0.3)
    return Data(softmax(logits), other, np.minimum(targets, width - 1))


def labels(n: int = N, width: int = 3, seed: int = 3) -> Data:
    """Return probabilities of labels, several of which may be right."""
    each = [event(n, seed + k) for k in range(width)]
    columns = (np.column_stack(parts) for parts in zip(*(one[:3] for one in each), strict=True))
    return Data(*columns, notion="multilabel")


EVENT, CLASSES, LABELS = event(), classes(), labels()

#: The kinds of predictions, each with another judged event.
KINDS = {
    "event": EVENT,
    "top label": CLASSES,
    "classwise": CLASSES._replace(notion="classwise"),
    "multilabel": LABELS,
}

#: How the rows were drawn, as the options that say so.
DESIGNS: dict[str, dict[str, Any]] = {
    "rows": {},
    "clusters": {"clusters": CLUSTERS},
    "clusters, weights": {"clusters": CLUSTERS, "weights": FRACTIONS},
    "clusters, whole weights": {"clusters": CLUSTERS, "weights": WHOLE},
    "clusters, whole weights of a survey": {"clusters": CLUSTERS, "weights": WHOLE, "weights_are": "sampling"},
    "clusters of text": {"clusters": np.array([f"patient {c}" for c in CLUSTERS])},
    "five clusters": {"clusters": CLUSTERS % 5},
    "one cluster": {"clusters": np.zeros(N, dtype=int)},
    "clusters of one row": {"clusters": np.arange(N)},
    "weights": {"weights": FRACTIONS},
    "whole weights": {"weights": WHOLE},
    "whole weights, declared": {"weights": WHOLE, "weights_are": "frequency"},
    "whole weights of a survey": {"weights": WHOLE, "weights_are": "sampling"},
}

#: The designs for what does not ask for all of them.
MAIN_DESIGNS = {name: DESIGNS[name] for name in ("rows", "clusters", "clusters, weights")}
