"""The pages: their examples run, what they show is what the code says today, and they leave nothing out."""

from __future__ import annotations

import ast
import doctest
import html.parser
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import make_command_line
import make_examples
import make_monitor
import numpy as np
import pytest
import shown

import calibrant
from calibrant import cli
from tests.keys_of import explained

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def fenced(text: str) -> str:
    """Blank everything outside ``python`` blocks, so that line numbers stay those of the page."""
    lines, inside = [], False
    for line in text.splitlines():
        fence = line.startswith("```")
        if fence:
            inside = not inside and line.strip() == "```python"
        lines.append(line if inside and not fence else "")
    return "\n".join(lines) + "\n"


def failures(text: str, name: str) -> list[str]:
    """Run the examples of a page, all in one namespace, and list what came out otherwise."""
    test = doctest.DocTestParser().get_doctest(fenced(text), {}, name, name, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append)
    return said


@pytest.mark.slow
@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the pages name examples/digits.parquet
    try:
        assert not failures(page.read_text(encoding="utf-8"), page.name)
    finally:
        if "matplotlib.pyplot" in sys.modules:  # it keeps the figures of a page, and warns of twenty
            sys.modules["matplotlib.pyplot"].close("all")


def test_the_runner_of_examples_can_fail() -> None:
    page = (
        "# Title\n\n```text\n>>> 1 + 1\n4\n```\n\n```python\n>>> x = 2\n>>> x + 1\n3\n```\n\n```python\n>>> x\n3\n```\n"
    )
    (said,) = failures(page, "page.md")
    assert "line 15" in said
    assert "Expected:\n    3\nGot:\n    2" in said


@pytest.mark.slow
@pytest.mark.parametrize("make", make_examples.MAKERS, ids=lambda make: make.__name__)
def test_the_reports_shown_are_what_the_code_says(make: Callable[[], dict[str, str]]) -> None:
    assert shown.stale(make()) == [], "out of date; run: python docs/make_examples.py"


def test_only_what_is_made_is_shown() -> None:
    makers = [*DOCS.glob("make_*.py"), *(ROOT / "tools").glob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in makers)
    seen = {name for page in shown.PAGES for name in shown.names(page.read_text(encoding="utf-8"))}
    assert {name for name in seen if "/" not in name and f'"{name}"' not in source} == set()


PROSE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
ONLY_SPHINX = re.compile(r"^<!-- sphinx$.*?^-->$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """List the headings of a page as GitHub makes anchors of them, and the names that the API page documents."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^ *\.\. auto\w+:: ([\w.]+)", text, re.MULTILINE))


def test_the_pages_are_plain_markdown() -> None:
    special = r"\{(?:doc|ref|py:\w+|func|class)\}`|^:::|^: |^```\{(?!eval-rst\}$)"
    for page in PROSE:
        text = ONLY_SPHINX.sub("", page.read_text(encoding="utf-8"))
        assert re.findall(special, text, re.MULTILINE) == [], page.name
        assert "```{eval-rst}" not in text or page.name.startswith("api-"), page.name


def broken_links(page: Path) -> list[str]:
    """List the links and pictures of a page that lead nowhere; not those of other sites."""
    text = re.sub(r"^```.*?^```$", "", ONLY_SPHINX.sub("", page.read_text(encoding="utf-8")), flags=re.M | re.S)
    targets = [link or picture for link, picture in re.findall(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"", text)]
    broken = []
    for target in targets:
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        if not target.startswith("https:") and not (there.exists() and (not anchor or anchor in anchors(there))):
            broken.append(target)
    return broken


def test_every_link_and_picture_of_the_pages_is_there(tmp_path: Path) -> None:
    assert {page.name: broken for page in PROSE if (broken := broken_links(page))} == {}
    page = tmp_path / "page.md"
    page.write_text("# One head\n[a](#one-head) [b](#other) [c](page.md) [d](no.md) ![e](no.png)\n", encoding="utf-8")
    assert broken_links(page) == ["#other", "no.md", "no.png"]


