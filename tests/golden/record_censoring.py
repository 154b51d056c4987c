"""Record the Kaplan-Meier estimates of lifelines at horizons, into censoring.json beside this file.

To run it again, with lifelines 0.30.3:

    pip install lifelines==0.30.3
    python tests/golden/record_censoring.py

The times are rounded, so that events and censorings have the same times. lifelines lets events precede censorings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lifelines
import numpy as np
from lifelines.datasets import load_waltons

HERE = Path(__file__).resolve().parent


def sets() -> dict[str, dict[str, Any]]:
    """Return the data sets: one of lifelines with two groups, and a simulated one with many ties."""
    waltons = load_waltons()
    rng = np.random.default_rng(0)
    events, censorings = rng.exponential(10, 300), rng.exponential(15, 300)
    times = np.ceil(np.minimum(events, censorings))
    return {
        "waltons": {
            "times": waltons["T"].tolist(),
            "events": waltons["E"].tolist(),
            "groups": waltons["group"].tolist(),
            "horizons": [20, 45, 56, 70],
        },
        "ties": {
            "times": times.tolist(),
            "events": (events <= censorings).astype(int).tolist(),
            "groups": (np.arange(300) % 3).tolist(),
            "horizons": [0.5, 1, 5, 12, 12.5, 20],
        },
    }


def risks(times: np.ndarray, events: np.ndarray, horizons: list[float]) -> list[float]:
    """Return 1 - S(t) at each horizon."""
    fitted = lifelines.KaplanMeierFitter().fit(times, events)
    return [1 - float(fitted.predict(horizon)) for horizon in horizons]


def recorded(data: dict[str, Any]) -> dict[str, Any]:
    """Return a data set with the risks of all rows and of each group."""
    times, events, groups = (np.asarray(data[name]) for name in ("times", "events", "groups"))
    by_group = {
        str(name): risks(times[groups == name], events[groups == name], data["horizons"]) for name in np.unique(groups)
    }
    return data | {"risks": risks(times, events, data["horizons"]), "risks_of_groups": by_group}


if __name__ == "__main__":
    found = {name: recorded(data) for name, data in sets().items()}
    text = json.dumps({"lifelines": lifelines.__version__, "sets": found}, separators=(",", ":"))
    (HERE / "censoring.json").write_text(text + "\n", encoding="utf-8")
