"""The review page in a real browser: judged by keyboard, reloaded in the middle, two annotators at once, boxes."""

from __future__ import annotations

import json
import threading

import httpx
import pytest
from review_support import candidate, served, write_items, write_set

from vl_assay.hub_datasets.authoring.review.journal import DecisionJournal
from vl_assay.hub_datasets.authoring.review.review import open_review
from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def visit(new_page):
    """A function that opens an address in a window of some width."""

    def visit(address, width=1440, dark=False):
        page = new_page(width)
        mark = "&" if "?" in address else "?"
        page.goto(f"{address}{mark}__theme={'dark' if dark else 'light'}", wait_until="domcontentloaded")
        return page

    return visit


def shown(page):
    """The number of the item that is shown, once one is."""
    page.locator(".assay-item[data-index] .assay-choices").wait_for()
    return int(page.locator(".assay-item").get_attribute("data-index"))


def wait_for(page, condition):
    page.wait_for_function(
        f"() => {{ const root = document.querySelector('.assay-review'); return root !== null && {condition}; }}"
    )


def wait_for_progress(page, text):
    wait_for(page, f"!root.hasAttribute('aria-busy') && root.innerText.includes({json.dumps(text)})")


def judge(page, keys, done, total):
    """Press a key for each item, and wait after each until the page has moved on."""
    for number, key in enumerate(keys, done + 1):
        page.keyboard.press(key)
        wait_for_progress(page, f"{number} of {total}")


def read(review):
    """Each annotator's decisions, as a new process reads them from the journal."""
    journal = DecisionJournal(review.journal.path, ("keep", "false_negative", "not_fluent", "nonsensical", "fix"))
    return {
        who: {id: each.decision for (id, _), each in entries.items()} for who, entries in journal.standing().items()
    }


def test_thirty_items_are_judged_by_keyboard_by_two_at_once_with_a_reload(visit, tmp_path):
    names = {"1": "keep", "2": "false_negative", "3": "not_fluent", "4": "nonsensical"}
    candidates = write_set(tmp_path)
    keys = {"ana": ("1234" * 8)[:30], "ben b": ("1121" * 8)[:30]}
    with served(tmp_path) as (review, address):
        pages = {name: visit(address, width) for name, width in zip(keys, (1440, 390), strict=True)}
        for name, page in pages.items():
            page.locator("#annotator").fill(name)
            page.keyboard.press("Enter")
            assert shown(page) == 0
        for start in range(0, 30, 10):  # by turns, so that the journal's lines alternate
            for name, page in pages.items():
                judge(page, keys[name][start : start + 10], start, 30)
                if start == 10 or name == "ana":
                    page.reload(wait_until="domcontentloaded")
                    assert shown(page) == (start + 10) % 30
                    wait_for_progress(page, f"{start + 10} of 30")
        for page in pages.values():
            wait_for_progress(page, "All 30 are decided")
        expected = {
            name: {each.id: names[key] for each, key in zip(candidates, pressed, strict=True)}
            for name, pressed in keys.items()
        }
        assert read(review) == expected
        page.get_by_role("tab", name="Agreement").click()
        page.locator("#agreement-table td").first.wait_for()
        assert "ana (30), ben b (30)" in page.locator("#agreement-table").inner_text()
    # Killed and started anew: the same journal.
    assert open_review(tmp_path).open_item({"annotator": "ben b"})["finished"]


def test_keys_go_back_undo_and_fix_and_never_act_while_typing(visit, tmp_path):
    write_set(tmp_path, 4)
    with served(tmp_path) as (review, address):
        page = visit(f"{address}&annotator=ana")
        assert shown(page) == 0
        judge(page, "12", 0, 4)
        page.keyboard.press("ArrowLeft")
        wait_for(page, "root.querySelector('[data-index=\"1\"] [data-decision=false_negative][aria-pressed=true]')")
        page.keyboard.press("u")
        wait_for_progress(page, "1 of 4")
        page.keyboard.press("5")
        page.locator("#fix").fill("a 1st draft")
        page.keyboard.type("u 2 <b>3</b>")
        page.reload(wait_until="domcontentloaded")
        assert shown(page) == 1
        assert page.locator("#fix").input_value() == "a 1st draftu 2 <b>3</b>"
        assert page.locator(".assay-progress").inner_text() == "1 of 4"
        page.locator("#fix").press("Enter")
        wait_for_progress(page, "2 of 4")
        page.keyboard.press("ArrowLeft")
        wait_for(page, "root.innerText.includes('as you fixed it')")
        assert page.locator(".assay-text").nth(1).inner_text() == "a 1st draftu 2 <b>3</b>"
        assert page.locator("#fix").count() == 0
        page.keyboard.press("n")
        wait_for(page, "root.querySelector('[data-index=\"2\"]')")
        page.keyboard.press("5")
        page.locator("#fix").fill(candidate(2).caption)
        page.keyboard.press("Enter")
        wait_for_progress(page, "the caption itself")
        page.keyboard.press("Escape")
        page.locator("[data-decision=keep]").click()
        wait_for_progress(page, "3 of 4")
        assert read(review) == {"ana": {"0/swap_att": "keep", "1/swap_att": "fix", "2/swap_att": "keep"}}


