"""The review page in a real browser: every page by keyboard, reloads, two annotators at once, boxes, hostile texts."""

import json
import threading

import httpx
import pytest
from review_support import TOKEN, candidate, draw_image, served, wait_for, write_items, write_set

from vl_assay.hub_datasets.authoring.data.tables import write_rows
from vl_assay.hub_datasets.authoring.review.construction import ImagePair
from vl_assay.hub_datasets.authoring.review.journal import DecisionJournal
from vl_assay.hub_datasets.authoring.review.review import open_review


def shown(page):
    """The index of the item that is shown, once one is."""
    page.locator(".assay-item[data-index] .assay-choices").first.wait_for()
    return int(page.locator(".assay-item").get_attribute("data-index"))


def judge(page, keys, done, total):
    """Press a key for each item, and wait after each until the page has moved on."""
    for number, key in enumerate(keys, done + 1):
        page.keyboard.press(key)
        wait_for(page, f"{number} of {total}")


def read(desk):
    """The decisions of each annotator, as a new process reads them."""
    standing = DecisionJournal(desk.journal.path).standing()
    return {who: {id: each.answer("decision") for id, each in own.items()} for who, own in standing.items()}


def test_items_are_judged_by_keyboard_by_two_at_once_with_reloads(new_page, tmp_path):
    names = {"1": "keep", "2": "false_negative", "3": "not_fluent", "4": "nonsensical"}
    candidates = write_set(tmp_path, 4)
    keys = {"ana": "1234", "ben b": "1121"}
    with served(tmp_path, new_page) as (desk, visit):
        pages = {name: visit(width=width) for name, width in zip(keys, (1440, 390), strict=True)}
        for name, page in pages.items():
            page.get_by_role("heading", name="Review candidates", level=1).wait_for()
            assert "false of the image" in page.locator("body").inner_text()
            page.locator("#annotator").fill(name)
            page.keyboard.press("Enter")
            assert shown(page) == 0
        for start in (0, 2):  # by turns, so that the journal's lines alternate
            for name, page in pages.items():
                judge(page, keys[name][start : start + 2], start, 4)
            if start == 0:
                pages["ana"].reload(wait_until="domcontentloaded")
                assert shown(pages["ana"]) == 2
        for page in pages.values():
            wait_for(page, "All 4 are decided")
        assert read(desk) == {
            name: {each.id: names[key] for each, key in zip(candidates, pressed, strict=True)}
            for name, pressed in keys.items()
        }
        page.get_by_role("tab", name="Agreement").click()
        page.locator("#agreement-table td").first.wait_for()
        assert "ana (4), ben b (4)" in page.locator("#agreement-table").inner_text()
    # Ended and started anew: the same journal.
    assert open_review(tmp_path).open_item({"annotator": "ben b"})["finished"]


def test_keys_go_back_undo_and_fix_and_never_act_while_typing(new_page, tmp_path):
    write_set(tmp_path, 4)
    with served(tmp_path, new_page) as (desk, visit):
        page = visit("ana")
        assert shown(page) == 0
        judge(page, "12", 0, 4)
        page.keyboard.press("ArrowLeft")
        page.locator('[data-index="1"] [data-decision=false_negative][aria-pressed=true]').wait_for()
        page.keyboard.press("u")
        wait_for(page, "1 of 4")
        page.keyboard.press("5")
        page.locator("#field-text").fill("a 1st draft")
        page.keyboard.type("u 2 <b>3</b>")
        page.reload(wait_until="domcontentloaded")
        assert shown(page) == 1
        assert page.locator("#field-text").input_value() == "a 1st draftu 2 <b>3</b>"
        assert page.locator(".assay-progress").inner_text() == "1 of 4"
        page.locator("#field-text").press("Enter")
        wait_for(page, "2 of 4")
        page.keyboard.press("5")
        page.locator("#field-text").fill(candidate(2).caption)
        page.keyboard.press("Enter")
        wait_for(page, "the caption itself")
        page.keyboard.press("Escape")
        page.locator("[data-decision=keep]").click()
        wait_for(page, "3 of 4")
        assert read(desk) == {"ana": {"0/swap_att": "keep", "1/swap_att": "fix", "2/swap_att": "keep"}}
        assert desk.results()[1]["text"] == "a 1st draftu 2 <b>3</b>"


