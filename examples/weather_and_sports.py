"""Rain and basketball: whose forecasts are better calibrated, and in which seasons?

    pip install ".[report]"
    python examples/weather_and_sports.py FOLDER

FOLDER has two public files. ``precip_niamey_2016.csv`` has four forecasts of rain in Niamey
for 92 days of 2016; it is from the R package reliabilitydiag, and contains modified ECMWF
products (CC BY 4.0). ``nba_games.csv`` has the win probabilities before 8,886 basketball
games; it is from FiveThirtyEight's checking-our-work-data (CC BY 4.0).
"""

import sys
from pathlib import Path

from pyarrow import csv

import calibrant

#: The rain forecasts: two that were fitted to past days, the plain ensemble of weather
#: models, and the climate alone.
FORECASTS = {
    "Logistic": "logistic",
    "EMOS": "EMOS",
    "ENS": "ensemble",
    "EPC": "climatology",
}


def rain(path):
    """Evaluate each of the four forecasts of rain, then compare every pair."""
    days = csv.read_csv(path)
    print(f"Rain in Niamey, {len(days)} days")
    for column, name in FORECASTS.items():
        report = calibrant.evaluate(days[column], days["obs"])
        error, score = report["ece"], report["brier"]
        noise = f"calibrated: below {error.floor.upper:.3f}, p {error.p_value:.2g}"
        print(f"  {name:<12} ECE {error.value:.3f}, {noise}; Brier score {score.value:.3f}")
    models = {name: days[column] for column, name in FORECASTS.items()}
    comparison = calibrant.compare(models, days["obs"])
    smallest = min(pair["debiased_square"].p_value for pair in comparison.pairs)
    print(f"  smallest adjusted p of {len(comparison.pairs)} pairs: {smallest:.2f}")
    return comparison


def basketball(path):
    """Evaluate the win probabilities of the first team, over all seasons and in each."""
    games = csv.read_csv(path)
    report = calibrant.evaluate(
        games["prob1"], games["prob1_outcome"], groups=games["season"]
    )
    error = report["ece"]
    print(f"Basketball, {report.n:,} games: ECE {error.value:.3f} ", end="")
    interval = f"95 % CI {error.low:.3f} to {error.high:.3f}"
    print(f"({interval}), calibrated: below {error.floor.upper:.3f}")
    for season in report.groups:
        error = season.report["ece"]
        noise = f"calibrated: below {error.floor.upper:.3f}"
        p = f"adjusted p {season.adjusted_p_value:.2g}"
        print(f"  {season.name}: ECE {error.value:.3f}, {noise}, {p}")
    return report


def main(folder="../shared/data"):
    folder = Path(folder)
    rain_reports = rain(folder / "precip_niamey_2016.csv")
    return {"rain": rain_reports, "games": basketball(folder / "nba_games.csv")}


if __name__ == "__main__":
    main(*sys.argv[1:])
