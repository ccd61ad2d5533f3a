"""The leaderboard in a real browser: what a visitor sees, clicks and sends."""

from __future__ import annotations

import pytest
from pages_support import ROWS, choose, open_tab
from submission_support import changed, of_model

from vl_assay.space_app.submissions import submissions


def names(page):
    """The models in the table or, in a narrow window, on the cards."""
    return page.locator("#board .model:visible").all_inner_texts()


def search(page, text, condition):
    """Search for a model, until the rows meet the condition."""
    page.locator("#search textarea, #search input").first.fill(text)
    page.wait_for_function(f"(() => {{ const rows = document.querySelectorAll('{ROWS}'); return {condition}; }})()")


def upload(page, *paths):
    page.locator("#predictions input[type=file]").set_input_files([str(path) for path in paths])
    for path in paths:
        page.locator("#predictions").get_by_text(path.stem).first.wait_for()


def submit(page, *paths):
    open_tab(page, "Submit")
    upload(page, *paths)
    page.locator("#family textarea, #family input").first.fill("clip")
    page.locator("#send").click()
    page.locator("#receipt .assay-message").wait_for()
    return page.locator("#receipt").inner_text()


@pytest.mark.parametrize(("width", "dark"), [(1440, True), (390, False)])
def test_the_board_can_be_searched_sorted_and_downloaded_and_fits_the_window(visit, width, dark):
    page = visit(width=width, dark=dark)
    opened = names(page)
    assert {"NegCLIP", "CLIP ViT-B/32"} <= set(opened)
    assert [tab.is_visible() for tab in page.get_by_role("tab").all()] == [True] * 8
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    choose(page, "#sort", "Model")
    page.wait_for_function("document.querySelector('.assay-board th[aria-sort]').textContent.startsWith('Model')")
    ordered = names(page)
    references = ("Human", "Chance", "Vera", "Grammar model", "mock:")
    models = [name for name in ordered if not name.startswith(references)]
    assert models == sorted(models, key=str.casefold)
    search(page, "negclip", f"rows.length < {len(opened)}")
    assert names(page) == ["NegCLIP"]
    with page.expect_download() as download:
        page.locator("#download").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("model,family,parameters,training_data,benchmark")
    assert len(lines) > 2
    assert {line.split(",")[0] for line in lines[1:]} <= {"NegCLIP"}


def headings(page):
    return page.locator("#board .assay-wide thead").inner_text()


def test_views_and_headings_choose_what_is_shown_and_what_it_is_ranked_by(visit):
    page = visit()
    page.locator("#view").get_by_text("Overview").click()
    page.wait_for_function("document.querySelector('#board .assay-wide thead').innerText.includes('TRICD')")
    page.locator("#view").get_by_text("SugarCrepe").click()
    page.wait_for_function("document.querySelector('#board .assay-wide thead').innerText.includes('replace obj')")
    assert names(page)[0] == "GPT-4V"
    assert "Brittleness" not in headings(page)
    page.get_by_role("button", name="Model").focus()
    page.keyboard.press("Enter")  # headings are buttons
    page.wait_for_url("**sort=Model**")
    page.wait_for_function("document.querySelector('#board .model').innerText.startsWith('CLIP RN101')")
    page.locator("#choices button").first.click()
    choose(page, "#scores", "ImageNet · accuracy")
    page.wait_for_function("document.querySelector('#board .assay-wide thead').innerText.includes('ImageNet')")
    page.wait_for_function("document.querySelectorAll('#board .model').length < 10")
    assert set(names(page)) == {"CLIP ViT-B/32", "CLIP-FT", "NegCLIP"}


def test_a_row_leads_to_the_page_of_its_model_and_back(visit):
    page = visit()
    open_tab(page, "Model")
    page.locator("#profile h2", has_text="demo-clip").wait_for()
    choose(page, "#model", "NegCLIP")
    page.locator("#profile h2", has_text="NegCLIP").wait_for()
    open_tab(page, "Leaderboard")
    page.locator("#view").get_by_text("Overview").click()
    search(page, "demo-clip", "rows.length === 1")
    page.locator("#board .model").first.click()
    page.locator("#profile h2", has_text="demo-clip").wait_for()
    assert "model=demo-clip" in page.url
    main = page.locator("#profile .assay-profile").first.inner_text()
    assert "84.3" in main
    assert "83.4 – 85.1" in main
    assert page.locator("#profile summary", has_text="All scores on Toy Scenes").is_visible()
    page.locator("#provenance summary").first.click()
    assert "SHA-256 of the predictions" in page.locator("#provenance").inner_text()
    page.locator("#alike").get_by_text("no other recomputed model").wait_for()
    with page.expect_download() as download:
        page.locator("#model-download").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert {line.split(",")[0] for line in lines[1:]} == {"demo-clip"}
    page.go_back()
    page.locator(ROWS).first.wait_for()
    assert names(page) == ["demo-clip"]


def test_the_page_of_a_model_names_those_that_it_cannot_be_told_apart_from(visit, shared_space, toy):
    for number in (2, 3):
        submissions.submit(shared_space.storage, [of_model(toy, number, "itm")], {"family": "clip"})
    shared_space.catalogue.refresh()
    page = visit("model", query="&model=model+2")
    page.locator("#alike td").first.wait_for()
    assert "model 3" in page.locator("#alike").inner_text()
    assert page.locator("#profile h2").inner_text().startswith("model 2")
    page = visit("model", query="&model=no+such+model")
    assert "There is no model 'no such model'" in page.locator("#profile").inner_text()


def test_good_predictions_are_received_and_their_row_appears(visit, toy):
    page = visit()
    text = submit(page, toy.path("vqa", "shuffled"))
    assert "Received as" in text
    assert "accepted" in text
    id, key = page.locator("#receipt b").first.inner_text(), page.locator("#receipt code").inner_text()
    page.locator("#send").click()
    page.locator("#send-problem").get_by_text("no predictions file was uploaded").wait_for()
    assert page.locator("#receipt code").inner_text() == key
    open_tab(page, "Leaderboard")
    search(page, "mock:shuffled", "[...rows].some(row => row.innerText.includes('mock:shuffled'))")
    open_tab(page, "Submit")
    assert page.locator("#receipt a").get_attribute("href") == "?tab=model&model=mock%3Ashuffled"
    page.get_by_text("Withdraw or replace a submission").click()
    page.locator("#own-submission textarea, #own-submission input").first.fill(id)
    page.locator("#own-key input").fill(key)
    page.locator("#withdraw").click()
    page.locator("#withdrawn").get_by_text(f"{id} is withdrawn").wait_for()


def test_no_markup_of_a_submission_becomes_part_of_the_page(visit, toy, tmp_path):
    name = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    path = tmp_path / "markup.parquet"
    path.write_bytes(changed(of_model(toy, 7), metadata=lambda found: found["model"].update(name=name)))
    page = visit()
    text = submit(page, path)
    assert name in text
    open_tab(page, "Leaderboard")
    search(page, "<img", "[...rows].some(row => row.innerText.includes('<script>'))")
    assert page.locator(".assay-board img, .assay-board script, #receipt img, #receipt script").count() == 0
