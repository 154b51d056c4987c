"""Make every report and every table of numbers that the pages show: python docs/make_examples.py.

The pages show them between comments (docs/shown.py); tests/test_docs.py asserts that they are what the code prints
today.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import make_clinical
import make_command_line
import make_decisions
import make_models
import make_monitor
import make_recipes
import make_threshold
import numpy as np
import shown
from click.testing import CliRunner

import calibrant
from calibrant import inference
from calibrant.cli import main as command

ROOT = Path(__file__).resolve().parent.parent
DIGITS = "examples/digits.parquet"
REPORT_JSON = ROOT / "docs" / "_static" / "report.json"

#: A file of predictions small enough to be printed.
FORECASTS = """\
city,day,chance,rain
Bath,1,0.9,1
Bath,2,0.8,1
Bath,3,0.3,0
Bath,4,0.7,0
Leeds,1,0.8,1
Leeds,2,0.4,1
Leeds,3,0.1,0
Leeds,4,0.1,0
"""


def run(line: str, columns: int = 80) -> tuple[str, int]:
    """Run a command line in so many columns; return the line with its output, and the exit status."""
    arguments = shlex.split(line)[1:]
    result = CliRunner().invoke(command, arguments, prog_name="calibrant", env={"COLUMNS": str(columns)})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return f"$ {line}\n{result.output}", result.exit_code


def groups_of(text: str) -> str:
    """Return the command line of a report and its groups."""
    return f"{text.splitlines()[0]}\n...\n{text[text.index('Groups') :]}"


def verdict_of(text: str, status: int) -> str:
    """Return the beginning of a report, to the end of its verdict, and the exit status."""
    verdict = "\n\n".join(text.split("\n\n")[:2])
    return f"{verdict}\n...\n$ echo $?\n{status}\n"


def reports() -> dict[str, str]:
    """Return the reports on the example in the tree."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("examples").mkdir()
        shutil.copy(ROOT / DIGITS, DIGITS)
        plain, _ = run(f"calibrant report {DIGITS}")
        confident, _ = run(f"calibrant report {DIGITS} --probs 'overconfident_*'")
        compared, _ = run(f"calibrant compare {DIGITS} --scores 'p_*,overconfident_*'")
    digits = pq.read_table(ROOT / DIGITS)
    eights = calibrant.evaluate(digits["overconfident_8"], digits["target"].to_numpy() == 8)
    return {
        "digits.txt": plain,
        "overconfident.txt": confident,
        "eights.txt": first_and_last(f"{eights}"),
        "compared.txt": compared,
    }


def first_and_last(text: str) -> str:
    """Return the head of the diagram of a report, and its first and its last bin."""
    _, head, first, *_, last = text[text.index("Reliability diagram") : text.index("  █ observed")].splitlines()
    return f"{head}\n{first}\n...\n{last}\n"


def many_files() -> dict[str, str]:
    """Return the sum of the sketches of two halves of the example, and the bounds of its report."""
    import pyarrow.parquet as pq

    digits = pq.read_table(ROOT / DIGITS)
    half = len(digits) // 2
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for k, part in enumerate((digits[:half], digits[half:]), start=1):
            pq.write_table(part, f"digits-{k}.parquet")
            run(f"calibrant report digits-{k}.parquet --n-resamples 0 --sketch digits-{k}.cal")
        merged, _ = run("calibrant merge digits-1.cal digits-2.cal --sketch digits.cal")
        of_sketch, _ = run("calibrant report digits.cal --measures brier,ece,ace,smece,miscalibration,discrimination")
    bounds = re.search(r"  computed from a sketch .*?(?=\n  calibrated:)", of_sketch, re.DOTALL)
    if bounds is None:
        raise RuntimeError(of_sketch)
    return {
        "merge.txt": merged,
        "of-sketch.txt": f"{bounds[0]}\n",
    }