def test_quick_keys_never_decide_on_an_unseen_item_and_a_failed_write_keeps_the_item(new_page, tmp_path, monkeypatch):
    write_set(tmp_path, 4)
    with served(tmp_path, new_page) as (desk, visit):
        page = visit("ana")
        shown(page)
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            page.keyboard.press("2")
            wait_for(page, "No space left on device")
        assert shown(page) == 0
        release, write = threading.Event(), desk.journal.record
        monkeypatch.setattr(desk.journal, "record", lambda *args: release.wait(10) and write(*args))
        for key in "1234":
            page.keyboard.press(key)
        release.set()
        wait_for(page, "1 of 4")
        assert read(desk) == {"ana": {"0/swap_att": "keep"}}


def test_no_markup_becomes_part_of_the_page_and_no_image_comes_from_outside(new_page, tmp_path):
    text = "<img src=x onerror=alert(1)><script>alert(2)</script> ${1} {{x}}"
    one, other = write_set(
        tmp_path, 2, candidate=text, caption=text[::-1], kind=text, image="../../etc/passwd", id=text
    )
    write_rows([one, other._replace(image="http://tracker.invalid/a.png")], tmp_path / "candidates.jsonl")
    asked = []
    with served(tmp_path, new_page, annotators=["ana", "<b>ben"]) as (_, visit):
        page = visit("cleo")
        page.on("request", lambda request: asked.append(request.url))
        wait_for(page, "unknown annotator 'cleo'")
        page.get_by_role("button", name="<b>ben").click()
        assert shown(page) == 0
        wait_for(page, "lies outside")
        assert page.locator(".assay-text").nth(1).inner_text() == text
        assert page.locator(".assay-review script, .assay-review b, .assay-side img").count() == 0
        assert "annotator=%3Cb%3Eben" in page.url
        # An image at an address is not requested, neither by the server nor by the browser.
        page.keyboard.press("ArrowRight")
        wait_for(page, "there is no image http://tracker.invalid/a.png")
    assert asked
    assert not any("tracker.invalid" in address for address in asked)


def draw(page, corner, other):
    """Draw a box with the mouse, between two points given as shares of the image's width and height."""
    area = page.locator(".assay-layer").bounding_box()
    before = page.locator(".assay-boxes li").count()
    for number, (across, down) in enumerate((corner, other)):
        page.mouse.move(area["x"] + across * area["width"], area["y"] + down * area["height"], steps=4)
        (page.mouse.up if number else page.mouse.down)()
    page.locator(".assay-boxes li").nth(before).wait_for()
    return area


@pytest.mark.slow
def test_boxes_are_drawn_with_the_mouse_and_kept_in_pixels_of_the_image(new_page, tmp_path):
    loaded = "() => (document.querySelector('.assay-item img') || {}).naturalWidth === 1600"
    with served(write_items(tmp_path), new_page, page="boxes") as (desk, visit):
        page = visit("ana", 390)
        shown(page)
        page.wait_for_function(loaded)
        area = draw(page, (0.25, 0.2), (0.5, 0.6))
        assert area["width"] < 1000  # shown much smaller than it is
        pixel = 1600 / area["width"]
        page.wait_for_function(loaded)
        draw(page, (0.9, 0.9), (1.05, 1.2))  # beyond the border
        page.wait_for_function(loaded)
        draw(page, (0.3, 0.3), (0.4, 0.5))  # inside the first
        page.wait_for_function(loaded)
        page.mouse.click(area["x"] + 0.35 * area["width"], area["y"] + 0.4 * area["height"])
        page.locator(".assay-boxes li.chosen").wait_for()
        page.keyboard.press("Delete")
        page.locator(".assay-boxes li").nth(2).wait_for(state="detached")
        page.reload(wait_until="domcontentloaded")  # drawn boxes are kept before they are saved
        page.locator(".assay-boxes li").nth(1).wait_for()
        page.keyboard.press("Enter")
        wait_for(page, "1 of 4")
        page.wait_for_function(loaded)
        draw(page, (0.8, 0.8), (0.6, 0.5))  # from the lower right
        page.keyboard.press("Enter")
        wait_for(page, "2 of 4")
        page.keyboard.press("Enter")
        wait_for(page, "draw a box first")
        judge(page, "aa", 2, 4)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        first, second = desk.results()
    found = [phrase["boxes"] for phrase in first["phrases"]]
    expected = [[[400, 200, 400, 400], [1440, 900, 160, 100]], [[960, 500, 320, 300]]]
    assert [[pytest.approx(box, abs=pixel) for box in phrase] for phrase in expected] == found
    assert (first["positive"], second["positive"]) == (True, False)


