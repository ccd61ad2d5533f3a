"""The leaderboard's figures: right values, units, colours that all can tell apart, and no markup from outside."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from plotly.graph_objects import Figure

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.records.predictions import Predictions
from vl_assay.metrics.records.schema import MatchingRow, VQARow
from vl_assay.space_app.board.board import Board
from vl_assay.space_app.board.entries import Column, Entry
from vl_assay.space_app.board.launch import published
from vl_assay.space_app.pages.plots import MOST, PALETTE, bars, gap_histogram, radar, ready_pairs, scatter

EVIL = '<a href="javascript:alert(1)">x</a><script>alert(1)</script>&amp;'
SKILLS = ("replace_obj", "swap_obj", "add_att")


def entry(model="m", value=0.5, category="", score="accuracy", origin="recomputed", interval=None, n=None):
    place = Column("sugarcrepe", "itm", "sugarcrepe_itm", score, category)._asdict()
    return Entry(model=model, **place, value=value, interval=interval, n=n, origin=origin, source="source")


def profile(*models, skills=SKILLS, **other):
    return [entry(model, (k + 1) / 10, skill, **other) for model in models for k, skill in enumerate(skills)]


def predictions_of(*scores, right=0, model="some model"):
    rows = [MatchingRow(f"{n}", "c", "c", ["i"], [right], [list(row)]) for n, row in enumerate(scores)]
    return Predictions(rows, {"benchmark": {"name": "sugarcrepe", "task": "itm"}, "model": {"name": model}})


FIGURES = {
    "radar": lambda dark=False: radar(profile("a", EVIL), dark=dark),
    "bars": lambda dark=False: bars(profile("a", EVIL), dark=dark),
    "scatter": lambda dark=False: scatter([entry(EVIL)], [entry(EVIL, score="macro_accuracy")], dark=dark),
    "gaps": lambda dark=False: gap_histogram(predictions_of((1, 0), (0, 1), model=EVIL), dark=dark),
}
every_figure = pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)


def texts(part):
    """Every text in a figure's JSON."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from texts(inner)


@every_figure
def test_markup_from_outside_is_text(make):
    document = json.loads(make().to_json())
    document["layout"].pop("template")
    found = [*texts(document)]
    assert not [text for text in found if "<a" in text or "<script" in text]
    assert any("&lt;a href=" in text for text in found)


@every_figure
@pytest.mark.parametrize("dark", [False, True])
def test_figures_are_transparent_and_of_the_pages_template(make, dark):
    figure = make(dark)
    assert isinstance(figure, Figure)
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
    # The text of the light template is dark, and the other way round.
    assert (luminance(figure.layout.template.layout.font.color) > 0.5) is dark
    assert figure.layout.title.text


