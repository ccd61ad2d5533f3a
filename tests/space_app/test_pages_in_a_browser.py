"""The pages in a real browser, with what VL-Assay ships: what they open with, on desks and on phones, and addresses."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import pytest
from pages_support import DRAWN, choices, choose, open_tab, serious

from vl_assay.hub_datasets import get_benchmark, load_examples


@pytest.mark.parametrize("tab", DRAWN)
def test_each_page_opens_with_something_fits_the_window_and_can_be_used_by_everyone(visit, tab):
    page = visit(tab)
    page.wait_for_function("document.fonts.status === 'loaded'")
    for width, dark in ((1440, False), (390, True)):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(f"document.body.classList.toggle('dark', {str(dark).lower()})")
        page.locator(DRAWN[tab]).locator("visible=true").first.wait_for()
        page.wait_for_function("!document.getAnimations().some(each => each instanceof CSSTransition)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert serious(page) == []


def test_two_models_are_compared_at_once_and_others_by_choice_and_address(visit):
    page = visit("compare")
    verdict = page.locator(".assay-verdict")
    assert "demo-clip is better than mock:bag-of-words by" in verdict.inner_text()
    page.wait_for_url("**models=**")
    assert choices(page)["score"] == ["Toy Scenes itm · accuracy"]
    choose(page, "#compare-score", "Toy Scenes order · accuracy")
    page.get_by_text("Differences in Toy Scenes order · accuracy").wait_for()
    page.wait_for_url("**order**")
    query = urlsplit(page.url).query.replace("__theme=light", "").replace("&tab=compare", "")
    again = visit("compare", query=query)
    assert again.locator(".assay-verdict").inner_text() == verdict.inner_text()
    assert again.locator("#compare-score input").input_value() == "Toy Scenes order · accuracy"
    again.get_by_role("link", name="Look at the examples on which they disagree").click()
    again.locator(".assay-example").first.wait_for()
    assert serious(again) == []
    assert again.locator("#errors-show input").input_value() == "models disagree"


def test_errors_are_browsed_by_model_category_and_page_and_the_address_keeps_them(visit):
    page = visit("errors")
    assert page.locator(".assay-example").count() == 12
    page.locator("#errors-models input").click()
    page.get_by_role("option", name="mock:bag-of-words").click()
    page.get_by_text("A demo-clip · B mock:bag-of-words").wait_for()
    choose(page, "#errors-show", "B errs: mock:bag-of-words")
    page.get_by_text("of 2,664 (7,000 in all)").wait_for()
    choose(page, "#errors-category", "swap_obj")
    page.get_by_text("1 to 12 of 1,000 (7,000 in all)").wait_for()
    first = page.locator(".assay-example h3").first.inner_text()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("13 to 24 of 1,000 ").wait_for()
    assert page.locator(".assay-example h3").first.inner_text() != first
    page.wait_for_url("**category=swap_obj**")
    query = urlsplit(page.url).query.replace("__theme=light", "").replace("&tab=errors", "")
    again = visit("errors", query=query)
    again.get_by_text("1 to 12 of 1,000 (7,000 in all)").wait_for()


def test_a_benchmark_is_opened_by_its_card_and_left_by_the_back_button(visit):
    for task in get_benchmark("toy_scenes").tasks:
        if task.by_default:  # a server prepares it when it starts
            load_examples(f"toy_scenes/{task.name}", needs_images=False)
    page = visit("benchmarks")
    card = page.locator(".benchmark", has=page.get_by_role("link", name="SugarCrepe", exact=True))
    assert "add_att (99.9 %) and add_obj (99.7 %) can be solved without the image." in card.inner_text()
    card.get_by_role("link").click()
    page.get_by_role("heading", name="SugarCrepe", exact=True).wait_for()
    assert choices(page)["benchmark"] == ["sugarcrepe"]
    assert "Levels to compare with" in page.locator("#levels").inner_text()
    page.locator("#examples").get_by_text("This server has no copy of its data").wait_for()
    page.go_back()
    page.locator(".benchmark").first.wait_for()
    choose(page, "#benchmark", "Toy Scenes")
    page.locator("#examples td").first.wait_for()
    page.get_by_text("The rest of its card").click()
    page.locator("#card").get_by_role("heading", name="Licence").wait_for()
    assert serious(page) == []


@pytest.mark.parametrize("width", [1440, 390])
def test_a_point_is_named_when_it_is_pointed_at_or_tapped(visit, width):
    page = visit("insights", width, query="&across=ImageNet+·+accuracy&up=ARO+relation+·+macro+accuracy")
    point = page.locator(".assay-scatter .point").first
    tip = point.locator(".tip")
    assert not tip.is_visible()
    point.tap() if width == 390 else point.hover()
    assert tip.is_visible()
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert "Spearman's ρ" in page.locator("#points").inner_text()
    page.get_by_text("models as a table").click()
    assert tip.locator("strong").inner_text() in page.locator("#points details").inner_text()
    assert serious(page) == []


def test_a_template_is_downloaded_for_the_task_that_is_chosen(visit, tmp_path):
    load_examples("toy_scenes/vqa")
    page = visit("submit")
    page.get_by_text("From a file of your own").click()
    choose(page, "#template-task", "toy_scenes/vqa")
    page.locator("#template-command").get_by_text("precomputed:toy_scenes-vqa.jsonl").wait_for()
    with page.expect_download() as download:
        page.locator("#template").click()
    assert download.value.suggested_filename == "toy_scenes-vqa.jsonl"
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines if line[0] != "#"]
    assert len({record["id"] for record in records}) == len(records) > 50
    assert {record["scores"] for record in records} == {None}
    page.locator("#check").click()
    assert "no predictions file was uploaded" in page.locator("#checked [role=alert]").inner_text()
    choose(page, "#template-task", "winoground/groups")
    page.locator("#template-problem [role=alert]").get_by_text("are not on this server").wait_for()
    assert serious(page) == []


def test_a_page_opens_where_its_address_says_and_the_address_follows_the_page(visit):
    page = visit(query="&search=negclip&families=clip&families=none")
    search = page.locator("#search textarea, #search input").first
    assert search.input_value() == "negclip"
    assert "FLAVA" not in page.locator("#board").inner_text()
    search.fill("flava")
    page.wait_for_url("**search=flava**")
    assert choices(page) == {"__theme": ["light"], "search": ["flava"], "families": ["clip"]}
    open_tab(page, "Compare")
    page.wait_for_url("**tab=compare**")
    assert "search" not in choices(page)
    page.go_back()
    page.wait_for_url("**search=flava**")
    page.locator("[role=tab][aria-selected=true]", has_text="Leaderboard").wait_for()
    assert search.input_value() == "flava"
    assert visit("submit").locator("[role=tab][aria-selected=true]").inner_text() == "Submit"
