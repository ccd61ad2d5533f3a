"""The pages of a detection benchmark in a real browser, by keyboard: spot, rate, find a second image, check both."""

from __future__ import annotations

import json

import pytest
from review_support import draw_image, served

from vl_assay.hub_datasets.authoring.pipeline.detection_steps import write_lines
from vl_assay.hub_datasets.authoring.review.crossing import Group
from vl_assay.hub_datasets.authoring.review.proposals import Picture, Proposal

PROPOSALS = [Proposal("0", "0.png", "a red ball", "object", "ana"), Proposal("1", "1.png", "a blue ball", "object")]


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        draw_image(tmp_path / f"{number}.png", number, (160, 100))
    return tmp_path


def wait_for(page, text):
    """Until the page is at rest and has a text."""
    page.wait_for_function(
        "() => { const root = document.querySelector('.assay-review'); return root !== null && "
        f"!root.hasAttribute('aria-busy') && root.innerText.includes({json.dumps(text)}); }}"
    )


def opened(new_page, folder, page_name, items, width=1440):
    write_lines(items, folder / "items.jsonl")
    return served(folder / "items.jsonl", page=page_name), new_page(width)


@pytest.mark.slow
def test_images_are_spotted_and_proposals_rated_by_keyboard(new_page, folder):
    serving, page = opened(new_page, folder, "spot", [Picture(str(n), f"{n}.png") for n in range(2)])
    with serving as (desk, address):
        page.goto(f"{address}&annotator=ana", wait_until="domcontentloaded")
        wait_for(page, "What is surprising")
        page.keyboard.press("o")
        page.locator("#spot").fill("a 0 <b>red</b> ball")
        page.keyboard.press("Enter")
        wait_for(page, "object: a 0 <b>red</b> ball")
        page.keyboard.press("n")
        wait_for(page, "2 / 2")
        page.keyboard.press("0")
        wait_for(page, "All 2 are decided")
        assert [(each.text, each.kind) for each in desk.results()] == [("a 0 <b>red</b> ball", "object")]

    serving, page = opened(new_page, folder, "rate", PROPOSALS, 390)
    with serving as (desk, address):
        page.goto(f"{address}&annotator=ben", wait_until="domcontentloaded")
        wait_for(page, "How surprising")
        page.keyboard.press("4")
        wait_for(page, "1 of 2")
        page.keyboard.press("x")
        wait_for(page, "All 2 are decided")
        assert [each.id for each in desk.results()] == ["0"]


def test_a_second_image_is_found_and_both_directions_are_checked_by_keyboard(new_page, folder):
    serving, page = opened(new_page, folder, "cross", PROPOSALS)
    with serving as (desk, address):
        page.goto(f"{address}&annotator=ben", wait_until="domcontentloaded")
        wait_for(page, "no second image yet")
        page.keyboard.press("s")
        page.locator(".assay-tile", has_text="1.png").click()
        page.locator(".assay-second img").wait_for()
        page.keyboard.press("c")
        page.keyboard.type("a blue ball")
        page.keyboard.press("Enter")
        wait_for(page, "neither caption is true")
        assert page.locator("#caption").input_value() == "a blue ball"
        page.keyboard.press("Escape")
        page.keyboard.press("1")
        page.keyboard.press("2")
        page.keyboard.press("Enter")
        wait_for(page, "1 of 2")
        page.keyboard.press("0")
        wait_for(page, "All 2 are decided")
        page.keyboard.press("ArrowLeft")
        wait_for(page, "1 / 2")
        assert page.locator("#caption").input_value() == "a blue ball"
        groups = desk.results()
        assert groups == [Group("0", "object", "0.png", "a red ball", "1.png", "a blue ball")]

    serving, page = opened(new_page, folder, "check", groups, 390)
    with serving as (desk, address):
        page.goto(f"{address}&annotator=cleo", wait_until="domcontentloaded")
        wait_for(page, "Keep it (object)")
        page.wait_for_function(
            "() => [...document.querySelectorAll('.assay-item img')].every((one) => one.naturalWidth)"
        )
        page.keyboard.press("e")
        page.keyboard.press("End")
        page.keyboard.type("s")
        page.keyboard.press("Escape")
        page.keyboard.press("1")
        wait_for(page, "All 1 are decided")
        assert [each.caption_0 for each in desk.results()] == ["a red balls"]
