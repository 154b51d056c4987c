"""``calibrant recalibrate --prior`` and ``--estimate-prior``: maps without outcomes, their use, wrong options."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import csv
from scipy.special import expit, logit, softmax

import calibrant
from calibrant.recalibration import CalibrationMap
from tests.in_process import fail, run, succeed


@cache
def files() -> dict[str, str]:
    """Return the texts of files: new scores, reference scores with outcomes, and classes."""
    rng = np.random.default_rng(0)
    events, outcomes = rng.random(2_000) < 0.1, rng.random(1_500) < 0.5
    new, old = (expit(2 * (rng.normal(size=len(y)) + 2 * y) - 2).round(6) for y in (events, outcomes))
    x = rng.normal(size=(600, 3))
    x[np.arange(600), rng.choice(3, 600, p=[0.1, 0.2, 0.7])] += 2
    classes = pd.DataFrame(softmax(2 * x, axis=1), columns=["p_cat", "p_dog", "p_eel"])
    return {
        "new.csv": pd.DataFrame({"id": range(2_000), "risk": new}).to_csv(index=False),
        "old.csv": pd.DataFrame({"risk": old, "died": outcomes.astype(int)}).to_csv(index=False),
        "bad.csv": pd.DataFrame({"risk": [*new[:40], 1.5]}).to_csv(index=False),
        "eels.csv": classes.rename(columns={"p_eel": "p_ant"}).to_csv(index=False),
        "pets.csv": classes[["p_eel", "p_cat", "p_dog"]].to_csv(index=False),
    }


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in files().items():
        Path(name).write_bytes(text.encode())
    np.savez("new.npz", probs=np.full(50, 0.5), targets=np.zeros(50))


def test_a_known_rate_needs_no_file_and_is_written_in_every_form() -> None:
    outputs = ("--map", "m.json", "--sql", "m.sql", "--onnx", "m.onnx", "--html", "m.html", "--json", "r.json")
    text, _ = succeed("recalibrate", "--prior", "2%", "--trained-prior", "0.5", *outputs, "--png", "m.png")
    assert "Assumed, not proven" in text
    assert CalibrationMap.read("m.json") == calibrant.prior_shift(prior=0.02, trained_prior=0.5).map
    assert "-3.89182" in Path("m.sql").read_text()
    assert json.loads(Path("r.json").read_text())["assumed"] is True
    assert Path("m.png").read_bytes().startswith(b"\x89PNG")
    _, said = succeed("apply", "m.json", "new.csv", "--score", "risk", "--output", "mapped.csv")
    assert "m.json: the correction assumes that only the event rate changed after training" in said
    assert "not proven" not in said
    mapped = pd.read_csv("mapped.csv")
    np.testing.assert_allclose(logit(mapped["calibrated"]), logit(mapped["risk"]) + logit(0.02), atol=1e-9)


def test_an_estimated_rate_is_that_of_python_and_is_written() -> None:
    options = ("--estimate-prior", "--trained-prior", "0.5", "--score", "risk", "--reference", "old.csv")
    text, _ = succeed("recalibrate", "new.csv", *options, "--map", "m.json", "--json", "r.json", "--sql", "m.sql")
    new, old = (pd.read_csv(name)["risk"].to_numpy() for name in ("new.csv", "old.csv"))
    fix = calibrant.prior_shift(trained_prior=0.5, probs=new, reference=old)
    assert CalibrationMap.read("m.json") == fix.map
    assert json.loads(Path("r.json").read_text())["check"]["p_value"] == fix.check.p_value
    assert "risk >= 0" in Path("m.sql").read_text()
    assert "2,000 rows without outcomes" in text
    assert "The scores do not contradict the assumption" in " ".join(text.split())


def test_weights_clusters_and_conditions_are_those_of_python() -> None:
    frame = pd.read_csv("new.csv").assign(ward=lambda x: x["id"] % 40, w=lambda x: 0.5 + x["id"] % 7)
    frame.to_csv("wards.csv", index=False)
    options = ("--estimate-prior", "--trained-prior", "0.5", "--score", "risk", "--where", "id >= 500")
    text, _ = succeed("recalibrate", "wards.csv", *options, "--weight", "w", "--cluster", "ward", "--map", "m.json")
    kept = frame[frame["id"] >= 500]
    fix = calibrant.prior_shift(kept["risk"], trained_prior=0.5, weights=kept["w"], clusters=kept["ward"])
    assert CalibrationMap.read("m.json") == fix.map
    assert "assume independent clusters (40)" in " ".join(text.split())


def test_a_reference_has_its_classes_in_any_order() -> None:
    pets = csv.read_csv("pets.csv").to_pandas()
    pets[["p_dog", "p_eel", "p_cat"]].to_csv("other.csv", index=False)
    options = ("--estimate-prior", "--trained-prior", "cat=0.1,dog=0.2,eel=0.7", "--json", "-", "--quiet")
    both = [run("recalibrate", "pets.csv", *options, "--reference", name) for name in ("pets.csv", "other.csv")]
    assert json.loads(both[0][1])["check"] == json.loads(both[1][1])["check"] is not None


def test_a_sketch_is_a_reference() -> None:
    run("report", "old.csv", "--score", "risk", "--outcome", "died", "--sketch", "old.cal", "--quiet")
    options = ("--estimate-prior", "--trained-prior", "0.5", "--score", "risk", "--reference", "old.cal")
    text, _ = succeed("recalibrate", "new.csv", *options)
    assert "do not contradict" in " ".join(text.split())


def test_a_contradicted_assumption_writes_no_map_unless_asked() -> None:
    options = (
        "--estimate-prior",
        "--trained-prior",
        "0.1",
        "--score",
        "risk",
        "--reference",
        "old.csv",
        "--map",
        "m.json",
    )
    said = fail("recalibrate", "new.csv", *options, status=3)
    assert "the map is not written, because the scores contradict its assumption; to write it, pass --anyway" in said
    assert not Path("m.json").exists()
    assert run("recalibrate", "new.csv", *options, "--anyway")[0] == 3
    assert CalibrationMap.read("m.json").assumed


def test_classes_follow_their_names() -> None:
    options = ("--estimate-prior", "--trained-prior", "cat=0.3,dog=30%,eel=0.4")
    succeed("recalibrate", "pets.csv", *options, "--map", "m.json")
    pets = csv.read_csv("pets.csv").to_pandas().to_numpy()  # in the order of the columns
    trained = {"cat": 0.3, "dog": 0.3, "eel": 0.4}
    fix = calibrant.prior_shift(trained_prior=trained, probs=pets, class_names=["eel", "cat", "dog"])
    assert CalibrationMap.read("m.json") == fix.map
    assert (
        run("recalibrate", "pets.csv", "--estimate-prior", "--trained-prior", "0.4,0.3,0.3", "--map", "n.json")[0] == 0
    )
    assert CalibrationMap.read("n.json").event["class_names"] == ["eel", "cat", "dog"]
    _, _, said = run("apply", "m.json", "pets.csv", "--output", "mapped.csv")
    assert "only the shares of the classes changed" in said
    np.testing.assert_allclose(
        pd.read_csv("mapped.csv")[[f"calibrated_{name}" for name in ("eel", "cat", "dog")]], fix.map(pets), rtol=1e-9
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--prior", "0.02"), "--trained-prior is missing"),
        (("--trained-prior", "0.5"), "--trained-prior works only with a new event rate"),
        (("--prior", "0", "--trained-prior", "0.5"), "'--prior': expected a share above 0 and below 1, got 0"),
        (
            ("--prior", "0.2", "--trained-prior", "100%"),
            "'--trained-prior': expected a share above 0 and below 1, got 1",
        ),
        (("--prior", "two", "--trained-prior", "0.5"), "'two' is not a number or a percentage"),
        (("--prior", "0.2,0.7", "--trained-prior", "0.5,0.5"), "shares with the sum 1, got the sum 0.9"),
        (("--prior", "a=0.2,0.8", "--trained-prior", "0.5,0.5"), "name each class once"),
        (("--prior", "a=0.2,a=0.8", "--trained-prior", "0.5,0.5"), "name each class once"),
        (("--prior", "a=0.2,b=0.8", "--trained-prior", "a=0.5,c=0.5"), "the classes 'a', 'c', got 'b'"),
        (("--prior", "0.2", "--trained-prior", "0.5,0.5"), "2 shares, as trained_prior"),
        (("new.csv", "--prior", "0.2", "--trained-prior", "0.5"), "FILE is for --estimate-prior"),
        (("--prior", "0.2", "--trained-prior", "0.5", "--reference", "old.csv"), "--reference is for --estimate-prior"),
        (("new.csv", "--prior", "0.2", "--estimate-prior", "--trained-prior", "0.5"), "exclude each other"),
        (("--estimate-prior", "--trained-prior", "0.5"), "needs scores of the new population"),
        (("new.csv", "--estimate-prior", "--trained-prior", "0.5", "--method", "cox"), "--method does not work with"),
        (("new.csv", "--estimate-prior", "--trained-prior", "0.5", "--outcome", "id"), "--outcome does not work with"),
        (("--prior", "0.1", "--trained-prior", "0.5", "--weight", "id"), "--weight is for --estimate-prior"),
        (
            ("new.csv", "--estimate-prior", "--trained-prior", "0.5", "--cluster", "id", "--reference", "old.csv"),
            "--reference assumes independent rows, so it does not work with --cluster",
        ),
        (("new.csv", "--estimate-prior", "--trained-prior", "0.5", "--probs", "p_*"), "--probs is for classes"),
        (("new.csv", "--estimate-prior", "--trained-prior", "0.5,0.5", "--score", "risk"), "--score is for one event"),
        ((), "name a file"),
    ],
)
def test_a_wrong_option_is_named(args: tuple[str, ...], message: str) -> None:
    status, text, said = run("recalibrate", *args)
    assert status == 2
    assert message in " ".join(said.split())
    assert not text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("bad.csv", "--trained-prior", "0.5", "--score", "risk"),
            "bad.csv: row 41, column 'risk': expected values in [0, 1], got 1.5",
        ),
        (("new.csv", "--trained-prior", "0.5", "--score", "rsk"), "no column 'rsk' (--score); did you mean 'risk'?"),
        (("pets.csv", "--trained-prior", "0.5,0.5"), "3 columns"),
        (
            ("pets.csv", "--trained-prior", "a=0.5,b=0.2,c=0.3"),
            "--trained-prior: expected the classes 'eel', 'cat', 'dog', got 'a'",
        ),
        (
            ("new.csv", "--trained-prior", "0.5", "--score", "risk", "--reference", "bad.csv"),
            "bad.csv: row 41, column 'risk'",
        ),
        (("new.csv", "--trained-prior", "0.5"), "name the right column with --score (one event)"),
        (("pets.csv", "--trained-prior", "0.5"), "--trained-prior has the share of one event; name the columns"),
        (
            ("pets.csv", "--trained-prior", "0.5,0.3,0.2", "--reference", "eels.csv"),
            "has the classes cat, dog, ant, but pets.csv has eel, cat, dog",
        ),
        (("new.csv", "--trained-prior", "0.5", "--score", "risk", "--where", "id < 9"), "at least 30 scores, got 9"),
        (("new.npz", "--trained-prior", "0.5"), "holds arrays, not columns; save the scores as CSV or Parquet"),
        (("gone.csv", "--trained-prior", "0.5"), "gone.csv: no such file"),
    ],
)
def test_a_wrong_file_is_named(args: tuple[str, ...], message: str) -> None:
    status, text, said = run("recalibrate", "--estimate-prior", *args)
    assert status == 1
    assert message in " ".join(said.split())
    assert not text


def test_logits_are_read_as_log_odds() -> None:
    frame = pd.read_csv("new.csv")
    frame.assign(z=logit(frame["risk"])).to_csv("z.csv", index=False)
    options = ("--estimate-prior", "--trained-prior", "0.5")
    assert run("recalibrate", "z.csv", *options, "--score", "z", "--logits", "--map", "z.json")[0] == 0
    run("recalibrate", "new.csv", *options, "--score", "risk", "--map", "p.json")
    z, p = (CalibrationMap.read(name).parameters["intercept"] for name in ("z.json", "p.json"))
    assert z == pytest.approx(p, rel=1e-9)