def report_json() -> str:
    """Return the report on a small file as JSON: docs/_static/report.json."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("forecasts.csv").write_text(FORECASTS, encoding="utf-8")
        text, status = run("calibrant report forecasts.csv --score chance --outcome rain --n-bins 2 --json -")
        if status:
            raise RuntimeError(text)
    return compact(json.loads(text.partition("\n")[2]))


def groups() -> dict[str, str]:
    """Return the groups of a report: four wards of a hospital. The risks of one ward are too low."""
    rng = np.random.default_rng(0)
    wards = {"cardiology": (900, 0.0), "geriatrics": (400, 0.9), "maternity": (700, 0.0), "surgery": (25, 0.0)}
    lines = ["ward,risk,readmitted"]
    for ward, (n, shift) in wards.items():
        log_odds = rng.normal(-1.2, 1.0, n)
        outcomes = rng.random(n) < 1 / (1 + np.exp(-log_odds - shift))
        lines += [
            f"{ward},{risk:.4f},{int(outcome)}"
            for risk, outcome in zip(1 / (1 + np.exp(-log_odds)), outcomes, strict=True)
        ]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        visits = "calibrant report visits.csv --score risk --outcome readmitted"
        text, _ = run(f"{visits} --by ward")
        tolerated, _ = run(f"{visits} --tolerance 0.1")
    return {
        "groups.txt": groups_of(text),
        "tolerated.txt": tolerated,
    }


def write_customers(folder: Path) -> None:
    """Write the files of the tutorial: three months of the risks of a model and of the old model.

    The new model's log-odds are too far apart by the factor 1.6; those of the old one are noisy. Customers with a trial
    leave more often than either model knows. In March everybody leaves less often.
    """
    rng = np.random.default_rng(0)
    for month, shift in (("january", 0.0), ("february", 0.0), ("march", -0.6)):
        n = 4_000
        log_odds = rng.normal(-1.0, 1.0, n)
        plans = rng.choice(["basic", "premium", "trial"], n, p=[0.55, 0.35, 0.1])
        churned = rng.random(n) < 1 / (1 + np.exp(-log_odds - 0.8 * (plans == "trial") - shift))
        risk, old = (1 / (1 + np.exp(-claimed)) for claimed in (1.6 * log_odds, log_odds + rng.normal(0.3, 0.7, n)))
        lines = ["customer,plan,risk,old_risk,churned"]
        lines += [
            f"{k},{plan},{new:.4f},{before:.4f},{int(left)}"
            for k, plan, new, before, left in zip(range(1, n + 1), plans, risk, old, churned, strict=True)
        ]
        (folder / f"{month}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def tutorial() -> dict[str, str]:
    """Return the screens of the tutorial, from a CSV to a decision."""
    columns = "--score risk --outcome churned"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_customers(Path())
        head = "".join(f"{line}\n" for line in Path("february.csv").read_text(encoding="utf-8").splitlines()[:4])
        report, _ = run(f"calibrant report february.csv {columns}")
        by_plan, _ = run(f"calibrant report february.csv {columns} --by plan")
        refused = verdict_of(*run(f"calibrant report february.csv {columns} --tolerance 0.03 --gate"))
        fitted, _ = run(f"calibrant recalibrate january.csv {columns} --method cox --map map.json")
        applied = [
            run(f"calibrant apply map.json {m}.csv --score risk --output {m}-new.csv")[0] for m in ("february", "march")
        ]
        columns = "--score calibrated --outcome churned"
        gate = f"calibrant report february-new.csv {columns} --tolerance 0.03 --gate --sketch february.cal"
        passed, status = run(gate)
        new_by_plan, _ = run(f"calibrant report february-new.csv {columns} --by plan")
        paid, paid_status = run(
            f"calibrant report february-new.csv {columns} --where \"plan <> 'trial'\" --tolerance 0.03 --gate"
        )
        compared, _ = run("calibrant compare february-new.csv --scores old_risk,calibrated --outcome churned")
        later, _ = run(f"calibrant compare march-new.csv --baseline february.cal {columns}")
    return {
        "tutorial-head.txt": f"$ head -4 february.csv\n{head}",
        "tutorial-report.txt": report,
        "tutorial-groups.txt": groups_of(by_plan),
        "tutorial-refused.txt": refused,
        "tutorial-recalibrated.txt": fitted,
        "recalibrate.txt": fitted,
        "tutorial-applied.txt": "".join(applied),
        "tutorial-passed.txt": verdict_of(passed, status),
        "tutorial-plans.txt": groups_of(new_by_plan),
        "tutorial-paid.txt": verdict_of(paid, paid_status),
        "tutorial-compared.txt": compared,
        "tutorial-later.txt": later,
    }


def clinical() -> dict[str, str]:
    """Return the screen of the clinical profile."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        make_clinical.write_patients(Path())
        return {"clinical.txt": run(make_clinical.COMMAND)[0]}


def threshold() -> dict[str, str]:
    """Return the screens and the tables of the page about thresholds."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        screens = make_threshold.screens(run)
    return screens | make_threshold.planned() | make_threshold.simulated()


def decisions() -> dict[str, str]:
    """Return the screens of the page about decision models."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return make_decisions.screens(run)


def models() -> dict[str, str]:
    """Return the screens of the pages about several models."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return make_models.screens(run)


def monitor() -> dict[str, str]:
    """Return the screens of the page about monitoring, and the tables of its simulations."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return make_monitor.screens(run) | make_monitor.games(run) | make_monitor.simulated()


