"""The retrieval module: what `evaluate` hands on to the function, its card against the paper, its page."""

from __future__ import annotations

import contextlib
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vl_assay.metrics.errors import ScoresError, UnknownNameError, VLAssayError
from vl_assay.metrics.modules import load_metric
from vl_assay.metrics.retrieval import retrieval_recall
from vl_assay.metrics.retrieval_recall import app

CARD = (Path(app.__file__).parent / "README.md").read_text(encoding="utf-8")

# Two images with two captions each, plain and shuffled.
SCORES = [[0.9, 0.8, 0.1, 0.2], [0.3, 0.4, 0.7, 0.6], [0.5, 0.8, 0.1, 0.2], [0.6, 0.4, 0.7, 0.1]]
RIGHT = [[0, 1], [2, 3], [0, 1], [2, 3]]
CONDITIONS = ["none", "none", "shuffled", "shuffled"]


def compute(predictions, references, **options):
    return load_metric("retrieval_recall").compute(predictions=predictions, references=references, **options)


def random_set(seed, rows=60, captions=24):
    """Images of which two share a caption here and there, under two conditions, one of them with two seeds."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 40, (rows, captions)).astype(float), rng.integers(0, captions, rows).tolist()


def labels_of(rows):
    """None for a third of the rows, and two seeds of shuffling for the others."""
    part = [row % 3 for row in range(rows)]
    return ["none" if one == 0 else "shuffled" for one in part], part


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


def test_candidates_of_each_rows_own_by_arithmetic():
    result = compute([[0.9, 0.8, 0.1], [0.5, 0.6, 0.2, 0.1]], [0, 0], pool="own", categories=[4, 5], ks=[1, 3])
    assert (result["recall_at_1"], result["mean_rank"], result["mean_candidates"]) == (0.5, 1.5, 3.5)
    assert result["chance_recall_at_3"] == pytest.approx((3 / 3 + 3 / 4) / 2)
    assert {name: part["recall_at_1"] for name, part in result["per_category"].items()} == {"4": 1.0, "5": 0.0}


@pytest.mark.parametrize("container", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
@pytest.mark.parametrize("pool", ["shared", "own"])
def test_one_right_candidate_may_be_a_number_or_a_list(pool, container):
    scores, right = random_set(0)
    expected = retrieval_recall(scores, right, pool=pool)
    assert compute(container(scores.tolist()), container(right), pool=pool) == expected
    assert compute(container(scores.tolist()), container([[one] for one in right]), pool=pool) == expected


def test_several_right_candidates_of_unequal_number_come_as_lists():
    scores, right = [[3, 2, 1], [1, 2, 3]], [[0, 1], [2]]
    assert compute(scores, right, ks=[1]) == retrieval_recall(scores, right, ks=[1])
    assert compute(scores, right, ks=[1])["image_recall_at_1"] == 2 / 3  # caption 1 scores 2 with both: a tie is wrong


def test_candidate_sets_of_unequal_size_come_as_lists():
    scores, right = [[3, 2], [1, 2, 3, 4], [5, 1, 4]], [[0], [1, 2], [2]]
    assert compute(scores, right, pool="own") == retrieval_recall(scores, right, pool="own")


def test_batches_and_single_rows_add_up_to_the_whole():
    for right in ([0, 1, 2, 3], RIGHT):
        expected = compute(SCORES, right, conditions=CONDITIONS)
        metric = load_metric("retrieval_recall")
        metric.add_batch(predictions=SCORES[:1], references=right[:1])
        metric.add_batch(predictions=SCORES[1:], references=right[1:])
        assert metric.compute(conditions=CONDITIONS) == expected
        for scores, one in zip(SCORES, right, strict=True):
            metric.add(prediction=scores, reference=one)
        assert metric.compute(conditions=CONDITIONS) == expected


def test_the_module_and_the_plain_function_agree_on_a_shared_pool():
    scores, right = random_set(1)
    conditions, seeds = labels_of(len(scores))
    options = {"ks": [2, 4], "conditions": conditions, "seeds": seeds, "ties": "half", "confidence": 0.8,
               "clusters": [row // 2 for row in range(len(scores))], "resamples": 200, "seed": 3}  # fmt: skip
    expected = retrieval_recall(scores, right, **options)
    assert compute(scores, right, **options) == expected
    assert json.loads(json.dumps(expected, allow_nan=False)) == expected
    assert expected["per_condition"]["shuffled"]["n_seeds"] == 2


def test_the_module_and_the_plain_function_agree_on_candidate_sets():
    scores, right = random_set(2)
    rows = range(len(scores))
    options = {"pool": "own", "ks": [1, 3], "categories": [row % 4 for row in rows], "ties": "right", "confidence": 0.8,
               "clusters": [row // 2 for row in rows], "resamples": 200, "seed": 3}  # fmt: skip
    expected = retrieval_recall(scores, right, **options)
    assert compute(scores, right, **options) == expected
    assert set(expected["per_category"]) == {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"ks": [1, 2]}, "text_recall_at_2"),
        ({"pool": "own", "conditions": None, "seeds": None}, "recall_at_1"),
        ({"ties": "right"}, "text_recall_at_1"),
        ({"conditions": None, "seeds": None}, "image_mean_rank"),
        ({"seeds": None}, "image_mean_rank"),
        ({"clusters": None}, "text_recall_at_5_interval"),
        ({"confidence": 0.5}, "text_recall_at_5_interval"),
        ({"resamples": 201}, "text_recall_at_5_interval"),
        ({"seed": 1}, "text_recall_at_5_interval"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_every_option_reaches_the_function(change, key):
    scores, right = random_set(3)
    conditions, seeds = labels_of(len(scores))
    plain = {"conditions": conditions, "seeds": seeds, "confidence": 0.95, "resamples": 200, "seed": 0,
             "clusters": [row // 6 for row in range(len(scores))]}  # fmt: skip
    expected = compute(scores, right, **plain)
    assert compute(scores, right, **{**plain, **change})[key] != expected.get(key)


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


@pytest.mark.parametrize(
    ("scores", "right", "options", "message"),
    [
        ([[1, 2], [1, 2, 3]], [0, 0], {}, r"row 0 has 2 scores.*row 1 \(1 of 2.*: 3; .*use pool=\"own\""),
        ([[1, 2], [3, math.nan]], [0, 1], {}, r"NaN or infinite in row 1 \(1 of 2.*Score these candidates again"),
        ([[1, 2], [3, None]], [0, 1], {"pool": "own"}, "NaN or infinite in row 1"),
        ([[1, 2], [3, 4]], [0, 2], {}, "place of a right candidate is 2 in row 1.*from 0, below the row's number"),
        ([[1, 2], [3, 4]], [0, -1], {}, "place of a right candidate is -1 in row 1"),
        ([[1, 2], [3, 4]], [0, None], {}, "place of a right candidate is nan in row 1"),
        ([[1, 2], [3, 4]], [[0], []], {}, "no candidate is right in row 1.*name at least one for each row"),
        ([[1, 2], [3, 4]], [[0, 0], [1]], {}, "a right candidate comes twice in row 0.*name each of them once"),
        ([[1, 2], [3]], [0, 0], {"pool": "own"}, "every candidate is right in row 1.*at least one wrong candidate"),
        ([[1, 2], [3, 4]], [0, 1], {"ks": [0]}, "k is 0; it must be a whole number from 1"),
        ([[1, 2], [3, 4]], [0, 1], {"categories": ["a", "b"]}, "categories came with pool=\"shared\""),
        ([[1, 2], [3, 4]], [0, 1], {"seeds": [1, 2]}, "seeds came without conditions; name the condition"),
        ([[1, 2], [3, 4]], [0, 1], {"conditions": ["a", "b"]}, "no second image to choose from for rows 0, 1"),
        ([[1, 2], [3, 4]], [0, 1], {"clusters": ["a"]}, "1 clusters came for 2 examples"),
        ([[1, 2], [3, 4]], [0, 1], {"pool": "all"}, "unknown pool of candidates 'all'; known: shared, own"),
        ([[1, 2], [3, 4]], [0, 1], {"ties": "first"}, "unknown tie policy 'first'; known: wrong, half, right"),
    ],
)  # fmt: skip
def test_unusable_input_is_refused_with_its_cure(scores, right, options, message):
    with pytest.raises((ScoresError, UnknownNameError), match=message):
        compute(scores, right, **options)


def test_evaluate_cuts_fractions_off_as_the_card_warns():
    assert compute([[2, 1], [1, 2]], [0.7, 1]) == compute([[2, 1], [1, 2]], [0, 1])
    assert "0.7 becomes 0 without notice" in CARD
    with pytest.raises(ScoresError, match=r"right candidate is 0\.7 in row 0"):
        retrieval_recall([[2, 1], [1, 2]], [0.7, 1])


rows = st.lists(st.lists(st.floats(width=32), max_size=4), max_size=4)
places = st.one_of(st.integers(-1, 4), st.lists(st.integers(-1, 4), max_size=3))


@settings(max_examples=60)
@given(scores=rows, right=st.lists(places, max_size=4), pool=st.sampled_from(["shared", "own"]))
def test_what_evaluate_lets_through_is_judged_or_refused_in_words(scores, right, pool):
    lists = [one if isinstance(one, list) else [one] for one in right]
    if len(lists) == len(scores):
        with contextlib.suppress(VLAssayError):
            assert compute(scores, lists, pool=pool)["n"] == len(scores)


# --- the card and the page ------------------------------------------------------------------------------------


def card_rows(first_cell):
    """The rows of the card's table whose header starts with that cell, by their first cell."""
    rows = {}
    lines = iter(CARD.splitlines())
    for line in lines:
        if line.startswith(f"| {first_cell} |"):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    return rows
                cells = [cell.strip() for cell in row.strip("|").split("|")]
                rows[cells[0]] = cells[1:]
    raise AssertionError(first_cell)


