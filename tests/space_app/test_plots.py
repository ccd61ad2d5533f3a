"""The leaderboard's figures: right values and places, colours that all can tell apart, and no markup from outside."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.common.figures import COLOURS
from vl_assay.metrics.records.predictions import Predictions
from vl_assay.metrics.records.schema import MatchingRow, VQARow
from vl_assay.space_app.board.board import Board
from vl_assay.space_app.board.entries import BoardColumn, BoardEntry
from vl_assay.space_app.board.launch import published
from vl_assay.space_app.pages.plots import gap_histogram, pairs_of, profile, ready_pairs, scatter

EVIL = '<a href="javascript:alert(1)">x</a><script>alert(1)</script>&amp;'
MACRO = BoardColumn("sugarcrepe", "itm", "sugarcrepe_itm", "macro_accuracy")
SKILLS = ("replace_obj", "swap_obj", "add_att")


def entry(model="m", value=0.5, category="", score="accuracy", origin="recomputed", interval=None, **other):
    place = BoardColumn("sugarcrepe", "itm", "sugarcrepe_itm", score, category)._asdict()
    return BoardEntry(model=model, **place, value=value, interval=interval, origin=origin, source="source", **other)


def profile_of(*models, skills=SKILLS, **other):
    return [entry(model, (k + 1) / 10, skill, **other) for model in models for k, skill in enumerate(skills)]


def predictions_of(*scores, right=0, model="some model", task="sugarcrepe/itm"):
    rows = [MatchingRow(f"{n}", "c", "c", ["i"], [right], [list(row)]) for n, row in enumerate(scores)]
    return of_task(rows, task, model)


def of_task(rows, task, model="some model"):
    name, task = task.split("/")
    return Predictions(rows, {"benchmark": {"name": name, "task": task}, "model": {"name": model}})


FIGURES = {
    "profile": lambda: profile(MACRO, profile_of("a", EVIL)),
    "scatter": lambda: scatter(pairs_of([entry(EVIL)], [entry(EVIL, score="macro_accuracy")])),
    "gaps": lambda: gap_histogram(predictions_of((1, 0), (0, 1), model=EVIL)),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_markup_from_outside_is_text(make):
    html = make()
    assert "&lt;a href=" in html
    assert "<a" not in html
    assert "<script" not in html


def luminance(colour):
    """Relative luminance of #rrggbb, as WCAG 2 defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_have_a_contrast_of_three_to_a_light_and_to_a_dark_page():
    for colour in COLOURS:
        assert 1.05 / (luminance(colour) + 0.05) >= 3
        assert (luminance(colour) + 0.05) / (luminance("#0d1117") + 0.05) >= 3