def recipes() -> dict[str, str]:
    """Return the screens of the pages about quantile forecasts and soft labels."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return make_recipes.screens(run)


def install() -> dict[str, str]:
    """Return how to install and see a first report, for the first pages of a reader."""
    need = "You need Python 3.11 or later. Run these commands in a clone of the repository:"
    lines = ["python3 -m venv .venv", "source .venv/bin/activate", 'pip install ".[report]"']
    return {"install.md": "\n".join([need, "", "```sh", *lines, f"calibrant report {DIGITS}", "```"]) + "\n"}


def workflow() -> dict[str, str]:
    """Return the workflow of the page about pipelines."""
    return {"calibration.yml": (ROOT / "examples" / "calibration.yml").read_text(encoding="utf-8")}


def compact(document: Any) -> str:
    """Return JSON with numbers of six digits, and a list of numbers and a noise floor on one line."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.6g}")
        if isinstance(value, dict):
            return {key: rounded(entry) for key, entry in value.items()}
        return [rounded(entry) for entry in value] if isinstance(value, list) else value

    text = json.dumps(rounded(document), indent=2, ensure_ascii=False)
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda match: "[" + re.sub(r"\s+", " ", match[1]) + "]", text)
    floors = r'"floor": \{\s+([^{}]*?)\s+\}'
    text = re.sub(floors, lambda match: '"floor": {' + re.sub(r"\s+", " ", match[1]) + "}", text)
    return text + "\n"


#: The measures of the tables below, by the heads of their columns.
MEASURES: dict[str, Callable[[Any, Any], float]] = {
    "ECE": calibrant.expected_calibration_error,
    "adaptive": calibrant.adaptive_calibration_error,
    "RMSCE": calibrant.root_mean_square_calibration_error,
    "debiased": lambda p, y: calibrant.root_mean_square_calibration_error(p, y, debiased=True),
    "MCE": calibrant.maximum_calibration_error,
    "smooth": calibrant.smooth_calibration_error,
    "MCB": lambda p, y: calibrant.score_decomposition(p, y).miscalibration,
}


def calibrated(repetitions: int = 100) -> dict[str, str]:
    """Return the mean of each measure for a perfectly calibrated model."""
    rng = np.random.default_rng(0)
    lines = ["    rows" + "".join(f"{name:>10}" for name in MEASURES)]
    for n in (100, 1_000, 10_000, 100_000):
        values = []
        for _ in range(repetitions):
            probs = rng.random(n)
            outcomes = rng.random(n) < probs
            values.append([measure(probs, outcomes) for measure in MEASURES.values()])
        lines.append(f"{n:>8,}" + "".join(f"{value:>10.4f}" for value in np.mean(values, axis=0)))
    return {"calibrated.txt": "\n".join(lines) + "\n"}


def floors() -> dict[str, str]:
    """Return the noise floors and the sample sizes that the command prints."""
    text, _ = run("calibrant floor --n 500 --bins 15")
    proof, _ = run("calibrant floor --prove 0.02")
    return {"floor.txt": text, "proof.txt": proof}


def bootstraps(repetitions: int = 100, n: int = 2_000, level: float = 0.9) -> dict[str, str]:
    """Return how often the percentile bootstrap of the ECE and the interval of `evaluate` hold the true ECE.

    Scores are 30 numbers, two in each of 15 bins. The odds of the event are the odds of the score to a power. The
    bootstrap distribution of the counts of (score, outcome) is multinomial.
    """
    scores = (np.arange(30) + 0.5) / 30
    odds = scores / (1 - scores)
    lines = [
        f"{'true':>8}{'mean':>8}{'noise':>8}{'less':>9}{'percentile':>13}{'':>12}",
        f"{'ECE':>8}{'ECE':>8}{'floor':>8}{'floor':>9}{'bootstrap':>13}{'calibrant':>12}",
    ]

    def binned(parts: np.ndarray) -> Any:
        return np.abs(np.add.reduceat(parts, np.arange(0, 30, 2), axis=-1)).sum(axis=-1)

    for power in (1.0, 1.1, 1.25, 2.0):
        rng = np.random.default_rng(0)
        rates = odds**power / (1 + odds**power)
        true, values, covered = binned(scores - rates) / 30, [], np.zeros(2)
        for _ in range(repetitions):
            counts = rng.multinomial(n, np.concatenate([1 - rates, rates]) / 30)
            drawn = rng.multinomial(n, counts / n, 400)
            replicates = binned((drawn[:, :30] + drawn[:, 30:]) * scores - drawn[:, 30:]) / n
            low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
            table = calibrant.ReliabilityTable(scores, counts[:30] + counts[30:], counts[30:], n)
            ece = calibrant.evaluate(table, level=level, n_resamples=0)["ece"]
            covered += (low <= true <= high), (ece.low <= true <= ece.high)
            values.append((ece.value, ece.floor.mean, ece.value - ece.floor.mean))
        mean, floor, less = np.mean(values, axis=0)
        shares = [f"{100 * share:.0f} %" for share in covered / repetitions]
        lines.append(f"{true:>8.4f}{mean:>8.4f}{floor:>8.4f}{less:>+9.4f}{shares[0]:>13}{shares[1]:>12}")
    return {"bootstrap.txt": "\n".join(lines) + "\n"}


