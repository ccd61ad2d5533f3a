"""The figure of models by category: right values and places, colours that all can tell apart, no foreign markup."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np

from vl_assay.metrics.common.figures import COLOURS
from vl_assay.space_app.board.entries import BoardColumn, BoardEntry
from vl_assay.space_app.pages.plots import profile

EVIL = '<a href="javascript:alert(1)">x</a><script>alert(1)</script>&amp;'
MACRO = BoardColumn("sugarcrepe", "itm", "sugarcrepe_itm", "macro_accuracy")


def entry(model, value, category, origin="recomputed", interval=None):
    place = MACRO._replace(score="accuracy", category=category)._asdict()
    return BoardEntry(model=model, **place, value=value, interval=interval, origin=origin, source="source")


def luminance(colour):
    """Relative luminance of #rrggbb, as WCAG 2 defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_have_a_contrast_of_three_and_differ_for_those_who_see_no_red_or_no_green():
    for colour in COLOURS:
        assert 1.05 / (luminance(colour) + 0.05) >= 3
        assert (luminance(colour) + 0.05) / (luminance("#0d1117") + 0.05) >= 3
    # Full deuteranopia and protanopia: Machado, Oliveira and Fernandes, IEEE TVCG 15, 2009, Table 1.
    for matrix in (
        ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
        ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    ):
        linear = [[(int(each[start : start + 2], 16) / 255) ** 2.2 for start in (1, 3, 5)] for each in COLOURS]
        seen = 255 * np.maximum(0, np.array(linear) @ np.transpose(matrix)) ** (1 / 2.2)
        assert all(np.linalg.norm(one - other) > 30 for one, other in combinations(seen, 2))


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
    both = profile(MACRO, [entry("a", 0.1, "x"), entry("a", 0.2, "x", "published"), entry(EVIL, 0.3, "x")])
    head = [" ".join(cell) for cell in rows(both)[0][2:]]
    assert head[:2] == ["a (recomputed)", "a (published)"]
    assert head[2].startswith("&lt;a href=")
    assert "<a" not in both
    assert "<script" not in both