def luminance(colour):
    """Relative luminance of #rrggbb, as WCAG 2 defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_have_a_contrast_of_three_to_white_and_to_a_dark_page():
    for colour in PALETTE:
        assert 1.05 / (luminance(colour) + 0.05) >= 3
        assert (luminance(colour) + 0.05) / (luminance("#111827") + 0.05) >= 3


def test_colours_differ_for_those_who_see_no_red_or_no_green():
    # Full deuteranopia and protanopia: Machado, Oliveira and Fernandes, IEEE TVCG 15, 2009, Table 1.
    blindness = {
        "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
        "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    }
    for matrix in blindness.values():
        seen = []
        for colour in PALETTE:
            rgb = [(int(colour[start : start + 2], 16) / 255) ** 2.2 for start in (1, 3, 5)]
            seen.append(
                [255 * max(0, sum(a * b for a, b in zip(row, rgb, strict=True))) ** (1 / 2.2) for row in matrix]
            )
        for one, other in combinations(seen, 2):
            assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 > 30


def test_a_radar_closes_each_models_polygon_and_leaves_gaps_open():
    figure = radar([*profile("a"), *profile("b", skills=SKILLS[:2]), entry("a", 0.9)])
    assert [trace.name for trace in figure.data] == ["a", "b"]
    assert list(figure.data[0].r) == pytest.approx([10, 20, 30, 10])
    assert figure.data[1].r[2] is None
    assert list(figure.data[0].theta) == ["replace<br>obj", "swap<br>obj", "add<br>att", "replace<br>obj"]
    assert len({(trace.line.color, trace.line.dash, trace.marker.symbol) for trace in figure.data}) == 2
    title = "SugarCrepe itm · accuracy,\N{NO-BREAK SPACE}%, by<br>category"
    assert figure.layout.title.text == title


def test_a_figure_says_how_many_models_and_scores_it_takes():
    with pytest.raises(ScoresError, match="got 1 models; choose 2 to 5"):
        radar(profile("a"))
    with pytest.raises(ScoresError, match="got 6 models; choose 1 to 5"):
        bars(profile(*"abcdef"))
    with pytest.raises(ScoresError, match="SugarCrepe itm · accuracy has 2 categories; a radar chart needs three"):
        radar(profile("a", "b", skills=SKILLS[:2]))
    with pytest.raises(ScoresError, match="entries of 2 scores; an axis shows one"):
        bars([entry(category="x"), entry(category="x", score="other")])
    with pytest.raises(ScoresError, match="entries of 0 scores"):
        bars([])
    assert len(bars(profile(*"abcde")).data) == MOST


def test_bars_have_their_intervals_and_numbers_and_the_whole_comes_last():
    some = [entry("a", 0.5, "", interval=(0.375, 0.75), n=1200), entry("a", 0.25, "swap_obj")]
    figure = bars(some)
    [bar] = figure.data
    assert list(bar.x) == list(figure.layout.xaxis.categoryarray) == ["swap obj", "all"]
    assert list(bar.y) == [25, 50]
    assert (list(bar.error_y.array), list(bar.error_y.arrayminus)) == ([None, 25], [None, 12.5])
    assert [row[0] for row in bar.customdata] == ["", "n = 1,200"]
    assert figure.layout.yaxis.title.text == "SugarCrepe itm · accuracy,\N{NO-BREAK SPACE}%"
    assert figure.layout.xaxis.title.text == "category"


def test_one_model_of_two_origins_is_two():
    figure = bars([*profile("a"), *profile("a", origin="published"), *profile("b")])
    assert [trace.name for trace in figure.data] == ["a (recomputed)", "a (published)", "b"]


def test_a_scatter_pairs_scores_of_one_model_and_one_origin():
    across = [entry("a", 0.1), entry("b", 0.2), entry("c", 0.3, origin="published")]
    up = [entry(model, 0.5, score="macro_accuracy", interval=(0.4, 0.7)) for model in "abc"]
    figure = scatter(across, up)
    [trace] = figure.data
    assert (list(trace.x), list(trace.y), list(trace.text)) == ([10, 20], [50, 50], ["a", "b"])
    assert list(trace.error_y.array) == pytest.approx([20, 20])
    assert list(trace.error_x.array) == [None, None]
    assert "SugarCrepe itm · accuracy" in figure.layout.xaxis.title.text
    with pytest.raises(ScoresError, match="both SugarCrepe itm · accuracy and SugarCrepe itm · macro accuracy"):
        scatter(across[2:], up)


def test_pairs_that_are_ready_to_show_are_those_that_most_models_have():
    found = ready_pairs(Board(published()))
    assert found == {
        "original accuracy against brittleness": (
            "Hard Positives replace · original accuracy",
            "Hard Positives replace · brittleness ↓",
        ),
        "recognition against composition": ("ImageNet · accuracy", "ARO relation · macro accuracy"),
    }
    board = Board(published())
    columns = {column.heading: column for column in board.columns}
    for pair in found.values():
        sides = [[entry for entry in published() if entry.column == columns[heading]] for heading in pair]
        assert len(scatter(*sides).data[0].x) >= 3
    few = [entry for entry in published() if entry.benchmark != "hard_positives"]
    assert list(ready_pairs(Board(few))) == ["recognition against composition"]
    assert ready_pairs(Board([])) == {}


def test_the_histogram_counts_every_example_once_and_a_tie_as_wrong():
    figure = gap_histogram(predictions_of((3, 1, 2), (0, 0, 0), (1, 2, 0), (5, 0, 0), (0, 0, 9)))
    right, wrong = figure.data
    assert (right.name, sum(right.y), wrong.name, sum(wrong.y)) == ("right", 2, "wrong, or a tie", 3)
    assert min(right.x) > 0 > max(wrong.x)
    # Gaps 1 and 5; 0, -1 and -9.
    places = [x for x, count in zip(right.x, right.y, strict=True) if count]
    assert places == pytest.approx([1, 5], abs=right.width)
    assert figure.layout.title.text.startswith("some model on sugarcrepe (itm): 40.0\N{NO-BREAK SPACE}%")
    assert "minus" in figure.layout.xaxis.title.text


def test_the_histogram_takes_scores_of_any_size_and_all_ties():
    assert sum(gap_histogram(predictions_of((1e308, -1e308), (-1e308, 1e308))).data[0].y) == 1
    assert sum(gap_histogram(predictions_of((1, 1), (2, 2))).data[1].y) == 2
    assert sum(gap_histogram(predictions_of((0, 5), right=1)).data[0].y) == 1


def test_the_histogram_refuses_what_has_no_gaps():
    row = VQARow("0", "c", "c", ["i"], "is it?", True, 1.0)
    with pytest.raises(ScoresError, match="of the type vqa; only those of the type matching have score gaps"):
        gap_histogram(Predictions([row], {}))
    with pytest.raises(ScoresError, match="no example has scores of two captions"):
        gap_histogram(predictions_of((1,)))