def powers(repetitions: int = 40, n: int = 1_000) -> dict[str, str]:
    """Return in how many of 40 data sets each test rejects at 5 %."""
    rng = np.random.default_rng(0)
    kinds: dict[str, Callable[[Any], Any]] = {
        "calibrated": lambda p: p,
        "too extreme": lambda p: 1 / (1 + (1 / p - 1) ** 0.7),
        "overestimated": lambda p: p / (p + (1 - p) * np.exp(0.3)),
        "wavy": lambda p: np.clip(p + 0.15 * np.sin(20 * np.pi * p), 0, 1),
    }
    rejections: dict[str, list[int]] = {}
    for k, rates in enumerate(kinds.values()):
        for _ in range(repetitions):
            p = 1 / (1 + np.exp(-rng.normal(0, 1.5, n)))
            y = rng.random(n) < rates(p)
            report = calibrant.evaluate(p, y, n_resamples=0)
            p_values = {
                "verdict": report.test.p_value,
                "Spiegelhalter": inference.spiegelhalter_test(p, y).p_value,
                "Hosmer-Lemeshow": inference.hosmer_lemeshow_test(p, y, sample="external").p_value,
                "Kolmogorov-Smirnov": inference.ks_test(p, y).p_value,
                "Kuiper": inference.kuiper_test(p, y).p_value,
                "Cox": inference.cox_test(p, y).p_value,
                "T-Cal": inference.t_cal_test(p, y, n_resamples=99).p_value,
                "ECE": report["ece"].p_value,
                "standardised maximum": report["mce"].p_value,
            }
            for name, p_value in p_values.items():
                rejections.setdefault(name, [0] * len(kinds))[k] += p_value <= 0.05
    lines = [f"{'':<22}" + "".join(f"{kind:>15}" for kind in kinds)]
    lines += [f"{name:<22}" + "".join(f"{count:>15}" for count in counts) for name, counts in rejections.items()]
    return {"tests.txt": "\n".join(lines) + "\n"}


def all_measures() -> dict[str, str]:
    """Return the tables of all measures: those that a function describes, and the others."""
    described, others = [], []
    for measure in calibrant.measures.MEASURES:
        key = f"`{measure.name}`"
        if measure.functions:
            link = f"[{measure.label}](api-functions.md#calibrant.{measure.functions[0].__name__})"
            described.append([f"{link}, {key}", measure.misleads])
        else:
            others.append([f"{measure.label}, {key}", measure.meaning, measure.misleads])
    return {
        "measures.md": shown.lined(["measure, key", "caution"], described),
        "measures-others.md": shown.lined(["measure, key", "what it is", "caution"], others),
    }


def public_names() -> dict[str, str]:
    """Return every name that the pages of the API document, in Markdown."""
    lines = ["| page | names |", "|---|---|"]
    for page in API_PAGES:
        text = (ROOT / "docs" / f"api-{page}.md").read_text(encoding="utf-8")
        names = re.findall(r"^\.\. auto\w+:: calibrant\.([\w.]+)", text, re.MULTILINE)
        links = ", ".join(f"[`{name}`](api-{page}.md#calibrant.{name})" for name in names)
        title = text.splitlines()[0].removeprefix("# ")
        lines.append(f"| [{title}](api-{page}.md) | {links} |")
    return {"api-names.md": "\n".join(lines) + "\n"}


#: The pages of the API, in the order of its index.
API_PAGES = ("functions", "results", "decisions", "inference", "integrations")

#: The functions that make the texts: each returns some, by their names.
MAKERS = (
    public_names,
    install,
    all_measures,
    reports,
    many_files,
    make_command_line.tables,
    groups,
    calibrated,
    floors,
    bootstraps,
    powers,
    tutorial,
    clinical,
    threshold,
    decisions,
    models,
    monitor,
    recipes,
    workflow,
)

if __name__ == "__main__":
    for make in MAKERS:
        shown.write(make())
    REPORT_JSON.write_text(report_json(), encoding="utf-8")