def test_a_part_of_a_text_is_shown_between_its_words() -> None:
    page = '<!-- shown: a.txt, from "two", to "four" -->\n<!-- end -->\n\n<!-- shown: b.md -->\nold\n<!-- end -->\n'
    filled = shown.filled(page, {"a.txt": "one\ntwo\nthree\nfour\n"})
    assert "-->\n```text\ntwo\nthree\n```\n<!-- end -->" in filled
    assert "-->\nold\n<!--" in filled
    assert shown.filled(filled, {"b.md": "new"}) == filled.replace("old", "new")
    with pytest.raises(ValueError, match=r"a\.txt has no such part"):
        shown.filled(page, {"a.txt": "one\ntwo\n"})


DROP_INS = ("compat.bensemble", "compat.pyhealth", "compat.triples")


def public_names() -> set[str]:
    """The names of the public modules, those that they alone have with the module before them."""
    modules = (*DROP_INS, "frames", "inference", "plot", "sklearn", "torch")
    names = {f"{name}.{own}" for name in modules for own in importlib.import_module(f"calibrant.{name}").__all__}
    names |= {f"measures.{own}" for own in set(calibrant.measures.__all__) - set(calibrant.__all__)}
    names |= {f"errors.{error.__name__}" for error in calibrant.CalibrantError.__subclasses__()}
    return names | set(calibrant.__all__)


def documented() -> list[str]:
    """The names that the pages of the API document, without ``calibrant.``."""
    text = "".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("api-*.md")))
    return re.findall(r"^\.\. auto\w+:: calibrant\.([\w.]+)", text, re.MULTILINE)


def test_the_pages_of_the_api_document_just_what_is_public() -> None:
    names = public_names()
    modules = {name.rpartition(".")[0] for name in names}
    assert sorted(name for name in documented() if name.rpartition(".")[0] in modules) == sorted(names)


def test_the_index_of_the_api_lists_every_name_once() -> None:
    assert sorted(make_examples.API_PAGES) == sorted(page.stem.removeprefix("api-") for page in DOCS.glob("api-*.md"))
    index = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"\[`([\w.]+)`\]\(api-\w+\.md#calibrant\.\1\)", index)
    assert sorted(listed) == sorted(documented()), "run python docs/make_examples.py"


def test_the_front_page_installs_shows_a_picture_and_says_what_one_can_do() -> None:
    page = ONLY_SPHINX.sub("", (DOCS / "index.md").read_text(encoding="utf-8"))
    (install,) = shown.texts(page, "install.md")
    assert page.index(install) < page.index("<img ") < page.index("\n- [")
    assert len(page.split("<img ")[0].split()) < 80
    (picture,) = re.findall(r"!\[.*|<img .*", page)
    assert int(re.findall(r'width="(\d+)"', picture)[0]) <= 300  # less than half of a small screen
    assert len(re.findall(r"^- \[", page, re.MULTILINE)) == len(re.findall(r"(?<!!)\[[^]]+\]\(", page)) == 6


def test_the_pages_on_which_a_reader_begins_install_alike() -> None:
    (text,) = make_examples.install().values()
    for page in (ROOT / "README.md", DOCS / "start.md", DOCS / "index.md"):
        assert shown.texts(page.read_text(encoding="utf-8"), "install.md") == [text], page.name


@pytest.mark.parametrize(
    ("term", "page"),
    [
        ("TensorBoard", "training-loops"),
        ("temperature scaling", "training-loops"),
        ("temperature scaling", "recalibrate"),
        ("subgroup forest", "clinical"),
        ("subgroup forest", "groups"),
        ("decision model", "decision-models"),
        ("hive partition", "files"),
        ("--odds", "files"),
    ],
)
def test_a_reader_who_searches_finds_the_page_that_explains(term: str, page: str) -> None:
    """The search of the site finds words of a page, not those of its shown texts alone."""
    text = re.sub(
        r"^```.*?^```$", "", (DOCS / f"{page}.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    assert term.lower() in " ".join(text.split()).lower()


def test_the_front_page_lists_every_page_once() -> None:
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"^:caption: (.+)\n\n((?:.+\n)+?)^```", page, re.MULTILINE)
    assert [caption for caption, _ in trees] == ["Start", "Tutorials", "How-to", "Explanation", "Reference", "Project"]
    listed = [line for _, lines in trees for line in lines.splitlines() if line != "Home <self>"]
    there = {path.stem for path in PAGES if path.stem != "index" and not path.stem.startswith("api-")}
    assert sorted(listed) == sorted(there)


def moved() -> dict[str, str]:
    """The old names of pages and their new ones, from docs/conf.py, which cannot be imported without Sphinx."""
    tree = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["MOVED"]
    )
    found: dict[str, str] = ast.literal_eval(value)
    return found


