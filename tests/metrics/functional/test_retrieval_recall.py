"""The retrieval module: what `evaluate` hands on to the function, its card against the paper, its page."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from cards import card_table, card_text, paper_text

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.functional.retrieval import retrieval_recall
from vl_assay.metrics.modules.discovery import load_metric
from vl_assay.metrics.retrieval_recall import app

CARD = card_text("retrieval_recall")

# Two images with two captions each, plain and shuffled.
SCORES = [[0.9, 0.8, 0.1, 0.2], [0.3, 0.4, 0.7, 0.6], [0.5, 0.8, 0.1, 0.2], [0.6, 0.4, 0.7, 0.1]]
RIGHT = [[0, 1], [2, 3], [0, 1], [2, 3]]
CONDITIONS = ["none", "none", "shuffled", "shuffled"]


def compute(predictions, references, **options):
    return load_metric("retrieval_recall").compute(predictions=predictions, references=references, **options)


def test_results_by_arithmetic():
    result = compute(SCORES, RIGHT, conditions=CONDITIONS, ks=[1, 2])
    none, shuffled = result["per_condition"].values()
    assert none == {
        "text_recall_at_1": 1.0,
        "text_recall_at_2": 1.0,
        "text_mean_rank": 1.0,
        "text_tie_rate": 0.0,
        "text_median_rank": 1.0,
        "image_recall_at_1": 1.0,
        "image_recall_at_2": 1.0,
        "image_mean_rank": 1.0,
        "image_median_rank": 1.0,
        "image_tie_rate": 0.0,
        "n": 2,
        "n_images": 2,
        "n_captions": 4,
        "n_captions_without_image": 0,
    }
    # Shuffled: 0.8 and 0.7 are the highest of their images. Captions 0 (0.5 < 0.6) and 3 (0.1 < 0.2) come second.
    assert (shuffled["text_recall_at_1"], shuffled["image_recall_at_1"]) == (1.0, 2 / 4)
    assert shuffled["image_mean_rank"] == (2 + 1 + 1 + 2) / 4
    assert (result["image_recall_at_1"], result["n"]) == ((4 + 2) / 8, 4)


def test_several_right_candidates_of_unequal_number_come_as_lists():
    scores, right = [[3, 2, 1], [1, 2, 3]], [[0, 1], [2]]
    assert compute(scores, right, ks=[1]) == retrieval_recall(scores, right, ks=[1])
    assert compute(scores, right, ks=[1])["image_recall_at_1"] == 2 / 3  # caption 1 scores 2 with both: a tie is wrong


def test_candidate_sets_of_unequal_size_come_as_lists():
    scores, right = [[3, 2], [1, 2, 3, 4], [5, 1, 4]], [[0], [1, 2], [2]]
    assert compute(scores, right, pool="own") == retrieval_recall(scores, right, pool="own")


def test_three_seeds_give_the_mean_and_the_sample_standard_deviation():
    # Of ten images 4, 5 and 9 find their caption: mean 6/10, sd sqrt((4 + 1 + 9) / 2) / 10 = sqrt(7) / 10.
    scores, right, seeds = [], [], []
    for seed, hits in enumerate([4, 5, 9]):
        matrix = np.where(np.arange(10)[:, np.newaxis] < hits, 2.0 * np.eye(10), np.roll(np.eye(10), 1, axis=1))
        scores, right, seeds = scores + matrix.tolist(), right + list(range(10)), seeds + [seed] * 10
    part = compute(scores, right, conditions=["rows"] * 30, seeds=seeds, ks=[1])["per_condition"]["rows"]
    assert part["text_recall_at_1"] == pytest.approx(0.6)
    assert part["text_recall_at_1_std"] == pytest.approx(math.sqrt(7) / 10)
    assert part["n_seeds"] == 3


def in_per_cent(cell):
    """What the card makes of a cell of the paper: "0.420 ± 0.003" becomes "42.0 ± 0.3"."""
    return " ± ".join(f"{100 * float(number):.1f}" for number in cell.split(" ± "))


@pytest.fixture(scope="module")
def paper(shared_data):
    return paper_text(shared_data, 4)


def rows_of_clip(paper, table):
    """The rows of CLIP in Table 3 or 4, COCO's first and then Flickr30k's; each cell stands on a line of its own."""
    lines = paper.split(f"Table {table}: Performance")[1].split("Table 5: ")[0].splitlines()
    if table == 3:
        lines = lines[: next(place for place, line in enumerate(lines) if line.startswith("Table 4"))]
    number = re.compile(r"0\.\d{3}( ± 0\.\d{3})?")
    found = []
    for place, line in enumerate(lines):
        cells = lines[place + 1 : place + 5]
        if line == "CLIP" and all(map(number.fullmatch, cells)):
            found.append((lines[place - 1].lower(), [in_per_cent(cell) for cell in cells]))
    half = len(found) // 2
    return dict(found[:half]), dict(found[half:])


def test_the_card_quotes_tables_3_and_4(paper):
    texts, images = rows_of_clip(paper, 3), rows_of_clip(paper, 4)
    for name, text, image in zip(["COCO", "Flickr30k"], texts, images, strict=True):
        assert (len(text), len(image)) == (6, 4)
        assert text["no shuffling"] == image["no shuffling"]
        assert card_table("retrieval_recall", name) == text | image
    assert "Performance is averaged over 3 seeds, and standard\ndeviations are reported" in paper
    assert "report standard error bars" in paper


def test_the_card_quotes_table_6(paper):
    lines = paper.split("Table 6: Here")[1].splitlines()
    quoted = card_table("retrieval_recall", "recall")
    assert len(quoted) == 4
    for name, row in quoted.items():
        place = lines.index(name)
        assert [f"{100 * float(cell):.0f}" for cell in lines[place + 1 : place + 4]] == row
    start = lines.index("CLIP")
    assert lines[start : start + 3] == ["CLIP", "CLIP-FT", "NegCLIP"]


def test_the_tables_of_the_paper_agree_with_each_other():
    # Table 6 rounds what Tables 3 and 4 give for CLIP without shuffling: 0.301 to 0.30, and so on.
    table_6 = card_table("retrieval_recall", "recall")
    for name in ("COCO", "Flickr30k"):
        text, _, image, _ = map(float, card_table("retrieval_recall", name)["no shuffling"])
        assert [table_6[f"{name} {which} R@1"][0] for which in ("Text", "Image")] == [f"{text:.0f}", f"{image:.0f}"]
        for cells in card_table("retrieval_recall", name).values():
            first, fifth, image_first, image_fifth = (float(cell.split(" ")[0]) for cell in cells)
            assert first < fifth
            assert image_first < image_fifth


@pytest.mark.parametrize(("images", "in_words"), [(5_000, "0.02 % among 5,000"), (1_000, "0.1 % among 1,000")])
def test_the_card_gives_the_chance_level_of_both_sets(images, in_words):
    one_caption = [list(range(images))]
    chance = compute(one_caption, [7], pool="own", ks=[1])["chance_recall_at_1"]
    assert chance == pytest.approx(1 / images)
    assert f"{100 * chance:g} % among {images:,}" == in_words
    assert in_words in " ".join(CARD.split())


def test_the_page_opens_with_captions_that_lose_their_order():
    result = app.PAGE.compute(app.PAGE.example, "wrong")
    none, shuffled = result["per_condition"].values()
    assert (none["text_recall_at_1"], none["image_recall_at_1"]) == (1.0, 1.0)
    # Image 1 prefers caption 0, and image 2 is undecided between captions 1 and 5; captions 0, 1 and 4 prefer others.
    assert (shuffled["text_recall_at_1"], shuffled["image_recall_at_1"]) == (pytest.approx(1 / 3), 3 / 6)
    assert {"text_recall_at_1", "text_recall_at_5"} <= none.keys()
    plain = [[*row[:2], ""] for row in app.PAGE.example[:3]]
    assert app.PAGE.compute(plain, "wrong")["per_condition"] == {}
    with pytest.raises(ScoresError, match=r"row 2: the columns of right captions are 'x'; fill in a list"):
        app.PAGE.compute([app.PAGE.example[0], [app.PAGE.example[1][0], "x", "none"]], "wrong")
