"""The pages in a real browser: what scripts and layout do, on desks and on phones, and addresses."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from pages_support import DRAWN, ROWS, choices, choose, open_tab, serious
from submission_support import changed, of_model


def names(page):
    """The models in the table or, in a narrow window, on the cards."""
    return page.locator("#board .model:visible").all_inner_texts()


def field(page, element):
    return page.locator(f"{element} textarea, {element} input").first


def search(page, text, condition):
    """Search for a model, until the rows meet the condition."""
    field(page, "#search").fill(text)
    page.wait_for_function(f"(() => {{ const rows = document.querySelectorAll('{ROWS}'); return {condition}; }})()")


def wait_for_heading(page, text):
    page.wait_for_function(f"document.querySelector('#board .assay-wide thead').innerText.includes('{text}')")


def downloaded(page, button):
    """The lines of the file that a button downloads."""
    with page.expect_download() as download:
        page.locator(button).click()
    return download.value.path().read_text(encoding="utf-8").splitlines()


def asked(page):
    """The query of a page's address without its tab."""
    query = urlsplit(page.url).query.split("&")
    return "&" + "&".join(part for part in query if not part.startswith(("__theme=", "tab=")))


REST = [tab for tab in DRAWN if tab not in ("leaderboard", "compare")]


@pytest.mark.parametrize("tabs", [("leaderboard", "compare"), pytest.param(REST, marks=pytest.mark.slow)])
def test_each_page_opens_with_something_fits_the_window_and_can_be_used_by_everyone(visit, tabs):
    page = visit()
    page.wait_for_function("document.fonts.status === 'loaded'")
    assert [tab.inner_text().casefold() for tab in page.get_by_role("tab").all()] == [*DRAWN]
    for tab in tabs:
        page.set_viewport_size({"width": 1440, "height": 900})
        open_tab(page, tab)
        for width, dark in ((1440, False), (390, True)):
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(f"document.body.classList.toggle('dark', {str(dark).lower()})")
            page.locator(DRAWN[tab]).locator("visible=true").first.wait_for()
            page.wait_for_function("!document.getAnimations().some(each => each instanceof CSSTransition)")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
            assert serious(page) == [], tab
        if tab == "benchmarks":
            page.get_by_role("link", name="SugarCrepe", exact=True).click()
            page.locator("#levels table").first.wait_for()
            assert serious(page) == []


def test_the_board_is_searched_ranked_and_downloaded_and_leads_to_a_model_and_back(visit):
    page = visit()
    opened = names(page)
    assert {"NegCLIP", "CLIP ViT-B/32"} <= set(opened)
    page.locator("#view").get_by_text("Overview").click()
    wait_for_heading(page, "TRICD")
    page.get_by_role("button", name="Model").focus()
    page.keyboard.press("Enter")  # headings are buttons
    page.wait_for_url("**sort=Model**")
    page.locator("#choices button").first.click()
    choose(page, "#scores", "ImageNet · accuracy")
    wait_for_heading(page, "ImageNet")
    page.wait_for_function("document.querySelectorAll('#board .model').length < 10")
    assert names(page) == ["CLIP ViT-B/32", "CLIP-FT", "NegCLIP"]
    search(page, "negclip", "rows.length === 1")
    head, *lines = downloaded(page, "#download")
    assert head.startswith("model,family,parameters,training_data,benchmark")
    assert {line.split(",")[0] for line in lines} == {"NegCLIP"}
    page.locator("#board .model").first.click()
    page.locator("#profile h2", has_text="NegCLIP").wait_for()
    page.wait_for_url("**model=NegCLIP**")
    assert {line.split(",")[0] for line in downloaded(page, "#model-download")[1:]} == {"NegCLIP"}
    page.go_back()
    page.locator(ROWS).first.wait_for()
    assert names(page) == ["NegCLIP"]


