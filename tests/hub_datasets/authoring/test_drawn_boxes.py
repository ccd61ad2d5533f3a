"""Boxes for phrases: what items may be, clipping, whose boxes are chosen, and the layout of the results."""

import base64
import json

import pytest
from PIL import Image
from review_support import box_item, decide, write_items

from vl_assay.hub_datasets.authoring.review.boxes import choose_boxes, overlap
from vl_assay.hub_datasets.authoring.review.desk import clip
from vl_assay.hub_datasets.authoring.review.review import open_review
from vl_assay.hub_datasets.core.images import decode
from vl_assay.metrics.common.errors import DataError


@pytest.mark.parametrize(
    ("box", "clipped"),
    [
        ([10, 20, 30, 40], (10, 20, 30, 40)),
        ([40, 60, -30, -40], (10, 20, 30, 40)),  # drawn from the other corner
        ([-5, -5, 20, 20], (0, 0, 15, 15)),
        ([90, 40, 500, 500], (90, 40, 10, 60)),
        ([1.234, 2.345, 3.456, 4.567], (1.23, 2.35, 3.46, 4.57)),
        ([10, 20, 0.4, 40], None),
        ([200, 20, 30, 40], None),
    ],
)
def test_boxes_are_clipped_to_the_image(box, clipped):
    assert clip(box, 100, 100) == (None if clipped is None else pytest.approx(clipped, abs=0.006))


@pytest.mark.parametrize("box", [[1, 2, 3], [1, 2, 3, float("nan")], [1, 2, 3, "4"], [1, 2, 3, None]])
def test_what_is_no_box_is_refused(box):
    with pytest.raises(DataError, match="x, y, width and height"):
        clip(box, 10, 10)


def test_overlap_matches_boxes_one_to_one():
    one, half, far = (0, 0, 10, 10), (5, 0, 10, 10), (50, 50, 10, 10)
    assert overlap([one], [one]) == overlap([], []) == 1
    assert overlap([one], []) == overlap([one], [far]) == 0
    assert overlap([one], [half]) == pytest.approx(50 / 150)
    assert overlap([one, far], [far, one]) == 1
    assert overlap([one, far], [one]) == pytest.approx(1 / 2)  # one has no partner


def test_the_boxes_that_agree_best_with_the_others_are_chosen():
    odd, one, near = [(50, 50, 9, 9)], [(0, 0, 10, 10)], [(1, 0, 10, 10)]
    assert choose_boxes([odd, one, near]) is one
    assert choose_boxes([one]) is one


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phrases": []}, "not empty"),
        ({"phrases": [{"text": "a dog", "start": 0, "end": 5}]}, "'a dog' differs from the characters 0 to 5"),
        ({"phrases": [{"text": "a red", "start": "0", "end": 5}]}, "differs from the characters"),
        ({"id": 7}, "row 0 has 7 in 'id'; expected a str"),
        ({"image": "gone.png"}, r"no image .*gone\.png"),
    ],
)
def test_items_that_cannot_be_drawn_for_are_named(tmp_path, changes, message):
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps(box_item(0) | changes) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        open_review(path, page="boxes")


def test_boxes_become_detection_rows(tmp_path):
    desk = open_review(write_items(tmp_path), page="boxes")
    drawn = [[100, 50, 300, 200], [1500, 900, 500, 500], [5, 5, 0.2, 9]]
    decide(desk, "ana", "0#0", decision="boxes", boxes=drawn)
    decide(desk, "ana", "0#1", decision="absent")
    decide(desk, "ana", "1#0", decision="boxes", boxes=[[1, 2, 30, 40]])  # its other phrase is open
    for boxes in (None, [], [[5, 5, 0.2, 9]]):
        with pytest.raises(DataError, match="draw a box first"):
            decide(desk, "ben", "1#1", decision="boxes", boxes=boxes)
    assert desk.missing() == 1
    [row] = desk.results()
    ball, box = box_item(0)["phrases"]
    assert row["phrases"] == [
        {**ball, "phrase_id": 1, "boxes": [[100, 50, 300, 200], [1500, 900, 100, 100]]},
        {**box, "phrase_id": 2, "boxes": []},
    ]
    assert (row["positive"], row["width"], row["height"]) == (True, 1600, 1000)
    decide(desk, "ben", "0#0", decision="boxes", boxes=[[100, 50, 300, 200]])
    # The better match has 1, and two sets of 2 and 1 boxes: 1 / 2
    assert "overlap by 0.500" in str(desk.report())


def test_a_photograph_is_shown_as_its_pixels_are_stored_and_models_see_them(tmp_path):
    path = write_items(tmp_path, 1)
    turned = Image.new("RGB", (40, 20))
    exif = turned.getexif()
    exif[0x0112] = 6  # to be shown turned by a quarter
    turned.save(tmp_path / "images" / "0.jpg", exif=exif)
    path.write_text(json.dumps(box_item(0) | {"image": "images/0.jpg"}) + "\n")
    review = open_review(path, page="boxes")
    decide(review, "ana", "0#0", decision="boxes", boxes=[[0, 0, 100, 100]])
    assert review.undo({"annotator": "ana"})["id"] == "0#0"
    view = decide(review, "ana", "0#0", decision="boxes", boxes=[[0, 0, 100, 100]])
    assert review.open_item({"annotator": "ana", "index": 0})["questions"][1]["value"] == [[0, 0, 40, 20]]
    assert view["index"] == 1
    shown = review.picture({"name": "images/0.jpg"})["src"]
    assert shown.startswith("data:image/png")  # a browser would turn the file itself
    content = base64.b64decode(shown.partition(",")[2])
    assert decode(content).size == decode((tmp_path / "images" / "0.jpg").read_bytes()).size == (40, 20)
