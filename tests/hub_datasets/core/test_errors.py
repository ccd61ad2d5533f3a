"""Error analysis with captions and images of a benchmark: in Python, as a command, and as a page in a browser."""

import json
import re

import pytest
from console import invoke
from playwright.sync_api import expect
from submission_support import changed

from vl_assay.hub_datasets import errors
from vl_assay.metrics.common.errors import DataError, UnknownNameError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict

QUICK = {"resamples": 100}
CARD = ".assay-example"


def images_in(page):
    return json.loads(re.search(r'id="images-data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)[1])


@pytest.mark.parametrize("task", ["groups", "detection", "vqa", "sets"])
def test_every_task_of_toy_scenes_has_captions_and_images(toy, task, tmp_path):
    analysis = errors(toy.path(task), **QUICK)
    [found] = analysis.tasks
    assert all(found.data.captions[row.id] for row in found.rows)
    assert analysis.notes == []
    shown = images_in(analysis.write(tmp_path / "errors.html"))
    assert len(shown) == len({key for row in found.rows for key in found.image_keys(row)})
    assert all(image.startswith("data:image/jpeg;base64,") for image in shown)


def test_images_are_not_downloaded_and_the_users_own_are_found(coco, tmp_path, capsys):
    folder = coco()
    [path] = predict(
        "mock:shuffled",
        ["sugarcrepe/swap_obj"],
        out=tmp_path,
        data_dir=folder,
        options={"verify": False},
        progress=False,
    )
    # The folder of the run is remembered as long as it is there.
    assert len(images_in(errors(path, **QUICK).write(tmp_path / "remembered.html"))) == 8
    predict("mock:shuffled", ["sugarcrepe/swap_obj"], out=tmp_path / "again", options={"verify": False})
    assert f"sources of sugarcrepe: {folder}" in capsys.readouterr().err.replace("\n", "")
    folder = folder.rename(tmp_path / "moved")
    without = errors(path, **QUICK)
    assert "--data-dir" in without.notes[0] or "captions" in without.notes[0]
    assert images_in(without.write(tmp_path / "a.html")) == []
    assert len(images_in(errors(path, data_dir=folder, **QUICK).write(tmp_path / "b.html"))) == 8
    captions = errors(path, data_dir=folder, images=False, **QUICK)
    assert captions.to_pandas()["captions"].map(len).tolist() == [2] * 24
    with pytest.raises(DataError, match="not a folder"):
        errors(path, data_dir=tmp_path / "nowhere", **QUICK)


def test_predictions_of_a_part_have_their_captions_and_images(tmp_path):
    built = tmp_path / "built"
    assert invoke("build", "toy_scenes/itm", "--out", built, "-o", "train_scenes=0").exit_code == 0
    [path] = predict("mock:shuffled", "toy_scenes/itm", out=tmp_path, limit=6, progress=False)
    for data_dir in (None, built):
        analysis = errors(path, data_dir=data_dir, **QUICK)
        assert analysis.notes == []
        assert len(images_in(analysis.write(tmp_path / "errors.html"))) > 0
        assert analysis.to_pandas()["captions"].map(len).tolist() == [2] * 6


def test_captions_of_other_data_are_not_shown(toy, tmp_path):
    def other(metadata):
        metadata["benchmark"]["fingerprint"] = "0" * 64

    path = tmp_path / "other.parquet"
    path.write_bytes(changed(toy.predictions("itm"), metadata=other))
    analysis = errors(path, **QUICK)
    assert "fingerprints differ" in analysis.notes[0]
    assert not analysis.tasks[0].data.captions
    assert len(analysis.tasks[0]) == len(read_predictions(path).rows)


def test_the_command_prints_the_summary_and_writes_the_page(toy, tmp_path):
    files = [toy.path("itm"), toy.path("itm", "shuffled")]
    done = invoke("errors", *files, "--category", "swap_obj", "--limit", 5, "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert "mock:bag-of-words errs on 100.0 % of 40 examples" in done.output.replace("\n", " ")
    assert "written to" in done.output
    assert "the page holds 5 of 40 examples" in (tmp_path / "page.html").read_text("utf-8")
    wrong = invoke("errors", files[0], "--category", "swop_obj")
    assert isinstance(wrong.exception, UnknownNameError)
    assert "swap_obj" in str(wrong.exception)


@pytest.fixture
def page_of(new_page, tmp_path):
    """A function that opens a page of errors in a window; it may ask for no other file."""
    asked = []

    def open_page(*predictions, width=1440, scheme="light", fragment="", **options):
        written = errors(*predictions, **QUICK, **options).write(tmp_path / "errors.html")
        page = new_page(width, color_scheme=scheme)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{written}#{fragment}")
        page.locator(CARD).first.wait_for()
        return page

    yield open_page
    assert [url for url in asked if url[:5] not in ("file:", "data:")] == []


def counted(page, text):
    expect(page.locator("#count")).to_have_text(re.compile(text))


def test_a_reader_filters_searches_and_scrolls(toy, page_of):
    page = page_of(toy.path("itm"), toy.path("itm", "shuffled"))
    counted(page, "^[1-9]")
    assert page.locator(CARD).count() == 30
    assert page.locator(f"{CARD} img").first.evaluate("image => image.complete && image.naturalWidth > 0")
    at_first = page.locator("#count").inner_text()
    page.get_by_label("Category").select_option("swap_att")
    counted(page, "^40 of 280 examples")
    page.mouse.wheel(0, 30_000)
    expect(page.locator(CARD)).to_have_count(40)
    page.get_by_label("Category").select_option("")
    expect(page.locator("#count")).to_have_text(at_first)
    page.get_by_label("Show").select_option("disagree")
    expect(page.locator("#count")).not_to_have_text(at_first)
    verdicts = page.locator(f"{CARD} li strong").all_text_contents()
    assert {"A right", "B wrong"} <= set(verdicts)
    page.get_by_label("Search").fill("no such words")
    counted(page, "^0 of 280 examples")
    words = page.evaluate("location.hash")
    assert "who=disagree" in words
    assert "q=no+such+words" in words


def test_pages_fit_a_phone_and_can_be_read_by_all(toy, page_of):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = page_of(toy.path("detection"), toy.path("detection", "constant"), width=390, scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(f"{CARD} svg rect").count() > 0
    page.locator("summary").click()
    found = axe.Axe().run(page).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    page.get_by_label("Show").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "category"