def test_a_page_opens_where_its_address_says_and_the_address_follows_the_page(visit):
    page = visit(query="&search=negclip&families=clip&families=none")
    page.set_viewport_size({"width": 390, "height": 900})
    assert names(page) == ["NegCLIP"]  # on a card
    field(page, "#search").fill("flava")
    page.wait_for_url("**search=flava**")
    assert choices(page) == {"__theme": ["light"], "search": ["flava"], "families": ["clip"]}
    open_tab(page, "Compare")
    page.wait_for_url("**tab=compare**")
    assert "search" not in choices(page)
    page.go_back()
    page.wait_for_url("**search=flava**")
    page.locator("[role=tab][aria-selected=true]", has_text="Leaderboard").wait_for()
    assert field(page, "#search").input_value() == "flava"


def test_two_models_are_compared_and_their_errors_browsed_by_choice_and_address(visit):
    page = visit("compare")
    verdict = page.locator(".assay-verdict")
    assert "demo-clip is better than mock:bag-of-words by" in verdict.inner_text()
    choose(page, "#compare-score", "Toy Scenes order · accuracy")
    page.get_by_text("Differences in Toy Scenes order · accuracy").wait_for()
    page.wait_for_url("**order**")
    again = visit("compare", query=asked(page))
    assert again.locator(".assay-verdict").inner_text() == verdict.inner_text()
    assert again.locator("#compare-score input").input_value() == "Toy Scenes order · accuracy"
    again.get_by_role("link", name="Look at the examples on which they disagree").click()
    again.locator(".assay-example").first.wait_for()
    assert again.locator("#errors-show input").input_value() == "models disagree"
    first = again.locator(".assay-example h3").first.inner_text()
    again.get_by_role("button", name="Next").click()
    again.get_by_text("13 to 24 of").wait_for()
    assert again.locator(".assay-example h3").first.inner_text() != first
    choose(again, "#errors-show", "B errs: mock:bag-of-words")
    again.wait_for_url("**show=1**")
    again.get_by_text("1 to 12 of").wait_for()
    assert "A demo-clip · B mock:bag-of-words" in visit("errors", query=asked(again)).locator("#gallery").inner_text()


def test_a_benchmark_is_opened_by_its_card_and_left_by_the_back_button(visit):
    page = visit("benchmarks")
    card = page.locator(".benchmark", has=page.get_by_role("link", name="SugarCrepe", exact=True))
    card.get_by_role("link").click()
    page.get_by_role("heading", name="SugarCrepe", exact=True).wait_for()
    assert choices(page)["benchmark"] == ["sugarcrepe"]
    assert "Levels to compare with" in page.locator("#levels").inner_text()
    page.locator("#examples").get_by_text("This server has no copy of its data").wait_for()
    page.get_by_text("The rest of its card").click()
    page.locator("#card").get_by_role("heading", name="Licence").wait_for()
    page.go_back()
    page.locator(".benchmark").first.wait_for()


def test_predictions_are_received_shown_as_text_and_withdrawn_with_the_key(visit, toy, tmp_path):
    name = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    path = tmp_path / "markup.parquet"
    path.write_bytes(changed(of_model(toy, 7), metadata=lambda found: found["model"].update(name=name)))
    page = visit("submit")
    page.locator("#check").click()
    assert "no predictions file was uploaded" in page.locator("#checked [role=alert]").inner_text()
    page.locator("#predictions input[type=file]").set_input_files(str(path))
    page.locator("#predictions").get_by_text(path.stem).first.wait_for()
    field(page, "#family").fill("clip")
    page.locator("#send").click()
    page.locator("#receipt .assay-message").wait_for()
    text = page.locator("#receipt").inner_text()
    assert all(part in text for part in ("Received as", "accepted", name))
    id, key = page.locator("#receipt b").first.inner_text(), page.locator("#receipt code").inner_text()
    page.locator("#send").click()
    page.locator("#send-problem").get_by_text("no predictions file was uploaded").wait_for()
    assert page.locator("#receipt code").inner_text() == key
    open_tab(page, "Leaderboard")
    search(page, "<img", "[...rows].some(row => row.innerText.includes('<script>'))")
    assert page.locator(".assay-board img, .assay-board script, #receipt img, #receipt script").count() == 0
    open_tab(page, "Submit")
    page.get_by_text("Withdraw or replace a submission").click()
    field(page, "#own-submission").fill(id)
    page.locator("#own-key input").fill(key)
    page.locator("#withdraw").click()
    page.locator("#withdrawn").get_by_text(f"{id} is withdrawn").wait_for()
