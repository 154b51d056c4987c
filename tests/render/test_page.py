"""The page of a report in a real browser: no error, numbers as in `to_dict`, everything by keyboard, on any screen."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.measures.listed import of_profile
from calibrant.measures.profiles import STANDARD
from tests.samples import draw, draw_classes

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra 'dev')")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (apt-get install chromium)")

Open = Any


@pytest.fixture(scope="module")
def report() -> calibrant.Report:
    probs, targets = draw_classes(3, 1500, np.full(10, 0.3))
    sharp = probs**1.5
    names = ["zebra", "<script>window.hacked = 1</script>", 'a "quoted", name', *map(str, range(7))]
    return calibrant.evaluate(
        sharp / sharp.sum(axis=1, keepdims=True),
        targets,
        class_names=names,
        groups=np.array(["north", "south", "<b>east</b>"])[np.arange(1500) % 3],
        n_resamples=199,
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser with a new, empty profile, whose contexts are one to a test."""
    profile = tmp_path_factory.mktemp("profile")
    with playwright.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            str(profile), executable_path=CHROMIUM, args=list(FLAGS), accept_downloads=True
        )
        yield context
        context.close()


@pytest.fixture(scope="module")
def path(report: calibrant.Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.to_html(tmp_path_factory.mktemp("page") / "report.html", title="<i>digits</i>")


@pytest.fixture
def page(browser: Any, path: Path) -> Iterator[Any]:
    """The page, in a window of its own; what it complains of fails the test."""
    complaints: list[str] = []
    window = browser.new_page()
    window.on("console", lambda message: complaints.append(message.text))
    window.on("pageerror", lambda error: complaints.append(str(error)))
    window.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
    window.goto(path.as_uri())
    yield window
    window.close()
    assert complaints == []


def test_the_numbers_on_the_page_are_those_of_to_dict(report: calibrant.Report, page: Any) -> None:
    summary = report.to_dict()
    rows = page.locator("[data-part=measures] tbody tr").all()
    shown = [row.locator("td").all_inner_texts() for row in rows]
    keys = {measure.label: measure.name for measure in of_profile(STANDARD)}
    assert [row[0] for row in shown] == list(keys)
    for row in shown:
        own = summary["estimates"][keys[row[0]]]
        assert float(row[1]) == pytest.approx(own["value"], abs=5.1e-5)
        assert [float(end) for end in row[2].split(" – ")] == pytest.approx([own["low"], own["high"]], abs=5.1e-5)
        if own["floor"] is None:
            assert row[3:] == ["", "", ""]
            continue
        floors = [own["floor"]["mean"], own["floor"]["upper"]]
        assert [float(value) for value in row[3:5]] == pytest.approx(floors, abs=5.1e-5)
        assert float(row[5].lstrip("<≤ ")) == pytest.approx(own["p_value"], abs=1e-3)
    own = summary["estimates"]["ece"]
    said = page.locator(".says").inner_text().replace("\N{NO-BREAK SPACE}", " ")
    assert f"ECE {own['value']:.3f} (95 % CI {own['low']:.3f} to {own['high']:.3f})" in said
    assert page.locator("h2.verdict").inner_text() == "Evidence of miscalibration: over-confident"
    numbers = page.locator(".key-numbers li").all_inner_texts()
    assert [text.split("\n")[0] for text in numbers] == [
        "difference in percentage points",
        "calibration slope",
        "ECE",
    ]
    assert numbers[2].split("\n")[1] == f"{own['value']:.3f}"


def test_a_name_that_is_markup_is_text(page: Any) -> None:
    assert page.locator("h1").inner_text() == "<i>digits</i>"
    assert page.evaluate("window.hacked") is None
    assert page.get_by_text("<script>window.hacked = 1</script>").count() >= 1
    assert page.locator("[data-part=groups] td.name").all_inner_texts() == ["south", "north", "<b>east</b>"]


def test_tips_open_by_keyboard_and_move_with_the_arrows(report: calibrant.Report, page: Any) -> None:
    assert report.diagram is not None
    bins = report.diagram
    filled = np.flatnonzero(bins.counts)
    tip = page.locator(".tip")
    assert tip.is_hidden()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('.bins.set') !== null"):
            break
    for b in filled:
        ends = f"{bins.edges[b]:.3f} to {bins.edges[b + 1]:.3f}: {bins.counts[b]:,} rows"
        assert tip.is_visible()
        assert tip.inner_text().startswith(ends)
        assert f"predicted {bins.confidences[b]:.3f}, observed {bins.accuracies[b]:.3f}" in tip.inner_text()
        assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(ends)
        page.keyboard.press("ArrowRight")
    assert tip.inner_text().startswith(f"{bins.edges[filled[-1]]:.3f}")  # there is no bin beyond the last
    page.keyboard.press("Home")
    assert tip.inner_text().startswith(f"{bins.edges[filled[0]]:.3f}")
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.keyboard.press("End")
    page.keyboard.press("Tab")  # into the histogram
    assert re.search(r"\d correct, .* incorrect$", tip.inner_text())


def test_a_tip_stays_on_the_screen(browser: Any, path: Path) -> None:
    window = browser.new_page()
    window.set_viewport_size({"width": 320, "height": 480})
    window.goto(path.as_uri())
    for point in window.locator(".bins.set .pt").all():
        point.focus()
        box = window.locator(".tip").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 320
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 480
    window.close()


def test_the_curve_is_switched_by_keyboard(page: Any) -> None:
    figure = page.locator("[data-part=diagram]")
    shown = {name: figure.locator(f".{name}.set") for name in ("bins", "isotonic", "smooth")}
    assert [name for name, own in shown.items() if own.is_visible()] == ["bins"]
    figure.locator(".r-bins").focus()
    for name in ("isotonic", "smooth"):
        page.keyboard.press("ArrowRight")
        assert [other for other, own in shown.items() if own.is_visible()] == [name]
        assert [other for other in shown if figure.locator(f".key.{other}").first.is_visible()] == [name]
    assert figure.locator(".smooth.allowed").is_visible()
    figure.locator(".c-band").focus()
    page.keyboard.press("Space")
    assert figure.locator(".smooth.allowed").is_hidden()
    assert figure.locator(".ends.smooth").is_visible()
    figure.locator(".c-ends").uncheck()
    assert figure.locator(".ends.smooth").is_hidden()
    shown["smooth"].locator(".pt").first.focus()
    assert page.locator(".tip").inner_text().startswith("predicted ")


def unfold_classes(section: Any) -> None:
    section.get_by_text("A diagram of each class").click()
    assert section.locator(".tiles li").first.is_visible()


def test_up_to_eight_classes_are_not_folded(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.full(9, 0.3), 400)
    for n, folded in ((8, False), (9, True)):
        targets = rng.integers(0, n, 400)
        found = calibrant.evaluate(probs[:, :n] / probs[:, :n].sum(1, keepdims=True), targets, n_resamples=0)
        window = browser.new_page()
        window.goto(found.to_html(tmp_path / f"{n}.html").as_uri())
        section = window.locator("[data-part=classes]")
        assert section.locator("table, .tiles").first.evaluate("own => own.tagName") == "TABLE"  # the table first
        assert section.locator("table").first.locator("tbody tr").count() == 8
        assert section.locator(".rest").count() == folded
        assert section.locator(".tiles li").count() == n
        assert section.locator(".tiles").is_hidden() == folded
        window.close()


def test_classes_are_sorted_and_found(report: calibrant.Report, page: Any) -> None:
    found, names = report.classwise, report.class_names
    assert found is not None
    assert names is not None
    section = page.locator("[data-part=classes]")
    assert section.locator("table").first.locator("tbody tr").count() == 8
    assert section.locator(".rest tbody tr").count() == 2
    assert section.locator(".tiles").is_hidden()  # more than eight are folded
    unfold_classes(section)

    def shown() -> list[str]:
        return list(section.locator("li:visible b").all_inner_texts())

    by_error = [names[k] for k in np.argsort(-found.errors, kind="stable")]
    assert shown() == by_error
    section.locator("select").select_option("rows")
    assert shown() == [names[k] for k in np.argsort(-found.supports, kind="stable")]
    section.locator("select").select_option("index")
    assert shown() == list(names)
    section.locator("select").select_option("name")
    assert shown()[-1] == "zebra"
    section.locator("input").fill("EBR")
    assert shown() == ["zebra"]
    assert section.locator("output").inner_text() == "1 of 10 shown"
    section.locator("input").fill("")
    assert len(shown()) == 10


def test_the_bins_of_a_class_open_and_close(report: calibrant.Report, page: Any) -> None:
    found, names = report.classwise, report.class_names
    assert found is not None
    assert names is not None
    assert found.lows is not None
    unfold_classes(page.locator("[data-part=classes]"))
    for name in ("zebra", 'a "quoted", name', "<script>window.hacked = 1</script>"):
        k = names.index(name)
        button = page.get_by_role("button", name=f"The bins of {name}", exact=True)
        button.focus()
        page.keyboard.press("Enter")
        dialog = page.locator("dialog")
        assert dialog.is_visible()
        assert dialog.locator("h3").inner_text() == name
        rows = [row.locator("td").all_inner_texts() for row in dialog.locator("tbody tr").all()]
        filled = np.flatnonzero(found.counts[k])
        assert len(rows) == len(filled)
        for row, b in zip(rows, filled, strict=True):
            assert int(row[1].replace(",", "")) == found.counts[k, b]
            assert float(row[2]) == pytest.approx(found.confidences[k, b], abs=5.1e-4)
            assert float(row[3]) == pytest.approx(found.accuracies[k, b], abs=5.1e-4)
            assert float(row[4].split(" – ")[0]) == pytest.approx(found.lows[k, b], abs=5.1e-4)
        assert dialog.locator("svg").count() == 1
        page.keyboard.press("Escape")
        assert dialog.is_hidden()
        assert page.evaluate("window.hacked") is None


def test_numbers_are_downloaded(report: calibrant.Report, page: Any, tmp_path: Path) -> None:
    assert report.diagram is not None
    for name in page.locator("a[download]").evaluate_all("links => links.map(link => link.download)"):
        with page.expect_download() as waiting:
            page.locator(f"a[download='{name}']").first.click()
        target = tmp_path / name
        waiting.value.save_as(target)
        assert waiting.value.suggested_filename == name
        with target.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows, name
        if name == "reliability-diagram.csv":
            values = [float(row["accuracy"]) for row in rows]
            assert values == report.diagram.accuracies[report.diagram.counts > 0].tolist()


def test_every_control_is_reached_by_tab(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(own => own.open = true)")
    wanted = page.evaluate(
        "document.querySelectorAll('summary, a[href], select, input[type=checkbox], input[type=search], .tiles button')"
        ".length"
    )
    reached = set()
    for _ in range(wanted + 60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(() => { const own = document.activeElement; own.dataset.reached ??= Math.random();"
                "return own.matches('summary, a[href], select, input[type=checkbox], input[type=search], "
                ".tiles button')"
                " && own.checkVisibility() ? own.dataset.reached : null })()"
            )
        )
    hidden = page.evaluate(
        "[...document.querySelectorAll('summary, a[href], select, input, .tiles button')]"
        ".filter(own => !own.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true})).length"
    )
    assert len(reached - {None}) == wanted - hidden
    assert wanted - hidden >= 20


def test_every_picture_and_control_has_a_name(page: Any) -> None:
    unnamed = page.evaluate(
        "[...document.querySelectorAll('svg:not([aria-hidden]), [role=group], [role=img], [role=radiogroup], .scroll,"
        " section.says')].filter(own => !own.closest('[aria-hidden]') && !own.getAttribute('aria-label'))"
        ".map(own => own.outerHTML.slice(0, 80))"
    )
    assert [own for own in unnamed if "<dialog" not in own and 'class="scroll"' not in own] == []
    assert page.evaluate("[...document.querySelectorAll('input, select')].every(own => own.labels.length === 1)")


def test_it_reads_without_javascript(browser: Any, path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    silent = tmp_path / "silent.html"
    silent.write_text(re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL), encoding="utf-8")
    window = browser.new_page()
    window.goto(silent.as_uri())
    assert window.locator(".needs-script").first.is_hidden()
    assert window.locator(".dot.bins").first.is_visible()
    window.locator(".r-smooth").check()
    assert window.locator(".smooth.set").is_visible()
    assert window.locator(".bins.set").is_hidden()
    unfold_classes(window.locator("[data-part=classes]"))
    window.locator("[data-part=bins] summary").first.click()
    assert window.locator("[data-part=bins] details table").first.is_visible()
    window.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_any_screen(browser: Any, path: Path, scheme: str) -> None:
    window = browser.new_page()
    window.emulate_media(color_scheme=scheme)
    window.goto(path.as_uri())
    for width in (320, 375, 768, 1280, 2400):
        window.set_viewport_size({"width": width, "height": 800})
        assert window.evaluate("[innerWidth, document.documentElement.scrollWidth <= innerWidth]") == [width, True]
        size = window.evaluate("document.querySelector('.fig svg text.tick').getBoundingClientRect().height")
        assert size >= 8, width  # in pixels: the smallest text can be read on the narrowest phone
    colour, ground = window.evaluate(
        "(() => { const own = getComputedStyle(document.querySelector('.verdict'));"
        "return [own.color, getComputedStyle(document.querySelector('main')).backgroundColor] })()"
    )
    brightness = [sum(map(int, re.findall(r"\d+", own)[:3])) for own in (colour, ground)]
    assert (brightness[0] < brightness[1]) == (scheme == "light")
    window.close()


def test_it_prints(browser: Any, path: Path, tmp_path: Path) -> None:
    window = browser.new_page()
    window.goto(path.as_uri())
    window.emulate_media(media="print", color_scheme="dark")
    assert window.locator(".switch").first.is_hidden()
    assert window.locator(".downloads").first.is_hidden()
    ink = window.evaluate("getComputedStyle(document.querySelector('.verdict')).color")
    assert ink == "rgb(0, 0, 0)"  # dark mode stays off the paper
    rules = {"h2": "breakAfter", "summary": "breakAfter", "section": "breakInside", "figure": "breakInside"}
    for part, rule in {**rules, ".scroll": "breakInside"}.items():
        assert window.evaluate(f"getComputedStyle(document.querySelector('{part}')).{rule}") == "avoid"
    cut = "[...document.querySelectorAll('.scroll')].filter(own => own.scrollWidth > own.clientWidth).length"
    window.set_viewport_size({"width": 680, "height": 960})  # 180 mm, A4 less the margins
    assert window.evaluate(cut) == 0
    printed = window.pdf(format="A4", path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    assert 2 <= printed.count(b"/Type /Page\n") <= 3
    window.close()


def test_printed_labels_beside_a_table_can_be_read(page: Any) -> None:
    """They have at least 6 points, which are 8 pixels, and a table too wide for the rest of the page is below."""
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 960})
    drawn = "own => 12 * own.getBoundingClientRect().width / own.viewBox.baseVal.width"
    sizes = [picture.evaluate(drawn) for picture in page.locator(".pair.uneven > figure > svg").all()]
    page.emulate_media(media="screen")
    assert sizes
    assert min(sizes) >= 8


def test_remarks_on_the_numbers_are_printed_although_they_are_folded(page: Any) -> None:
    """They explain the columns of the table, and nobody can unfold them on paper."""
    remarks = page.locator("details.notes li").last
    assert not remarks.is_visible()
    page.emulate_media(media="print")
    assert remarks.is_visible()
    assert not page.locator("details.long").first.is_visible()
    page.emulate_media(media="screen")


def test_the_settings_are_in_two_columns_on_paper(page: Any) -> None:
    """So the last page seldom has nothing but them."""
    lefts = (
        "() => [...document.querySelectorAll('section > dl > div > dt')].map(own => own.getBoundingClientRect().left)"
    )
    assert len({round(left) for left in page.evaluate(lefts)}) == 1
    page.emulate_media(media="print")
    assert len({round(left) for left in page.evaluate(lefts)}) == 2
    page.emulate_media(media="screen")


def test_a_section_of_folded_tables_alone_is_not_printed(page: Any) -> None:
    folded, shown = page.locator("section[data-part=bins]"), page.locator("section[data-part=measures]")
    assert folded.is_visible()
    page.emulate_media(media="print")
    assert not folded.is_visible()
    assert shown.is_visible()
    page.emulate_media(media="screen")


def test_a_table_is_beside_a_picture_of_about_its_height(page: Any) -> None:
    """A long table is below the picture, because the page beside its lower part would be empty."""
    page.set_viewport_size({"width": 1280, "height": 800})
    figure, table = (page.locator(f"[data-part=measures] {part}").first.bounding_box() for part in ("svg", "table"))
    assert table["y"] >= figure["y"] + figure["height"]
    for pair in page.locator(".pair.uneven").all():
        heights = [pair.locator(part).first.bounding_box()["height"] for part in ("figure", "table")]
        assert heights[1] < 2 * heights[0]


def test_a_paragraph_for_a_paper_can_be_copied(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    scores = rng.random(300)
    found = calibrant.evaluate(scores, rng.random(300) < scores, profile="clinical", n_resamples=99)
    window = browser.new_page()
    window.goto(found.to_html(tmp_path / "clinical.html").as_uri())
    for button, text in ((0, found.to_dict()["methods_brief"]), (2, found.results)):
        own = window.locator("button.copy").nth(button)
        own.click()
        assert own.inner_text() == "copied"
        assert window.evaluate("getSelection().toString()").strip() == text
    window.close()


def test_on_a_phone_tables_leave_out_the_noise_and_show_that_they_scroll(browser: Any, path: Path) -> None:
    window = browser.new_page()
    window.set_viewport_size({"width": 390, "height": 844})
    window.goto(path.as_uri())
    heads = window.locator("[data-part=measures] th:visible")
    assert heads.all_inner_texts() == ["measure", "estimate", "95 % CI", "p"]
    assert window.locator("[data-part=groups] th").nth(5).is_hidden()
    assert window.evaluate("document.documentElement.scrollWidth") <= 390
    wide = "[...document.querySelectorAll('.scroll')].filter(own => own.scrollWidth > own.clientWidth).length"
    assert window.evaluate(wide) >= 1
    shadow = window.evaluate("getComputedStyle(document.querySelector('.scroll')).backgroundAttachment")
    assert shadow == "local, local, scroll, scroll"  # the first two hide the shadows at the ends
    window.set_viewport_size({"width": 1200, "height": 844})
    assert window.locator("[data-part=measures] th").nth(3).is_visible()
    window.close()


def test_the_table_of_the_bins_takes_the_whole_width(browser: Any, path: Path) -> None:
    window = browser.new_page()
    window.set_viewport_size({"width": 1200, "height": 900})
    window.goto(path.as_uri())
    window.locator("[data-part=bins] summary").first.click()
    box, main = (window.locator(own).first.bounding_box() for own in ("[data-part=bins] .scroll", "main > header"))
    assert box["width"] == main["width"]
    heights = window.evaluate("[...document.querySelector('[data-part=bins] tbody').rows].map(own => own.offsetHeight)")
    assert max(heights) < 40  # one line
    fits = "(own => own.scrollWidth <= own.clientWidth)(document.querySelector('[data-part=bins] .scroll'))"
    assert window.evaluate(fits)
    window.close()


def test_labels_of_pictures_are_not_cut_off(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name, scores in (("rare", 10 ** rng.uniform(-5, -2, 30_000)), ("weights", rng.beta(1, 3, 30_000))):
        report = calibrant.evaluate(scores, rng.random(30_000) < scores, weights=rng.random(30_000), n_resamples=0)
        window = browser.new_page()
        window.goto(report.to_html(tmp_path / f"{name}.html").as_uri())
        outside = window.evaluate(
            """[...document.querySelectorAll("figure > svg")].flatMap((svg) => {
              const frame = svg.getBoundingClientRect();
              return [...svg.querySelectorAll("text")].filter((text) => {
                const box = text.getBoundingClientRect();
                return box.left < frame.left || box.right > frame.right;
              }).map((text) => text.textContent);
            })"""
        )
        assert outside == []
        overlap = window.evaluate(
            """(() => {
              const title = document.querySelector("figure svg text[transform]").getBoundingClientRect();
              return [...document.querySelectorAll("[data-part=diagram] svg .tick")]
                .filter((own) => own.getBoundingClientRect().left < title.right).map((own) => own.textContent);
            })()"""
        )
        assert overlap == []
        window.close()


def test_groups_are_searched_by_name_also_among_the_rest(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    p = rng.random(6_000)
    names = np.array([f"Site {k}" for k in range(120)])[np.arange(6_000) % 120]
    report = calibrant.evaluate(p, rng.random(6_000) < p, groups=names, n_resamples=0)
    window = browser.new_page()
    window.goto(report.to_html(tmp_path / "groups.html").as_uri())
    section = window.locator("[data-part=groups]")
    assert section.locator("table").first.locator("tbody tr").count() == 20
    assert section.locator(".rest tbody tr").count() == 100
    assert not section.locator(".rest").evaluate("own => own.open")
    section.locator("input").fill("site 11")
    wanted = {"Site 11", *(f"Site 11{k}" for k in range(10))}
    assert {row.split("\t")[0] for row in section.locator("tbody tr:visible").all_inner_texts()} == wanted
    assert section.locator("output").inner_text() == "11 of 120 shown"
    section.locator("input").fill("")
    assert section.locator(".rest tbody tr:not([hidden])").count() == 100
    window.close()


@pytest.mark.slow
def test_hundreds_of_classes_stay_usable(browser: Any, tmp_path: Path) -> None:
    probs, targets = draw_classes(4, 4000, np.full(400, 0.02))
    path = calibrant.evaluate(probs, targets, n_resamples=0).to_html(tmp_path / "many.html")
    window = browser.new_page()
    window.goto(path.as_uri())
    section = window.locator("[data-part=classes]")
    assert section.locator(".tiles li").count() == 400
    unfold_classes(section)
    section.locator("select").select_option("index")
    assert section.locator("li b").all_text_contents() == [str(k) for k in range(400)]
    section.locator("input").fill("39")
    assert section.locator("li:visible b").all_text_contents() == [
        "39",
        "139",
        "239",
        "339",
        *map(str, range(390, 400)),
    ]
    section.locator("li:visible button").first.click()
    assert window.locator("dialog h3").inner_text() == "39"
    window.close()


def test_a_comparison_opens_without_complaint(browser: Any, tmp_path: Path) -> None:
    scores, outcomes = draw(5, 2000)
    found = calibrant.compare({"honest": scores, "bold": scores**2 / (scores**2 + (1 - scores) ** 2)}, outcomes)
    window = browser.new_page()
    complaints: list[str] = []
    window.on("console", lambda message: complaints.append(message.text))
    window.on("pageerror", lambda error: complaints.append(str(error)))
    window.goto(found.to_html(tmp_path / "comparison.html").as_uri())
    assert "honest shows no evidence" in window.locator("[aria-label=Verdict] p").first.inner_text()
    for place, key in ((-2, "brier"), (-1, "debiased_square")):  # the chosen measure, and the last of all measures
        row = window.locator("table").nth(window.locator("table").count() + place).locator("tbody tr").last
        cells, part = row.locator("td").all_text_contents(), found.pairs[0][key]
        assert float(cells[1]) == pytest.approx(part.value, abs=5.1e-5)
        assert [float(end) for end in cells[2].split(" to ")] == pytest.approx([part.low, part.high], abs=5.1e-5)
    for models in (2, 8):
        q = np.clip(scores[:, np.newaxis] ** np.linspace(0.5, 2.0, models), 0.001, 0.999)
        many = calibrant.compare({f"model {k}": q[:, k] for k in range(models)}, outcomes, groups=outcomes)
        window.set_viewport_size({"width": 1280, "height": 800})
        window.goto(many.to_html(tmp_path / "many.html").as_uri())
        over = "() => [...document.querySelectorAll('.scroll')].filter((t) => t.scrollWidth > t.clientWidth + 1).length"
        assert window.evaluate(over) == 0
        box = window.locator(".first .diagram svg").first.bounding_box()
        assert box["y"] + box["height"] < 800
    window.locator(".set .pt").first.focus()
    assert window.locator(".tip").is_visible()
    assert complaints == []
    window.close()


def test_a_cell_of_a_notebook_switches_its_curve_alone(browser: Any, report: calibrant.Report, tmp_path: Path) -> None:
    other = calibrant.evaluate([0.2, 0.8] * 50, [0, 1] * 50, n_resamples=99)
    cells = tmp_path / "cells.html"
    cells.write_text(
        f"<!doctype html><body>{report._repr_html_()}{other._repr_html_()}{report._repr_html_()}", encoding="utf-8"
    )
    window = browser.new_page()
    window.goto(cells.as_uri())
    window.locator(".r-smooth").first.check()
    assert window.locator(".smooth.set").first.is_visible()
    for other in (1, 2):  # the third is the same report again
        assert window.locator(".r-bins").nth(other).is_checked()
        assert window.locator(".bins.set").nth(other).is_visible()
        assert window.locator(".smooth.set").nth(other).is_hidden()
    ids = window.evaluate("[...document.querySelectorAll('[id]')].map(own => own.id)")
    assert len(ids) == len(set(ids))
    window.close()


@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.parametrize(
    ("host", "scheme"),
    [
        ('<body data-jp-theme-light="true">', "light"),  # JupyterLab and nbconvert
        ('<body data-jp-theme-light="false">', "dark"),
        ('<body><div id="notebook">', "light"),  # the classic notebook
        ('<body class="vscode-light">', "light"),
        ('<body class="vscode-dark">', "dark"),
        ("<body>", None),
    ],
)
def test_a_cell_of_a_notebook_has_the_colours_of_its_host(
    browser: Any, report: calibrant.Report, tmp_path: Path, host: str, scheme: str | None, system: str
) -> None:
    cell = tmp_path / "cell.html"
    cell.write_text(f"<!doctype html>{host}{report._repr_html_()}", encoding="utf-8")
    window = browser.new_page()
    window.goto(cell.as_uri())
    own = "(() => { const own = getComputedStyle(document.querySelector('.calibrant'));"
    for media, expected in (("screen", scheme or system), ("print", "light")):
        window.emulate_media(media=media, color_scheme=system)
        colours = window.evaluate(f"{own} return [own.backgroundColor, own.color] }})()")
        ground, ink = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
        assert (ground > ink) == (expected == "light"), (media, colours)
    window.close()
