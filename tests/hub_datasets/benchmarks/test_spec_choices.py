"""SPEC: what is true comes first in either direction, commands take several images a row, wrong rows are refused."""

import base64
import gzip
import json
import re

import pytest
from builder_support import Small
from console import invoke

from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path):
    return Small("spec", tmp_path)


def results(folder):
    """The scores of each task in a folder of predictions."""
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return {result["benchmark"]["task"]: result["scores"] for result in found["results"]}


def test_the_true_caption_comes_first_and_the_others_keep_their_order(small):
    row, other = small.rows("relative_size_i2t")
    captions = [f"a {colour} circle and a yellow pill" for colour in ("red", "blue", "green")]
    assert (row["filename"], row["caption"]) == ("images/relative_size-2.png", captions[2])
    assert row["negative_captions"] == captions[:2]
    assert [other["caption"], *other["negative_captions"]] == captions


def test_the_true_image_comes_first_and_the_others_keep_their_order(small):
    row, other = small.rows("relative_size_t2i")
    names = [f"images/relative_size-{number}.png" for number in range(3)]
    assert [row[f"filename_{number}"] for number in range(3)] == [names[2], *names[:2]]
    assert [other[f"filename_{number}"] for number in range(3)] == names
    assert row["caption"] == "a green circle and a yellow pill"
    for number in range(3):
        file = small.folder / "relative_size" / row[f"filename_{number}"]
        assert row[f"image_{number}"]["bytes"] == file.read_bytes()


def test_a_choice_among_images_is_reported_and_shown_with_all_its_images(small, tmp_path):
    run = invoke(
        "run", "mock:bag-of-words", "spec/existence_t2i", "--data-dir", small.folder, "--out", "bag", folder=tmp_path
    )
    assert run.exit_code == 0, run.output
    # All pills are red: of "a red circle and a red pill" the words fit both images, a tie, which is wrong.
    scores = results(tmp_path / "bag")["existence_t2i"]
    assert (scores["accuracy"], scores["tie_rate"], scores["n"]) == (0.5, 0.5, 2)
    errors = invoke("errors", "bag", "--data-dir", small.folder, "--out", "errors.html", folder=tmp_path)
    assert errors.exit_code == 0, errors.output
    page = (tmp_path / "errors.html").read_text(encoding="utf-8")
    [task] = json.loads(re.search(r'id="tasks-data">(.*?)</script>', page, re.S)[1])
    worst, right = json.loads(gzip.decompress(base64.b64decode(task["cards"])))
    assert "a red circle and a red pill" in worst
    assert "tie" in worst
    assert "a blue circle and a red pill" in right
    for card in (worst, right):
        assert card.count("<img ") == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": ["one"]}, r"text2image\.json, row 0: keys has 1 entries, but a row of count chooses from 9"),
        ({"label": 9}, "row 0: label is 9, which is not a place in keys, from 0 to 8"),
        ({"label": -1}, "row 0: label is -1, which"),
        ({"query": " "}, "row 0: ' ' among the query and keys is empty"),
        ({"keys": ["../x.jpg", *"abcdefgh"], "label": 0}, r"the image '\.\./x\.jpg' of count_t2i/0 does not lead"),
    ],
)
def test_a_row_that_cannot_be_scored_is_named(small, change, message):
    file = small.folder / "count" / "text2image.json"
    rows = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps([rows[0] | change, *rows[1:]]), encoding="utf-8")
    small.error(DataError, message, "count_t2i")
