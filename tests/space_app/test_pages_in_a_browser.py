"""The pages in a real browser: what scripts and layout do, on desks and on phones, and addresses."""

from __future__ import annotations

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


REST = [tab for tab in DRAWN if tab != "leaderboard"]


@pytest.mark.parametrize("tabs", [("leaderboard",), pytest.param(REST, marks=pytest.mark.slow)])
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
            assert choices(page)["benchmark"] == ["sugarcrepe"]
            page.locator("#examples").get_by_text("This server has no copy of its data").wait_for()
            page.get_by_text("The rest of its card").click()
            page.locator("#card").get_by_role("heading", name="Licence").wait_for()
            page.go_back()
            page.locator(".benchmark").first.wait_for()


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


def errors_are_selected(space):
    """Whether a request is the one that a page sends when its tab of errors is selected."""
    functions = {
        number: each.fn for number, each in space.blocks.fns.items() if "gallery" in getattr(each.fn, "__module__", "")
    }
    [number] = [number for number, function in functions.items() if function.__name__ == "on_select"]
    return lambda request: (request.post_data_json or {}).get("fn_index") == number


def test_two_models_are_compared_and_their_errors_browsed_by_choice_and_address(visit, shared_space):
    page = visit("compare")
    assert "demo-clip is better than mock:bag-of-words by" in page.locator(".assay-verdict").inner_text()
    choose(page, "#compare-score", "Toy Scenes order · accuracy")
    page.get_by_text("Differences in Toy Scenes order · accuracy").wait_for()
    page.wait_for_url("**order**")
    # The answer to the selection draws the first examples, also when it comes after a click on Next.
    with page.expect_request_finished(errors_are_selected(shared_space)):
        page.get_by_role("link", name="Look at the examples on which they disagree").click()
    page.locator(".assay-example").first.wait_for()
    assert page.locator("#errors-show input").input_value() == "models disagree"
    first = page.locator(".assay-example h3").first.inner_text()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("13 to 24 of").wait_for()
    assert page.locator(".assay-example h3").first.inner_text() != first
    choose(page, "#errors-show", "B errs: mock:bag-of-words")
    page.wait_for_url("**show=1**")
    page.get_by_text("1 to 12 of").wait_for()
    assert "A demo-clip · B mock:bag-of-words" in page.locator("#gallery").inner_text()


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