def test_pairs_of_images_get_their_phrases_by_keyboard(new_page, tmp_path):
    for number in range(2):
        draw_image(tmp_path / f"{number}.png", number, (160, 100))
    items = tmp_path / "pairs.jsonl"
    pair = ImagePair("0", "0.png", "1.png", "a red ball")
    write_rows([pair, pair._replace(id="1")], items)
    with served(items, new_page, page="pairs") as (desk, visit):
        page = visit("ana", 390)
        wait_for(page, "Is there a phrase for each image")
        page.wait_for_function(
            "() => [...document.querySelectorAll('.assay-item img')].filter((one) => one.naturalWidth).length === 2"
        )
        page.keyboard.press("1")
        assert page.locator("#field-phrase").input_value() == "a red ball"
        page.locator("#field-second_phrase").fill("a 1 <b>blue</b> ball")
        page.keyboard.press("Enter")
        wait_for(page, "1 of 2")
        judge(page, "2", 1, 2)
        page.keyboard.press("ArrowLeft")
        page.locator("#field-second_phrase").wait_for()
        assert page.locator("#field-second_phrase").input_value() == "a 1 <b>blue</b> ball"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert desk.results() == [pair._replace(second_phrase="a 1 <b>blue</b> ball")]


def test_only_its_token_opens_the_page_and_another_page_cannot_post_a_decision(tmp_path):
    write_set(tmp_path, 1)
    with served(tmp_path) as (desk, address):
        for path, headers, status in (
            (f"/?token={TOKEN}", {}, 200),
            ("/", {}, 401),
            ("/?token=guessed", {}, 401),
            (f"/?token={TOKEN}", {"host": "127.0.0.1.rebound.example"}, 403),
            (f"/?token={TOKEN}", {"origin": "https://evil.example"}, 403),
            (f"/?token={TOKEN}", {"origin": "null"}, 403),
        ):
            answer = httpx.get(address + path, headers=headers)
            assert answer.status_code == status, (path, headers)
            assert ("set-cookie" in answer.headers) == (status == 200)
        own = httpx.Client(base_url=address)
        assert "SameSite=Strict" in own.get(f"/?token={TOKEN}").headers["set-cookie"]
        config = own.get("/config").json()
        [id] = [each["id"] for each in config["components"] if each.get("props", {}).get("server_fns")]
        decision = {"annotator": "ana", "id": desk.items[0].id, "answers": {"decision": "keep"}}
        body = json.dumps({"data": decision, "component_id": id, "fn_name": "decide", "session_hash": "s"})
        post = "/gradio_api/component_server"
        plain = {"content-type": "text/plain"}
        for client, headers in (
            (httpx.Client(base_url=address), plain),  # no-cors: without the cookie
            (own, plain | {"origin": "https://evil.example"}),
            (own, plain | {"host": "evil.example"}),
        ):
            assert client.post(post, content=body, headers=headers).status_code in (401, 403)
        assert desk.standing() == {}
        assert own.post(post, content=body, headers={"content-type": "application/json"}).status_code == 200
        assert list(desk.standing()) == ["ana"]
