"""The leaderboard in a real browser: what a visitor sees, clicks and sends."""

from __future__ import annotations

import pytest
from submission_support import changed

ROWS = "#board .assay-wide tbody tr"


@pytest.fixture
def visit(browser, space):
    """A function that opens the leaderboard in a window of some width; at the end no page may have met an error."""
    errors, pages = [], []

    def visit(width=1440, dark=False):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: (errors.append("a script ran"), dialog.dismiss()))
        page.goto(f"{space.address}/?__theme={'dark' if dark else 'light'}", wait_until="domcontentloaded")
        page.locator(ROWS).first.wait_for(state="attached")
        pages.append(page)
        return page

    yield visit
    for page in pages:
        page.close()
    assert errors == []


def names(page):
    """The models in the table or, in a narrow window, on the cards."""
    return page.locator("#board .model:visible").all_inner_texts()


def search(page, text, condition):
    """Search for a model, until the rows meet the condition."""
    page.locator("#search textarea, #search input").first.fill(text)
    page.wait_for_function(f"(() => {{ const rows = document.querySelectorAll('{ROWS}'); return {condition}; }})()")


def open_tab(page, name):
    page.get_by_role("tab", name=name).click()


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


def choose(page, element, text):
    page.locator(f"{element} input").first.click()
    page.locator(f"{element} input").first.fill(text)
    page.get_by_role("option", name=text).first.click()


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (1440, True), (390, False)])
def test_the_board_can_be_searched_and_sorted_and_fits_the_window(visit, width, dark):
    page = visit(width, dark)
    opened = names(page)
    assert {"NegCLIP", "CLIP ViT-B/32"} <= set(opened)
    assert [tab.is_visible() for tab in page.get_by_role("tab").all()] == [True] * 6
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    choose(page, "#sort", "Model")
    page.wait_for_function("document.querySelector('.assay-board th[aria-sort]').textContent.startsWith('Model')")
    ordered = names(page)
    references = ("Human", "Chance", "Vera", "Grammar model", "mock:")
    models = [name for name in ordered if not name.startswith(references)]
    assert models == sorted(models, key=str.casefold)
    search(page, "negclip", f"rows.length < {len(opened)}")
    assert names(page) == ["NegCLIP"]


def test_good_predictions_are_received_and_their_row_appears(visit, toy):
    page = visit()
    text = submit(page, toy.path("vqa", "shuffled"))
    assert "Received as" in text
    assert "accepted" in text
    open_tab(page, "Leaderboard")
    search(page, "mock:shuffled", "[...rows].some(row => row.innerText.includes('mock:shuffled'))")


def test_bad_predictions_are_answered_with_what_is_wrong(visit, toy, tmp_path):
    good = toy.predictions("vqa", "shuffled")
    page = visit()
    open_tab(page, "Submit")
    for name, content, message in (  # every reason is in test_uploads.py
        ("half a file", good[: len(good) // 2], "is not a Parquet file, or was cut off"),
        ("a strange row", changed(good, rows=lambda rows: rows[0].update(id="<b>x")), "lacks 1 of the 80 examples"),
    ):
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(content)
        upload(page, path)
        page.locator("#send").click()
        answer = page.locator("#receipt [role=alert]", has_text=name)
        answer.wait_for()
        assert message in answer.inner_text()
        page.locator("#predictions [aria-label='Clear']").click()


def test_no_markup_of_a_submission_becomes_part_of_the_page(visit, toy, tmp_path):
    name = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    path = tmp_path / "markup.parquet"
    path.write_bytes(
        changed(toy.predictions("vqa", "shuffled"), metadata=lambda found: found["model"].update(name=name))
    )
    page = visit()
    text = submit(page, path)
    assert name in text
    open_tab(page, "Leaderboard")
    search(page, "<img", "[...rows].some(row => row.innerText.includes('<script>'))")
    assert page.locator(".assay-board img, .assay-board script, #receipt img, #receipt script").count() == 0


def test_the_table_is_downloaded_as_it_is_filtered(visit):
    page = visit()
    search(page, "negclip", "rows.length < 10")
    page.wait_for_function("document.querySelector('#download')")
    page.wait_for_timeout(1000)  # the file follows the table
    with page.expect_download() as download:
        page.locator("#download").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("model,family,parameters,training_data,benchmark")
    assert len(lines) > 2
    assert {line.split(",")[0] for line in lines[1:]} <= {"NegCLIP"}
