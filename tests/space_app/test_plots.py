"""The figure of models by category: right values and places, and no markup from outside."""

from __future__ import annotations

import re

from vl_assay.space_app.board.entries import BoardColumn, BoardEntry
from vl_assay.space_app.pages.plots import profile

EVIL = '<a href="javascript:alert(1)">x</a><script>alert(1)</script>&amp;'
MACRO = BoardColumn("sugarcrepe", "itm", "sugarcrepe_itm", "macro_accuracy")


def entry(model, value, category, origin="recomputed", interval=None):
    place = MACRO._replace(score="accuracy", category=category)._asdict()
    return BoardEntry(model=model, **place, value=value, interval=interval, origin=origin, source="source")


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