def test_colours_differ_for_those_who_see_no_red_or_no_green():
    # Full deuteranopia and protanopia: Machado, Oliveira and Fernandes, IEEE TVCG 15, 2009, Table 1.
    blindness = {
        "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
        "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    }
    for matrix in blindness.values():
        linear = [[(int(each[start : start + 2], 16) / 255) ** 2.2 for start in (1, 3, 5)] for each in COLOURS]
        seen = 255 * np.maximum(0, np.array(linear) @ np.transpose(matrix)) ** (1 / 2.2)
        for one, other in combinations(seen, 2):
            assert np.linalg.norm(one - other) > 30


def rows(html):
    """The texts of a table's lines, cell by cell."""
    lines = re.findall(r"<tr.*?</tr>", html, re.DOTALL)
    return [
        [re.sub("<[^>]+>| +", " ", cell).split() for cell in re.findall(r"<t[hd].*?</t[hd]>", x, re.S)] for x in lines
    ]


def test_a_profile_has_a_line_for_each_category_with_intervals_and_the_whole_comes_last():
    entries = [entry("a", 0.5, "", interval=(0.4, 0.75)), entry("a", 0.25, "swap_obj"), entry("b", 0.75, "swap_obj")]
    html = profile(MACRO, entries)
    _, swapped, whole = rows(html)
    assert swapped == [["swap", "obj"], [], ["25.0"], ["75.0"]]
    assert whole == [["all"], [], ["50.0", "40.0", "–", "75.0"], ["–"]]
    assert "SugarCrepe itm · macro accuracy, % by category" in html
    # The axis begins at 25 - 3 and ends at 75 + 3.
    assert "left:32.14%;width:62.5%" in html
    assert html.count('<b class="assay-mark m1"') == 2  # in the key and in one category
    both = profile(MACRO, [*profile_of("a"), *profile_of("a", origin="published"), *profile_of("b")])
    assert [" ".join(cell) for cell in rows(both)[0][2:]] == ["a (recomputed)", "a (published)", "b"]


def test_a_scatter_pairs_scores_of_one_model_and_one_origin():
    across = [entry("a", 0.1), entry("b", 0.2), entry("c", 0.3, origin="published"), entry("d", 0.1, is_baseline=True)]
    up = [entry(model, 0.5, score="macro_accuracy", interval=(0.4, 0.7)) for model in "abcd"]
    pairs = pairs_of(across, up)
    assert [(x.model, y.value) for x, y in pairs] == [("a", 0.5), ("b", 0.5), ("d", 0.5)]
    html = scatter(pairs)
    _, *lines = rows(html)
    assert [line[:2] for line in lines] == [[["b"], ["recomputed"]], [["a"], ["recomputed"]], [["d"], ["reference"]]]
    assert lines[0][2] == ["50.0", "%", "[40.0", "–", "70.0]"]
    assert html.count('class="point ') == 3
    assert html.count('class="name') == 2  # those of references are found by pointing
    with pytest.raises(ScoresError, match="no model has both scores"):
        scatter(pairs_of(across[2:3], up))


def test_pairs_that_are_ready_to_show_are_those_of_the_papers():
    found = ready_pairs(Board(published()))
    assert found["recognition against composition"] == ("ImageNet · accuracy", "ARO relation · macro accuracy")
    assert list(found) == ["original accuracy against brittleness", "recognition against composition"]
    assert ready_pairs(Board([])) == {}


def gaps(html):
    """The number of examples in each bin of a histogram that has some, by side."""
    bins = re.findall(r'<i class="(good|warn)" title="(\d+) examples with a gap of ([^"]+)"', html)
    return [(side, int(number), where) for side, number, where in bins if number != "0"]


def test_the_histogram_counts_every_example_once_and_a_tie_as_wrong():
    html = gap_histogram(predictions_of((3, 1, 2), (0, 0, 0), (1, 2, 0), (5, 0, 0), (0, 0, 9)))
    # Gaps 1 and 5; 0, -1 and -9. The outermost bin ends at the upper half per cent.
    assert [(side, number) for side, number, _ in gaps(html)] == [("warn", 1)] * 3 + [("good", 1)] * 2
    assert gaps(html)[-3:] == [("warn", 1, "-0.295 to 0"), ("good", 1, "0.884 to 1.18"), ("good", 1, "4.71 to 5.01")]
    assert "Score gaps of some model on sugarcrepe (itm)" in html
    assert "40.0 % of 5 gaps are above zero, 1 are ties" in html


def test_the_histogram_takes_scores_of_any_size_and_all_ties():
    def counts(*scores, **options):
        return [found[:2] for found in gaps(gap_histogram(predictions_of(*scores, **options)))]

    assert counts((1e308, -1e308), (-1e308, 1e308)) == [("warn", 1), ("good", 1)]
    assert counts((1, 1), (2, 2)) == [("warn", 2)]
    assert counts((0, 5), right=1) == [("good", 1)]


def test_a_second_true_caption_is_no_negative_and_several_images_have_one_gap():
    # The two true captions differ by 4; the worse one is above the negative by 2, and below it by 1.
    html = gap_histogram(predictions_of((5, 9, 3), (5, 1, 2), task="toy_scenes/hard_positives"))
    assert [(side, where.split()[2]) for side, _, where in gaps(html)] == [("warn", "-0.992"), ("good", "1.99")]
    assert "50.0 % of 2 gaps are above zero" in html
    pair = MatchingRow("0", "c", "c", ["i", "j"], [0, 1], [[3.0, 2.0], [4.0, 8.0]])
    # The second image has a higher score for the first caption than the first image: wrong by 1.
    assert "0.0 % of 1 gaps are above zero" in gap_histogram(of_task([pair], "winoground/groups"))


def test_the_histogram_refuses_what_has_no_gaps():
    row = VQARow("0", "c", "c", ["i"], "is it?", True, 1.0)
    with pytest.raises(ScoresError, match="type vqa; only those of the types matching and text_similarity have"):
        gap_histogram(Predictions([row], {}))
    with pytest.raises(ScoresError, match="no example has scores of two captions"):
        gap_histogram(predictions_of((1,)))