def test_an_old_name_of_a_page_leads_to_a_page() -> None:
    assert len(moved()) == 45
    for old, new in moved().items():
        assert not (DOCS / f"{old}.md").exists(), old
        assert (DOCS / f"{new}.md").exists(), new


def test_every_old_name_gets_a_page_that_forwards(tmp_path: Path) -> None:
    source = (DOCS / "conf.py").read_text(encoding="utf-8")
    (function,) = re.findall(r"^def write_redirects\(.*?^(?=\S)", source, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"MOVED": moved(), "Path": Path}
    exec(compile(function, "conf.py", "exec"), names)
    names["write_redirects"](tmp_path)
    for old, new in moved().items():
        assert f'content="0; url={new}.html"' in (tmp_path / f"{old}.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_commands_of_the_front_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    install, commands = shell_blocks(DOCS / "index.md")
    lines = [line for line in (install + commands).splitlines() if line.startswith("calibrant ")]
    # The error of these predictions is above the tolerance of the last one.
    assert [make_examples.run(line)[1] for line in lines] == [0, 0, 3]


def test_the_check_of_the_wheel_finds_what_it_looks_for() -> None:
    script = (ROOT / ".ci" / "wheel").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (heading,) = re.findall(r'page\.split\("(.*?)"\)', script)
    (line,) = re.findall(r'grep "(.*?)"', script)
    assert f"\n{heading}\n" in readme
    assert line in make_examples.run("calibrant report examples/digits.parquet")[0]


class Resources(html.parser.HTMLParser):
    """What a browser fetches to show a page, links that readers follow left out."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.formulas = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.formulas += tag == "math"
        if tag != "a":
            self.fetched += [value for name, value in attrs if name in ("src", "href", "srcset", "data") and value]


@pytest.mark.slow
def test_formulas_are_shown_without_a_network(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    text = (DOCS / "formulas.md").read_text(encoding="utf-8")
    (source / "formulas.md").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-c", DOCS, "-D", "root_doc=formulas", source, site]
    subprocess.run(command, check=True, capture_output=True)
    page = Resources()
    page.feed((site / "formulas.html").read_text(encoding="utf-8"))
    blocks = re.findall(r"\$\$.*?\$\$", text, re.DOTALL)
    assert page.formulas >= len(blocks) > 10
    assert "_static/calibrant.css" in {path.partition("?")[0] for path in page.fetched}
    assert (site / "STIXTwoMath.woff").stat().st_size > 100_000
    assert [path for path in page.fetched if "//" in path] == []
    for path in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", path.read_text(encoding="utf-8")) == []
    assert not [path for path in site.rglob("*.js") if "mathjax" in path.name.lower()]


@pytest.mark.slow
def test_the_story_of_the_tutorial_holds() -> None:
    screens = make_examples.tutorial()
    statuses = [screens[f"tutorial-{name}.txt"].rstrip()[-1] for name in ("refused", "passed", "paid")]
    assert statuses == ["3", "0", "0"]
    bounds = [
        re.findall(r"ECE is within the tolerance of 0.03: upper 95 % confidence bound ([0-9.]+)", screens[name])
        for name in ("tutorial-paid.txt", "tutorial-passed.txt")
    ]
    assert bounds[0] < bounds[1]
    assert "ECE exceeds the tolerance of 0.03" in screens["tutorial-refused.txt"]
    assert "Predictions are too extreme" in screens["tutorial-report.txt"]
    groups = (screens[f"tutorial-{name}.txt"] for name in ("groups", "plans"))
    marked = [re.findall(r"^  (\w+) .* \*$", text, re.MULTILINE) for text in groups]
    assert marked == [["trial", "basic", "premium"], ["trial"]]
    compared, later = (" ".join(screens[f"tutorial-{name}.txt"].split()) for name in ("compared", "later"))
    assert "calibrated is better calibrated than old_risk" in compared
    assert "By the Brier score, which also rewards discrimination, calibrated is better" in compared
    assert "february is better calibrated than march-new" in later
    assert "By the Brier score, which also rewards discrimination, march-new is better" in later


def shell_steps(page: Path) -> list[str]:
    """The shell steps of the workflow of a page, but for the one that installs packages."""
    import yaml

    (text,) = shown.texts(page.read_text(encoding="utf-8"), "calibration.yml")
    (job,) = yaml.safe_load(text)["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step and step["name"] != "install"]


def shell_blocks(page: Path) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


PIPELINE = {"calibrated": (8_000, 0.0, 0), "too low": (8_000, 0.8, 3), "few rows": (100, 0.0, 4)}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the job runs on Linux")
@pytest.mark.parametrize("only_warn", [False, True], ids=["as it is", "4 only warns"])
@pytest.mark.parametrize("case", PIPELINE)
def test_the_job_of_the_page_about_pipelines(tmp_path: Path, case: str, only_warn: bool) -> None:
    n, shift, expected = PIPELINE[case]
    page = DOCS / "pipelines.md"
    warning, _ = shell_blocks(page)
    *steps, gate = shell_steps(page)
    assert gate.rstrip() in warning.replace(" || status=$?", "").replace("status=0\n", "")
    (tmp_path / "predict.py").write_text(
        "import math, random\n"
        "rng = random.Random(0)\n"
        "print('risk,churned', file=(file := open('predictions.csv', 'w')))\n"
        f"for log_odds in [rng.gauss(-1, 1) for _ in range({n})]:\n"
        f"    churned = rng.random() < 1 / (1 + math.exp(-log_odds - {shift}))\n"
        "    print(f'{1 / (1 + math.exp(-log_odds)):.5f},{churned:d}', file=file)\n",
        encoding="utf-8",
    )
    summary = tmp_path / "summary.md"
    summary.write_text("Written by another step.\n", encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(summary)}
    script = "\n".join([*steps, warning if only_warn else gate])
    done = subprocess.run(  # as GitHub runs a step
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (0 if only_warn and expected == 4 else expected), done.stderr
    assert ("::warning::" in done.stdout) == (only_warn and expected == 4)
    written = summary.read_text(encoding="utf-8")
    assert written.startswith("Written by another step.\n")
    assert "tolerance of 0.03" in written
    assert (tmp_path / "calibration.html").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the job runs on Linux")
def test_the_step_that_compares_with_the_last_run(tmp_path: Path) -> None:
    _, step = shell_blocks(DOCS / "pipelines.md")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    rng = np.random.default_rng(0)
    for day, shift, status in (("first", 0.0, 0), ("good", 0.0, 0), ("bad", 1.0, 3)):
        log_odds = rng.normal(-1, 1, 8_000)
        risks, happened = (1 / (1 + np.exp(-log_odds - extra)) for extra in (0.0, shift))
        rows = zip(risks, rng.random(8_000) < happened, strict=True)
        lines = ["risk,churned", *(f"{risk:.5f},{int(churned)}" for risk, churned in rows)]
        (tmp_path / "predictions.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        before = (tmp_path / "last.json").read_bytes() if day != "first" else b""
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, (day, done.stderr)
        assert ((tmp_path / "last.json").read_bytes() == before) == (day == "bad")
    assert "last is better calibrated than today" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def listed(page: str, text: str) -> list[list[str]]:
    """The cells of the rows of a table of options."""
    (table,) = shown.texts(page, text)
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def test_every_option_of_a_command_is_listed() -> None:
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    shared = {
        name: [row[0] for row in listed(page, make_command_line.COMMON_TEXT)] for name in make_command_line.COMMON
    }
    for head, owners, _ in listed(page, make_command_line.SEVERAL_TEXT):
        for name in re.findall(r"`(\w+)`", owners):
            shared.setdefault(name, []).append(head)
    assert shared.keys() <= make_command_line.TEXTS.keys()
    assert make_command_line.TEXTS.keys() == cli.main.commands.keys() - {"completion"}
    for name, text in make_command_line.TEXTS.items():
        heads = [*shared.get(name, ()), *(row[0] for row in listed(page, text))]
        params = cli.main.commands[name].params
        options = [flag for param in params for flag in (*param.opts, *param.secondary_opts) if flag.startswith("--")]
        assert sorted(options) == sorted(re.findall(r"--[\w-]+", " ".join(heads))), name


def test_the_example_of_the_json_is_what_the_code_says() -> None:
    assert make_examples.REPORT_JSON.read_text(encoding="utf-8") == make_examples.report_json()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="cron runs on Linux")
def test_the_script_for_cron(tmp_path: Path) -> None:
    make_monitor.write_documents(tmp_path)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for week, status in ((31, 0), (32, 0), (33, 0), (34, 3), (34, 1)):
        command = ["sh", ROOT / "examples" / "monitor_cron.sh", "documents", f"2026-W{week}.csv"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert ("Alarm: the model is no longer calibrated" in done.stdout) == (status == 3)
        assert status or done.stdout + done.stderr == ""  # cron mails any output
    assert {f"documents.{ending}" for ending in ("json", "html", "prom", "cal")} <= {p.name for p in tmp_path.iterdir()}


def test_every_key_of_the_json_is_explained() -> None:
    classes = [[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.3, 0.3, 0.4]]
    table = calibrant.ReliabilityTable.from_scores([0.2, 0.9], [0, 1], grid="standard")
    reports = [
        calibrant.evaluate([0.2, 0.0], [0, 1]),
        calibrant.evaluate(classes, [0, 0, 2]),
        calibrant.evaluate(classes, [0, 0, 2], notion="classwise"),
        calibrant.evaluate(table),
    ]
    keys: set[str] = {"source", "files", "columns", "where"}

    def collect(value: object) -> None:
        if isinstance(value, dict):
            for key, entry in value.items():
                if "." not in key:  # the paths under not_finite are no keys
                    keys.add(key)
                collect(entry)
        elif isinstance(value, list):
            for entry in value:
                collect(entry)

    for report in reports:
        collect(json.loads(report.to_json()))
    scores, outcomes = np.tile([0.99, 0.95], 100), np.arange(200) % 50 > 0
    costs: dict[str, Any] = {"cost_of_error": 3, "cost_of_referral": 1}
    collect(calibrant.certify_threshold(scores, outcomes, groups=np.arange(200) // 100, **costs).to_dict())
    collect(calibrant.certify_two_sided(scores, outcomes, **costs).to_dict())
    collect(calibrant.prior_shift(scores, trained_prior=0.5, reference=scores).to_dict())
    watch = calibrant.Monitor(threshold={"value": 0.9, "side": "yes", "max_risk": 0.05})
    watch.update(scores, outcomes[::-1] & (np.arange(200) % 3 > 0), groups=np.arange(200) // 100)
    assert watch.alarm
    collect(watch.to_dict())
    rows = [
        {
            "answers": {
                "urgent": {"noul": p},
                "mood": {"probabilities": {"1": p, "2": 1 - p}, "legend": {"1": 1, "2": 2}},
            },
            "labels": {"urgent": y, "mood": 1 if y else 2},
        }
        for p, y in zip(scores.tolist(), outcomes.tolist(), strict=True)
    ]
    log, watch = calibrant.read_decisions(rows), calibrant.Monitor()
    watch.update(log)
    of_questions = (calibrant.evaluate(log), calibrant.recalibrate(log), calibrant.certify_questions(log), watch)
    for result in (*of_questions, calibrant.compare({"old": log, "new": log})):
        collect(result.to_dict())
    assert {"per_class", "infinite_rows", "table", "worst_class"} <= keys
    names = {"urgent", "mood", "old", "new"}  # of questions and models
    measured = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("which-metric.md", "api-inference.md"))
    assert {key for key in keys - names - explained() if f"`{key}`" not in measured} == set()


def test_the_citation_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