def test_keys_in_quick_succession_never_decide_on_an_item_that_was_not_shown(visit, tmp_path):
    write_set(tmp_path, 8)
    with served(tmp_path) as (review, address):
        page = visit(f"{address}&annotator=ana")
        shown(page)
        release, decide = threading.Event(), review.journal.decide

        def slow(entry):
            release.wait(10)
            return decide(entry)

        review.journal.decide = slow
        for key in "1234":
            page.keyboard.press(key)
        release.set()
        wait_for_progress(page, "1 of 8")
        assert read(review) == {"ana": {"0/swap_att": "keep"}}


def test_a_decision_that_is_not_written_is_told_and_the_item_stays(visit, tmp_path, monkeypatch):
    write_set(tmp_path, 3)
    with served(tmp_path) as (review, address):
        page = visit(f"{address}&annotator=ana")
        shown(page)
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            page.keyboard.press("1")
            wait_for_progress(page, "No space left on device")
        assert shown(page) == 0
        judge(page, "1", 0, 3)
        assert read(review) == {"ana": {"0/swap_att": "keep"}}


def test_no_markup_of_a_candidate_becomes_part_of_the_page_and_no_image_comes_from_outside(visit, tmp_path):
    text = "<img src=x onerror=alert(1)><script>alert(2)</script> ${1} {{x}}"
    write_set(tmp_path, 2, candidate=text, caption=text[::-1], kind=text, image="../../etc/passwd", id=text)
    with served(tmp_path, annotators=["ana", "<b>ben"]) as (_, address):
        page = visit(f"{address}&annotator=cleo")
        wait_for_progress(page, "unknown annotator 'cleo'")
        page.get_by_role("button", name="<b>ben").click()
        assert shown(page) == 0
        wait_for_progress(page, "lies outside")
        assert page.locator(".assay-text").nth(1).inner_text() == text
        assert page.locator(".assay-review script, .assay-review b, .assay-side img").count() == 0
        assert "annotator=%3Cb%3Eben" in page.url


@pytest.mark.parametrize(("width", "dark"), [(1440, True), (390, False)])
def test_similar_images_are_shown_and_the_page_fits_the_window(visit, tmp_path, width, dark):
    write_set(tmp_path, 8)
    with served(tmp_path) as (_, address):
        page = visit(f"{address}&annotator=ana", width, dark)
        shown(page)
        wait_for(page, "root.querySelector('figure img').naturalWidth === 640")
        page.keyboard.press("s")
        page.locator(".assay-tile").first.wait_for()
        assert page.locator(".assay-tile").count() == 7
        first = page.locator(".assay-tile").first.get_attribute("title")
        page.locator(".assay-tile").first.click()
        wait_for(page, f"root.querySelector('.assay-similar').innerText.includes('Most similar to {first}')")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("s")
        page.locator(".assay-tile").first.wait_for(state="hidden")


def draw(page, corner, other):
    """Draw a box with the mouse, between two places given as shares of the image's width and height."""
    area = page.locator(".assay-layer").bounding_box()
    x, y, across, down = area["x"], area["y"], area["width"], area["height"]
    before = page.locator(".assay-boxes li").count()
    page.mouse.move(x + corner[0] * across, y + corner[1] * down)
    page.mouse.down()
    page.mouse.move(x + other[0] * across, y + other[1] * down, steps=4)
    page.mouse.up()
    wait_for(page, f"root.querySelectorAll('.assay-boxes li').length === {before + 1}")
    return area


def boxes(page):
    page.wait_for_function("() => !document.querySelector('[aria-busy]')")
    return [
        [float(number) for number in each.get_attribute("data-box").split()]
        for each in page.locator(".assay-boxes li").all()
    ]


