"""Every remedy that the command prints can be typed: with it, the options do not contradict each other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests import in_process

#: Files with one fault each, by their names.
FAULTS = (
    "sums.csv",
    "above.csv",
    "logits.csv",
    "percent.csv",
    "comma.csv",
    "words.csv",
    "two.csv",
    "based.csv",
    "names.csv",
    "missing.csv",
    "minus.csv",
    "unnamed.csv",
)

#: Commands with what they need; each is tried with each fault.
COMMANDS = (
    "report",
    "report --ordered",
    "report --marginal --by g",
    "report --tolerance 0.1",
    "recalibrate --n-resamples 0",
    "recalibrate --estimate-prior --trained-prior a=0.3,b=0.3,c=0.4",
    "recalibrate --estimate-prior --trained-prior 0.3",
    "threshold",
    "threshold --per-class",
    "threshold --yes-risk 0.2 --no-risk 0.2",
    "threshold --thresholds 0.1,0.5",
    "monitor s.json",
)

#: Options that are added.
OPTIONS = (
    "",
    "--logits",
    "--percent",
    "--odds decimal",
    "--decimal-comma",
    "--labels a,b,c",
    "--class-names a,b,c",
    "--notion top-label",
    "--ignore-index -1",
    "--where g>0",
    "--probs a,b,c --target y",
    "--score a --outcome e",
)


def write(folder: Path) -> None:
    """Write the files: three probabilities a, b, c, a label y, an event e and a group g."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet((1, 1, 1), 90).round(3)
    probs[:, 2] = (1 - probs[:, 0] - probs[:, 1]).round(3)
    right = pd.DataFrame(probs, columns=["a", "b", "c"])
    right["y"] = ["abc"[rng.choice(3, p=row / row.sum())] for row in np.abs(probs)]
    right["e"] = (rng.random(90) < probs[:, 0]).astype(int)
    right["g"] = np.arange(90) % 3
    scores = ["a", "b", "c"]
    files = {
        "sums.csv": right.assign(a=right["a"] + 0.3),
        "above.csv": right.assign(a=right["a"] + 1),
        "logits.csv": right.assign(**{name: np.log(right[name] + 0.01) for name in scores}),
        "percent.csv": right.assign(**{name: right[name] * 100 for name in scores}),
        "comma.csv": right.assign(**{name: right[name].map(lambda p: f"{p:.3f}".replace(".", ",")) for name in scores}),
        "words.csv": right.assign(e=np.where(right["e"] == 1, "won", "lost")),
        "two.csv": right.assign(e=right["e"] + 1, y=np.where(right["y"] == "a", "x", "z")),
        "based.csv": right.assign(y=right["y"].map({"a": 1, "b": 2, "c": 3})),
        "names.csv": right.assign(y=right["y"].str.upper()),
        "missing.csv": right.assign(e=right["e"].where(right["g"] > 0), y=right["y"].where(right["g"] > 0)),
        "minus.csv": right.assign(e=right["e"].where(right["g"] > 0, -1)),
        "unnamed.csv": right.rename(columns={"a": "u", "b": "v", "c": "w", "e": "result"}),
    }
    for name, frame in files.items():
        frame.to_csv(folder / name, index=False, sep=";" if name == "comma.csv" else ",")


def run(words: list[str]) -> tuple[int, str]:
    """Run the command, returning its status and its message in one line."""
    Path("s.json").unlink(missing_ok=True)
    status, _, err = in_process.run(*words, columns=200)
    return status, " ".join(err.split())


def remedies(words: list[str], message: str) -> Iterator[list[str]]:
    """Yield the commands that a message proposes: those that it prints, and this one with the options that it names."""
    for typed in re.findall(
        r"calibrant ((?:report|recalibrate|threshold|monitor|compare) (?:[^;']|'[^']*')*?)(?=; |$)", message
    ):
        yield shlex.split(typed)
    values = {"--notion": r"multilabel|top-label|positive", "--ignore-index": r"-?\d+", "--odds": "decimal"}
    for option in ("--logits", "--percent", "--exact", "--decimal-comma", *values):
        found = re.search(
            rf"(?:pass|or) ({option}{f' (?:{values[option]})' if option in values else ''})(?![\w-])", message
        )
        if found is not None:
            yield [*words, *found[1].split()]


def conflicts(words: list[str]) -> list[str]:
    """Return what the remedies of a command would be refused for: wrong usage, or another value of an option."""
    status, message = run(words)
    if status != 1:
        return []
    found = []
    for typed in remedies(words, message):
        status, answer = run(typed)
        if status == 2 or "notion: expected" in answer:
            found.append(f"{shlex.join(words)}: {message} -> {shlex.join(typed)}: {answer}")
    return found


def words_of(fault: str, command: str, options: str) -> list[str]:
    name, *others = command.split()
    state, others = (others[:1], others[1:]) if name == "monitor" else ([], others)
    return [name, *state, fault, *others, *options.split()]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)


#: Commands whose remedies were once refused.
REFUSED = (
    "recalibrate sums.csv --estimate-prior --trained-prior 0.3,0.3,0.4 --probs a,b,c",
    "threshold sums.csv --probs a,b,c --target y --labels a,b,c",
    "monitor s.json sums.csv --probs a,b,c --target y --labels a,b,c",
    "report sums.csv --ordered --probs a,b,c --target y --labels a,b,c",
    "report sums.csv --ordered",
    "report percent.csv --logits",
    "report percent.csv --odds decimal",
    "threshold percent.csv --thresholds 0.1,0.5",
    "threshold percent.csv --yes-risk 0.2 --no-risk 0.2",
    "report sums.csv --percent --probs a,b,c --target y --labels a,b,c",
    "report two.csv --score a --outcome e --class-names x,z",
)


@pytest.mark.every_value
@pytest.mark.parametrize("command", REFUSED)
def test_a_remedy_is_not_refused(command: str) -> None:
    words = command.split()
    assert run(words)[0] == 1
    assert not conflicts(words)


def test_a_proposed_option_replaces_the_one_that_it_excludes() -> None:
    _, message = run(["report", "percent.csv", "--logits"])
    assert "calibrant report percent.csv --probs a,b,c --target y --labels a,b,c --percent" in message
    _, message = run(REFUSED[0].split())
    assert "pass --logits if they are logits" in message
    assert "multilabel" not in message


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of a remedy that keeps an option that the data do not need
@pytest.mark.parametrize("fault", FAULTS)
def test_no_remedy_is_refused(fault: str) -> None:
    """All commands and options with this file; takes a minute."""
    found = [
        conflict
        for command, options in product(COMMANDS, OPTIONS)
        for conflict in conflicts(words_of(fault, command, options))
    ]
    assert not found
