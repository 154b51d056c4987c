"""Rows in clusters from files and on the command line: every kind of file, kept rows and sketches, and mistakes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

import calibrant
from calibrant.files import FilePredictions, FileSketch, Options, read_predictions
from calibrant.files.cluster_hints import Errors, cluster_hint, is_repeated, named_as_ids
from calibrant.table.cluster_labels import as_clusters
from tests.cli.test_cli import FEW
from tests.in_process import fail, json_of, run, succeed
from tests.samples import draw, sketch_of

KINDS = ("csv", "parquet", "arrow", "jsonl", "npz")
COLUMNS = ("--score", "risk", "--outcome", "back")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Visits of 60 patients in 7 hospitals: a patient's outcomes are copies of one."""
    risk, back = draw(3, 60, decimals=4)
    rows = np.repeat(np.arange(60), 5)
    return pd.DataFrame(
        {
            "risk": risk[rows],
            "back": back[rows],
            "patient_id": rows - 20,
            "hospital": [f"ward é {i % 7}" for i in rows],
            "day": pd.Timestamp("2024-03-01") + pd.to_timedelta(rows % 30, "D"),
            "other": np.clip(risk[rows] + 0.1, 0, 1).round(4),
        }
    )


@pytest.fixture(scope="module")
def files(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same rows in every kind of file."""
    folder = tmp_path_factory.mktemp("visits")
    paths = {kind: folder / f"visits.{kind}" for kind in KINDS}
    frame.to_csv(paths["csv"], index=False)
    frame.to_parquet(paths["parquet"])
    pyarrow.feather.write_feather(pa.table(frame), str(paths["arrow"]))
    frame.to_json(paths["jsonl"], orient="records", lines=True, date_format="iso")
    arrays = {name: frame[name].to_numpy(dtype="U" if name == "hospital" else None) for name in frame}
    np.savez(paths["npz"], **arrays)
    return paths


@pytest.fixture(scope="module")
def report_by(frame: pd.DataFrame) -> Callable[[str], dict[str, Any]]:
    """The report with the clusters of a column, from arrays."""

    @functools.cache
    def report(column: str) -> dict[str, Any]:
        probs, targets = frame["risk"].to_numpy(), frame["back"].to_numpy()
        return calibrant.evaluate(probs, targets, clusters=frame[column], n_resamples=199).to_dict()

    return report


def columns_of(kind: str) -> tuple[str, ...]:
    return ("--probs", "risk", "--target", "back") if kind == "npz" else COLUMNS


# ---------------------------------------------------------------- the same clusters, wherever they are


@pytest.mark.covering
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column", ["patient_id", "hospital"])
def test_every_kind_of_file_is_judged_as_its_arrays(
    files: dict[str, Path], report_by: Callable[[str], dict[str, Any]], kind: str, column: str
) -> None:
    found = json_of("report", files[kind], *columns_of(kind), "--cluster", column, *FEW)
    expected = report_by(column)
    assert found["clusters"] == expected["clusters"]
    assert found["test"] == expected["test"]
    assert found["estimates"]["ece"] == expected["estimates"]["ece"]
    assert found["source"]["columns"]["clusters"] == column


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "npz"])
def test_several_columns_and_sql_name_a_cluster_together(
    files: dict[str, Path], frame: pd.DataFrame, kind: str
) -> None:
    options = ("--cluster", "hospital", "--cluster", "(patient_id + 20) // 10")
    found = json_of("report", files[kind], *COLUMNS, *options, "--n-resamples", 0)
    pairs = len(set(zip(frame["hospital"], (frame["patient_id"] + 20) // 10, strict=True)))
    assert found["clusters"]["clusters"] == pairs
    filtered = json_of("report", files[kind], *COLUMNS, *options, "--where", "back = 1", "--n-resamples", 0)
    kept = frame[frame["back"] == 1]
    assert filtered["clusters"]["clusters"] == len(
        set(zip(kept["hospital"], (kept["patient_id"] + 20) // 10, strict=True))
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "npz"])  # arrays hold no dates
def test_two_columns_are_one_label(files: dict[str, Path], frame: pd.DataFrame, kind: str) -> None:
    options = ("--cluster", "patient_id", "--cluster", "day")
    if kind == "jsonl":  # its dates are text
        options = ("--cluster", "patient_id", "--cluster", "CAST(CAST(day AS TIMESTAMP) AS DATE)")
    found = json_of("report", files[kind], *columns_of(kind), *options, *FEW)
    days = frame["day"].dt.strftime("%Y-%m-%d")
    labels = [f"{patient}\x1f{day}" for patient, day in zip(frame["patient_id"], days, strict=True)]
    expected = calibrant.evaluate(frame["risk"].to_numpy(), frame["back"].to_numpy(), clusters=labels, n_resamples=199)
    if kind == "csv":  # whose dates are text, with a time only where it is not midnight
        assert found["clusters"] == expected.to_dict()["clusters"]
    assert found["test"]["p_value"] == expected.test.p_value


def test_values_with_the_separator_in_them_stay_apart(tmp_path: Path) -> None:
    values = [("a\x1f", "b"), ("a", "\x1fb"), ("a\\", "\x1fb"), ("a", "\\\x1fb")] * 20
    frame = pd.DataFrame(values, columns=["first", "second"]).assign(risk=0.5, back=[0, 1] * 40)
    frame.to_parquet(tmp_path / "a.parquet")
    options = ("--cluster", "first", "--cluster", "second", "--n-resamples", 0)
    assert json_of("report", tmp_path / "a.parquet", *COLUMNS, *options)["clusters"]["clusters"] == 4


# ---------------------------------------------------------------- rows that are kept, and sketches


@pytest.mark.covering
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clusters", [("patient_id",), ("hospital",), ("patient_id", "hospital")])
def test_a_sketch_has_the_clusters_of_the_rows(files: dict[str, Path], kind: str, clusters: tuple[str, ...]) -> None:
    options = Options(probs="risk", target="back", clusters=clusters)
    if kind != "npz":
        options = Options(score="risk", outcome="back", clusters=clusters)
    rows = read_predictions([str(files[kind])], options)
    sums = read_predictions([str(files[kind])], options, keep=False)
    assert isinstance(rows, FilePredictions)
    assert isinstance(sums, FileSketch)
    assert sums.sketch.buckets is not None
    np.testing.assert_array_equal(
        np.sort(np.unique(as_clusters(rows.clusters, len(rows.targets)).hashes)), sums.sketch.buckets.hashes
    )
    again = sketch_of(rows.probs, rows.targets, clusters=rows.clusters)
    np.testing.assert_array_equal(again.buckets.cell_sums, sums.sketch.buckets.cell_sums)


def test_files_and_groups_and_sketches_of_them(files: dict[str, Path], tmp_path: Path) -> None:
    """Parts of a cluster may be in several files, and their sketches add up to that of all rows."""
    table = pa.parquet.read_table(files["parquet"])
    for place, part in enumerate((table.slice(0, 113), table.slice(113))):
        pa.parquet.write_table(part, tmp_path / f"{place}.parquet")
    parts = [tmp_path / f"{place}.parquet" for place in range(2)]
    options = ("--cluster", "patient_id", "--by", "hospital", "--n-resamples", 0)
    whole = json_of("report", files["parquet"], *COLUMNS, *options)
    together = json_of("report", *parts, *COLUMNS, *options)
    assert together["estimates"] == whole["estimates"]
    assert together["groups"] == whole["groups"]
    for place, part in enumerate(parts):
        assert run("report", part, *COLUMNS, *options, "--sketch", tmp_path / f"{place}.cal")[0] == 0
    assert run("merge", tmp_path / "0.cal", tmp_path / "1.cal", "-o", tmp_path / "all.cal")[0] == 0
    merged = json_of("report", tmp_path / "all.cal", "--n-resamples", 0)
    assert merged["clusters"] == pytest.approx(whole["clusters"])
    for name in ("ece", "brier", "mean_gap"):
        for end in ("value", "low", "high"):
            assert merged["estimates"][name][end] == pytest.approx(whole["estimates"][name][end], rel=1e-9)
    assert [group["p_value"] for group in merged["groups"]] == pytest.approx(
        [group["p_value"] for group in whole["groups"]]
    )
    status, out, err = run("report", tmp_path / "all.cal", "--cluster", "patient_id")
    assert (status, out) == (2, "")
    assert "--cluster has no effect on a sketch" in err


def test_models_are_compared_by_cluster(files: dict[str, Path], frame: pd.DataFrame) -> None:
    found = json_of("compare", files["csv"], "--scores", "risk,other", "--outcome", "back", "--cluster", "patient_id")
    expected = calibrant.compare(
        {name: frame[name].to_numpy() for name in ("risk", "other")},
        frame["back"].to_numpy(),
        clusters=frame["patient_id"].to_numpy(),
    ).to_dict()
    assert found["pairs"] == expected["pairs"]
    assert found["clusters"]["clusters"] == 60


def test_copies_change_the_verdict_only_without_clusters(tmp_path: Path) -> None:
    """Many forecasts of one game: two hundred calibrated games, forecast ten times each."""
    q, y = draw(0, 200)
    frame = pd.DataFrame({"game": np.repeat(np.arange(200), 10), "win_prob": np.repeat(q, 10), "won": np.repeat(y, 10)})
    frame.to_csv(tmp_path / "forecasts.csv", index=False)
    given = ("report", tmp_path / "forecasts.csv", "--score", "win_prob", "--outcome", "won", *FEW)
    out, err = succeed(*given)
    assert "Evidence of miscalibration (p ≤ 0.005)." in out
    assert "assume independent rows." in out
    assert err == (
        "calibrant: 'game' identifies units with several rows each; "
        "if the rows of one unit are dependent, pass --cluster game\n"
    )
    status, out, err = run(*given, "--cluster", "game")
    assert (status, err) == (0, "")
    assert re.match(r"\S+\n2,000 predictions in 200 clusters \(event: won = 1\)\n", out)
    assert re.search(
        r"within 200 clusters; for the mean difference the data are worth about \d+ independent rows\.",
        " ".join(out.split()),
    )
    assert "No evidence of miscalibration" in out


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelt_column_is_named(files: dict[str, Path], kind: str) -> None:
    err = fail("report", files[kind], *columns_of(kind), "--cluster", "patient")
    noun = "array" if kind == "npz" else "column"
    assert f"has no {noun} 'patient' (--cluster); did you mean 'patient_id'?" in err


@pytest.mark.covering
@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "jsonl"])
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (
            "hospital, patient_id",
            ("does not give one value for each row; for several columns, pass --cluster once for each column"),
        ),
        ("*", "--cluster '*'"),
        ("lower(hospitl)", "--cluster 'lower(hospitl)': there is no column 'hospitl'; did you mean 'hospital'?"),
        ("count(*)", "--cluster 'count(*)': "),
        ("no such(thing", "--cluster 'no such(thing': "),
        ("[hospital]", "does not give one value for each row"),
        ("1) --", "--cluster '1) --': "),
        ("risk / 3", "expected whole numbers or text, got "),
        ("nullif(patient_id, 5)", "is empty (null)"),
        ("'all'", "expected at least 2 clusters, got 1; pass rows of more clusters"),
    ],
)
def test_sql_that_names_no_cluster(files: dict[str, Path], kind: str, sql: str, words: str) -> None:
    status, out, err = run("report", files[kind], *COLUMNS, "--cluster", sql)
    assert (status, out) == (1, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_missing_label_is_named_with_its_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("risk,back,id\n.5,1,1\n.2,0,\n.3,0,2\n")
    status, _, err = run("report", tmp_path / "a.csv", *COLUMNS, "--cluster", "id")
    assert status == 1
    assert (
        "row 2, column 'id' is empty (null); fill the cell, or leave such rows out with --where \"id IS NOT NULL\""
    ) in err
    frame = pd.DataFrame({"risk": [0.5] * 4, "back": [0, 1, 0, 1], "id": [1.0, 2.0, np.nan, 2.0]})
    pa.parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "a.parquet")
    for keep in ((), ("--sketch", tmp_path / "a.cal")):
        assert "row 3, column 'id'" in fail("report", tmp_path / "a.parquet", *COLUMNS, "--cluster", "id", *keep)
    assert not (tmp_path / "a.cal").exists()


def test_labels_of_two_kinds_of_files_do_not_mix(tmp_path: Path) -> None:
    for name, labels in (("a", [1, 2, 3]), ("b", ["1", "2", "3"])):
        pd.DataFrame({"risk": [0.5] * 3, "back": [0, 1, 0], "id": labels}).to_parquet(tmp_path / f"{name}.parquet")
    err = fail("report", tmp_path / "a.parquet", tmp_path / "b.parquet", *COLUMNS, "--cluster", "id")
    assert "column 'id' contains text" in err
    for name in "ab":
        run("report", tmp_path / f"{name}.parquet", *COLUMNS, "--cluster", "id", "--sketch", tmp_path / f"{name}.cal")
    err = fail("merge", tmp_path / "a.cal", tmp_path / "b.cal", "-o", tmp_path / "c.cal")
    assert "labels that are whole numbers, got text" in err


def test_whole_numbers_in_a_csv_are_numbers_if_all_are(tmp_path: Path) -> None:
    """As in other files; a number with a leading zero, or a single word, makes all of them text."""
    for last, kind in (("3", "number"), ("03", "text"), ("x", "text"), ("1.5", "text")):
        (tmp_path / "a.csv").write_text(f"risk,back,id\n.5,1,1\n.2,0,2\n.3,0,{last}\n")
        options = Options(score="risk", outcome="back", clusters=("id",))
        read = read_predictions([str(tmp_path / "a.csv")], options, keep=False)
        assert isinstance(read, FileSketch)
        assert read.sketch.buckets is not None
        assert read.sketch.buckets.kind == kind


def test_wrong_usage() -> None:
    status, out, err = run("report", "a.csv", "--cluster", "id", "--cluster", "id")
    assert (status, out) == (2, "")
    assert "--cluster: id, id; name each column once" in err
    assert "did you mean '--cluster'?" in fail("report", "a.csv", "--clusters", "id", status=2)


def test_single_arrays_have_no_clusters(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", [0.5, 0.2])
    np.save(tmp_path / "y.npy", [0, 1])
    err = fail("report", tmp_path / "p.npy", "--targets", tmp_path / "y.npy", "--cluster", "id")
    assert "a .npy file has no column names, but --cluster names 'id'; save a .npz file with named arrays" in err


# ---------------------------------------------------------------- the hint


def test_names_of_things_with_several_rows() -> None:
    yes = ("patient", "patient_id", "PatientID", "userId", "question", "image id", "gameIDs", "RACE", "doc_uuid")
    no = ("risk", "valid", "grid", "paid", "election_date", "game_type", "user_age", "identity", "p", "image_count")
    assert named_as_ids((*yes, *no)) == yes


def test_what_is_repeated() -> None:
    assert is_repeated([1, 1, 2, 2, 3, 3])
    assert is_repeated(["a", "a", "b", None, "b"])
    assert not is_repeated([1, 2, 3, 4])
    assert not is_repeated(["a"] * 9)
    assert not is_repeated([0.25, 0.25, 0.5, 0.5])
    assert not is_repeated([])


def games(copies: int, rounds: int = 1) -> dict[str, list[object]]:
    """The columns of games of four teams in two seasons, each in so many rows."""
    teams = "ABCD"
    rows = [
        (season, home, away, week)
        for season in (2020, 2021)
        for week in range(rounds)
        for home in teams
        for away in teams
        if home < away
        for _ in range(copies)
    ]
    columns = zip(*rows, strict=True)
    return {name: list(values) for name, values in zip(("season", "team1", "team2", "week"), columns, strict=True)}


def test_columns_that_together_name_a_thing() -> None:
    # Each of two seasons has six pairs of teams, each in two rows: no column alone and no two name a game.
    three = {name: cells for name, cells in games(2).items() if name != "week"}
    assert cluster_hint(three) == (("season", "team1", "team2"),)
    assert cluster_hint({**three, "score": [0.25] * 24}) == (("season", "team1", "team2"),)
    assert cluster_hint({"season": three["season"], "week": [1, 2] * 12}) == (), "when is not what"
    # With one row a game, the finest that repeats are the pairs of teams, which meet in both seasons: only six.
    assert cluster_hint({name: cells[::2] for name, cells in three.items()}) == ()
    # A column that names things alone comes first, as ever.
    ids = [place // 2 for place in range(24)]
    assert cluster_hint({**three, "game_id": ids}) == (("game_id",),)
    # Rows without one of the labels tell nothing.
    blank = {**three, "team1": [None, *three["team1"][1:]]}
    assert cluster_hint(blank) == (("season", "team1", "team2"),)
    assert cluster_hint({}) == ()


def test_the_command_names_columns_that_together_name_a_thing_and_its_remedy_runs(tmp_path: Path) -> None:
    path, columns = tmp_path / "games.csv", games(3)
    rng = np.random.default_rng(0)
    p = np.repeat(rng.random(12), 3)
    columns |= {"p": p.tolist(), "y": np.repeat(rng.integers(0, 2, 12), 3).tolist()}
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *lines]))
    asked = ("report", path, "--score", "p", "--outcome", "y", "--n-resamples", 0)
    _, err = succeed(*asked)
    assert "'season', 'team1', 'team2' together identify units with several rows each" in err
    remedy = err.split("pass ")[1].split("\n")[0].split()
    assert remedy == ["--cluster", "season", "--cluster", "team1", "--cluster", "team2"]
    status, out, err = run(*asked, *remedy)
    assert (status, err) == (0, "")
    assert "in 12 clusters" in out


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_names_what_looks_like_an_id(files: dict[str, Path], kind: str) -> None:
    _, err = succeed("report", files[kind], *columns_of(kind), "--n-resamples", 0)
    assert "'patient_id' identifies units with several rows each" in err
    assert "pass --cluster patient_id" in err
    assert run("report", files[kind], *columns_of(kind), "--cluster", "hospital", "--n-resamples", 0)[2] == ""
    if kind != "npz":
        compared = run("compare", files[kind], "--scores", "risk,other", "--outcome", "back")
        assert "pass --cluster patient_id" in compared[2]


def test_independent_sketches_add_squares_of_errors(tmp_path: Path) -> None:
    paths = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        sketch = calibrant.CalibrationSketch()
        p = rng.random(500)
        sketch.update(p, (rng.random(500) < p).astype(int))
        paths.append(tmp_path / f"hospital{seed}.cal")
        paths[-1].write_bytes(sketch.to_bytes())
    status, out, err = run("compare", *paths, "--independent")
    assert (status, err) == (0, "")
    assert "The models were evaluated on independent rows, so the variances of the errors are added." in " ".join(
        out.split()
    )
    unknown = run("compare", *paths)[1]
    words = " ".join(unknown.split())
    assert "Sketches do not contain individual rows, so the confidence intervals are conservative." in words
    rows = tmp_path / "rows.csv"
    rows.write_text("p,y\n0.2,0\n0.8,1\n")
    err = fail("compare", rows, rows, "--independent", "--score", "p", "--outcome", "y", status=2)
    assert "--independent is only for .cal files" in err


def dependent(n_things: int, rows: int, share: float, seed: int = 0) -> tuple[list[int], Errors]:
    """Things with so many rows each, of which a share has the outcome of its thing; the scores are calibrated."""
    rng = np.random.default_rng(seed)
    score = np.repeat(rng.uniform(0.2, 0.8, n_things), rows)
    own = np.repeat(rng.random(n_things) < score[::rows], rows)
    outcomes = np.where(rng.random(n_things * rows) < share, own, rng.random(n_things * rows) < score).astype(float)
    return np.repeat(np.arange(n_things), rows).tolist(), Errors(score - outcomes, outcomes)


@pytest.mark.parametrize(
    ("n_things", "rows", "share", "is_hint"),
    [
        (200, 10, 0.5, True),
        (200, 2, 1.0, True),
        (40, 200, 1.0, True),  # many rows of one outcome, such as daily forecasts of an election
        (57, 200, 0.3, False),  # subjects of an examination: many rows each, of both outcomes
        (4, 100, 1.0, False),  # a feature such as race
    ],
)
def test_a_hint_needs_identities_whose_rows_are_dependent(n_things, rows, share, is_hint) -> None:
    ids, errors = dependent(n_things, rows, share)
    assert bool(cluster_hint({"patient": ids}, errors)) is is_hint
    shuffled = np.random.default_rng(1).permutation(ids).tolist()
    assert bool(cluster_hint({"patient": shuffled}, errors)) is False


def test_independent_rows_seldom_give_a_hint() -> None:
    found = [
        bool(cluster_hint({"patient": ids}, errors)) for ids, errors in (dependent(100, 5, 0, k) for k in range(200))
    ]
    assert np.mean(found) < 0.1  # two standard errors: 5 %


def test_groups_are_not_proposed_as_clusters(tmp_path: Path) -> None:
    ids, (residuals, outcomes) = dependent(60, 5, 1.0)
    pd.DataFrame({"race": ids, "score": residuals + outcomes, "outcome": outcomes.astype(int)}).to_csv(
        tmp_path / "f.csv", index=False
    )
    assert "pass --cluster race" in run("report", tmp_path / "f.csv", "--n-resamples", 0)[2]
    assert run("report", tmp_path / "f.csv", "--by", "race", "--n-resamples", 0)[2] == ""