@pytest.mark.parametrize("width", [1440, 390])
def test_boxes_are_drawn_with_the_mouse_and_come_out_in_pixels_of_the_image(visit, tmp_path, width):
    with served(write_items(tmp_path), boxes=True) as (review, address):
        page = visit(f"{address}&annotator=ana", width)
        shown(page)
        wait_for(page, "root.querySelector('figure img').naturalWidth === 1600")
        area = draw(page, (0.25, 0.2), (0.5, 0.6))
        assert area["width"] < 1000  # shown much smaller than it is
        pixel = 1600 / area["width"]
        assert boxes(page) == [pytest.approx([400, 200, 400, 400], abs=pixel)]
        draw(page, (0.9, 0.9), (1.05, 1.2))  # beyond the border
        draw(page, (0.3, 0.3), (0.4, 0.5))  # inside the first
        assert boxes(page)[1] == pytest.approx([1440, 900, 160, 100], abs=pixel)
        page.mouse.click(area["x"] + 0.35 * area["width"], area["y"] + 0.4 * area["height"])
        page.locator(".assay-boxes li.chosen").wait_for()
        page.keyboard.press("Delete")
        wait_for(page, "root.querySelectorAll('.assay-boxes li').length === 2")
        page.keyboard.press("u")
        wait_for(page, "root.querySelectorAll('.assay-boxes li').length === 3")
        page.get_by_role("button", name="Delete box 3").click()
        wait_for(page, "root.querySelectorAll('.assay-boxes li').length === 2")
        page.keyboard.press("2")
        draw(page, (0.8, 0.8), (0.6, 0.5))  # from the lower right
        wait_for_progress(page, "1 of 2")
        page.reload(wait_until="domcontentloaded")
        assert shown(page) == 1
        page.keyboard.press("a")
        wait_for_progress(page, "not in the image")
        page.keyboard.press("2")
        wait_for(page, "root.querySelector('.assay-text mark').innerText === 'a green box'")
        page.keyboard.press("a")
        wait_for_progress(page, "All 2 are decided")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        review.export(tmp_path / "rows.jsonl")
    first, second = map(json.loads, (tmp_path / "rows.jsonl").read_text("utf-8").splitlines())
    found = [phrase["boxes"] for phrase in first["phrases"]]
    expected = [[[400, 200, 400, 400], [1440, 900, 160, 100]], [[960, 500, 320, 300]]]
    assert [[pytest.approx(box, abs=pixel) for box in phrase] for phrase in expected] == found
    assert (first["positive"], second["positive"]) == (True, False)
    assert first["phrases"][0]["boxes"][1][0] + first["phrases"][0]["boxes"][1][2] == pytest.approx(1600, abs=0.011)


POST = "/gradio_api/component_server"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/?token=of-this-launch", {}, 200),
        ("/", {}, 401),
        ("/?token=guessed", {}, 401),
        ("/?token=", {}, 401),
        ("/?token=of-this-launch", {"host": "rebound.example:80"}, 403),
        ("/?token=of-this-launch", {"host": "127.0.0.1.rebound.example"}, 403),
        ("/?token=of-this-launch", {"origin": "https://evil.example"}, 403),
        ("/?token=of-this-launch", {"origin": "null"}, 403),
    ],
)
def test_only_who_opens_the_page_with_its_token_is_let_in(path, headers, status, tmp_path):
    write_set(tmp_path)
    with served(tmp_path) as (_, address):
        answer = httpx.get(address.partition("/?")[0] + path, headers=headers)
        assert answer.status_code == status
        assert ("set-cookie" in answer.headers) == (status == 200)


def test_another_page_cannot_post_a_decision_in_its_visitors_browser(tmp_path):
    write_set(tmp_path)
    with served(tmp_path) as (review, address):
        base = address.partition("/?")[0]
        own = httpx.Client(base_url=base)
        assert "SameSite=Strict" in own.get("/?token=of-this-launch").headers["set-cookie"]
        config = own.get("/config").json()
        [id] = [each["id"] for each in config["components"] if each.get("props", {}).get("server_fns")]
        decision = {"annotator": "ana", "id": review.items[0].id, "decision": "keep"}
        body = json.dumps({"data": decision, "component_id": id, "fn_name": "decide", "session_hash": "s"})
        plain = {"content-type": "text/plain"}
        for client, headers in (
            (httpx.Client(base_url=base), plain),  # no-cors: without the cookie
            (own, plain | {"origin": "https://evil.example"}),
            (own, plain | {"host": "evil.example"}),
        ):
            assert client.post(POST, content=body, headers=headers).status_code in (401, 403)
        assert review.journal.standing() == {}
        assert own.post(POST, content=body, headers={"content-type": "application/json"}).status_code == 200
        assert list(review.journal.standing()) == ["ana"]


def test_a_correction_of_megabytes_or_of_half_characters_is_refused(tmp_path):
    write_set(tmp_path)
    with served(tmp_path) as (review, _):
        ask = {"annotator": "ana", "id": review.items[0].id, "decision": "fix"}
        with pytest.raises(DataError, match=r"5,000,000 characters; a caption may have 2,000"):
            review.decide(ask | {"text": "x" * 5_000_000})
        with pytest.raises(DataError, match="half of a character"):
            review.decide(ask | {"text": "half a \ud83d"})
        assert review.journal.standing() == {}