def in_per_cent(cell):
    """What the card makes of a cell of the paper: "0.420 ± 0.003" becomes "42.0 ± 0.3"."""
    return " ± ".join(f"{100 * float(number):.1f}" for number in cell.split(" ± "))


@pytest.fixture(scope="module")
def paper(shared_data):
    (path,) = (shared_data / "papers").glob("004_*.txt")
    return path.read_text(encoding="utf-8").replace("ﬂ", "fl").replace("ﬁ", "fi")


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
        assert card_rows(name) == text | image
    assert "Performance is averaged over 3 seeds, and standard\ndeviations are reported" in paper
    assert "report standard error bars" in paper


def test_the_card_quotes_table_6(paper):
    lines = paper.split("Table 6: Here")[1].splitlines()
    quoted = card_rows("recall")
    assert len(quoted) == 4
    for name, row in quoted.items():
        place = lines.index(name)
        assert [f"{100 * float(cell):.0f}" for cell in lines[place + 1 : place + 4]] == row
    start = lines.index("CLIP")
    assert lines[start : start + 3] == ["CLIP", "CLIP-FT", "NegCLIP"]


def test_the_tables_of_the_paper_agree_with_each_other():
    # Table 6 rounds what Tables 3 and 4 give for CLIP without shuffling: 0.301 to 0.30, and so on.
    table_6 = card_rows("recall")
    for name in ("COCO", "Flickr30k"):
        text, _, image, _ = map(float, card_rows(name)["no shuffling"])
        assert [table_6[f"{name} {which} R@1"][0] for which in ("Text", "Image")] == [f"{text:.0f}", f"{image:.0f}"]
        for cells in card_rows(name).values():
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
    result = app.PAGE.judge(app.PAGE.example, "wrong")
    none, shuffled = result["per_condition"].values()
    assert (none["text_recall_at_1"], none["image_recall_at_1"]) == (1.0, 1.0)
    # Image 1 prefers caption 0, and image 2 is undecided between captions 1 and 5; captions 0, 1 and 4 prefer others.
    assert (shuffled["text_recall_at_1"], shuffled["image_recall_at_1"]) == (pytest.approx(1 / 3), 3 / 6)
    assert {"text_recall_at_1", "text_recall_at_5"} <= none.keys()
    plain = [[*row[:2], ""] for row in app.PAGE.example[:3]]
    assert app.PAGE.judge(plain, "wrong")["per_condition"] == {}
    with pytest.raises(ScoresError, match=r"row 2: the columns of right captions are 'x'; fill in a list"):
        app.PAGE.judge([app.PAGE.example[0], [app.PAGE.example[1][0], "x", "none"]], "wrong")
