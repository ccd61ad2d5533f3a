"""What the leaderboard's table shows: the right values, in order, filtered, with marks that statistics allow."""

from __future__ import annotations

import csv
import io
import re

import pytest
from space_support import many_models
from submission_support import MemoryStorage

from vl_assay.metrics.common.errors import UnknownNameError
from vl_assay.space_app.board.board import BEST, NOT_STATED, SIZES, TIE, Board
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import BoardColumn, BoardEntry, skill_means
from vl_assay.space_app.board.launch import published
from vl_assay.space_app.board.views import BY_SKILL, MOST_COLUMNS, OTHER, OVERVIEW, places, view, view_names
from vl_assay.space_app.pages.leaderboard import ROWS_AT_ONCE, board_html

ITM = BoardColumn("sugarcrepe", "itm", "sugarcrepe_itm", "accuracy")
BRITTLE = BoardColumn("hard_positives", "swap", "brittleness", "brittleness")


def entry(model="a", value=0.5, column=ITM, origin="recomputed", **other):
    facts = {"family": "clip", "parameters": 10**8, "training_data": "LAION 2B", "interval": None, "n": 10}
    facts |= {"source": "id", "status": "accepted", "predictions": f"predictions of {model}"}
    return BoardEntry(model=model, value=value, origin=origin, **column._asdict(), **{**facts, **other})


def names(rows):
    return [row.model for row in rows]


def texts(html):
    """The texts of the cells of each row, between the coverage and the number of parameters."""
    rows = re.findall(r'<th scope="row".*?</th>(.*?)</tr>', html, re.DOTALL)
    return [
        [" ".join(re.sub("<[^>]+>", " ", cell).split()) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)[1:-1]]
        for row in rows
    ]


def test_scores_are_in_per_cent_with_gaps_where_nothing_is_known_and_intervals_on_demand():
    entries = [entry("a", 0.25, interval=(0.21, 0.294)), entry("b", 0.75), entry("b", 0.1, BRITTLE)]
    catalogue, options = Catalogue(MemoryStorage(), entries), {"search": "", "origins": ["recomputed"]}
    shown = places([ITM, BRITTLE])
    assert texts(board_html(catalogue, shown, **options)) == [["● 75.0 best", "● 10.0 best"], ["25.0", "–"]]
    assert texts(board_html(catalogue, shown, intervals=True, **options))[1] == ["25.0 21.0 – 29.4", "–"]
    assert (ITM.heading, BRITTLE.heading) == ("SugarCrepe itm · accuracy", "Hard Positives swap · brittleness ↓")


def test_the_better_stands_first_whatever_better_means_and_what_is_missing_last():
    gap = BoardColumn("sugarcrepe", "itm", "artifact_gap", "accuracy")  # what captions give away
    papers = BoardColumn("ImageNet", "", "", "accuracy")  # which no metric computes
    values = {"a": 0.3, "b": 0.1, "c": 0.2}
    entries = [entry(name, value, column) for column in (BRITTLE, gap, papers) for name, value in values.items()]
    board = Board([*entries, entry("d")])
    for column, order in ((BRITTLE, ["b", "c", "a", "d"]), (gap, ["b", "c", "a", "d"]), (papers, ["a", "c", "b", "d"])):
        rows = board.rows([column, ITM])
        assert names(rows) == order
        assert board.marks(rows, column) == {(order[0], "recomputed"): BEST}
    assert names(board.rows([BRITTLE, ITM], sort="model")) == ["a", "b", "c", "d"]
    sized = Board([entry("a", parameters=None), entry("b", parameters=9), entry("c", parameters=8)])
    assert names(sized.rows([ITM], sort="parameters")) == ["c", "b", "a"]
    assert names(Board([entry("a"), entry("b", column=BRITTLE)]).rows([ITM])) == ["a"]
    assert Board([]).rows([]) == []


def test_references_stay_at_the_end_and_are_not_the_best():
    board = Board([
        entry("Human", 0.99, origin="reference", family=""), entry("Vera", 0.98, origin="published", is_baseline=True),
        entry("a", 0.2), entry("b", 0.3),
    ])  # fmt: skip
    rows = board.rows([ITM])
    assert [(row.model, row.is_reference) for row in rows] == [
        ("b", False), ("a", False), ("Human", True), ("Vera", True),
    ]  # fmt: skip
    assert board.marks(rows, ITM, ["Vera", "Human"]) == {("b", "recomputed"): BEST}
    assert names(board.rows([ITM], families=["clip"])) == ["b", "a", "Human", "Vera"]
    assert names(board.rows([ITM], origins=["recomputed"])) == ["b", "a"]


def test_filters_choose_by_name_family_size_data_and_origin():
    board = Board([
        entry("Small CLIP", parameters=200_000_000), entry("big clip", parameters=2_000_000_000, training_data=""),
        entry("blip", family="blip", parameters=None), entry("paper", origin="published", parameters=1_000_000_000),
    ])  # fmt: skip

    def chosen(**choice):
        return sorted(names(board.rows([ITM], **choice)))

    assert chosen(search=" CLIP ") == ["Small CLIP", "big clip"]
    assert chosen(families=["blip"]) == chosen(sizes=[NOT_STATED]) == ["blip"]
    assert chosen(sizes=SIZES[:2]) == ["Small CLIP", "paper"]
    assert chosen(training_data=[NOT_STATED]) == ["big clip"]
    assert chosen(origins=["published"]) == ["paper"]
    assert chosen(families=[]) == []
    assert board.choices("sizes") == list(SIZES)
    assert board.choices("families") == ["blip", "clip"]
    assert board.choices("training_data") == ["LAION 2B", NOT_STATED]
    assert board.choices("origins") == ["recomputed", "published"]


def test_a_later_submission_under_a_name_changes_nothing_and_what_a_paper_prints_is_another_row():
    first, later = entry("a", 0.5, family=""), entry("a", 0.9, source="other", is_baseline=True)
    board = Board([first, later, entry("a", 0.2, BRITTLE)])
    rows = board.rows([ITM, BRITTLE])
    assert rows == [first]
    assert board.marks(rows, ITM) == {("a", "recomputed"): BEST}
    assert board.entry(BRITTLE, "a", "recomputed").value == 0.2
    assert board.entry(ITM, "a", "recomputed").source == "id"
    assert board.entry(ITM, "a", "published") is None
    rows = Board([first, entry("a", 0.6, origin="published")]).rows([ITM])
    assert [(row.origin, row.value) for row in rows] == [("published", 0.6), ("recomputed", 0.5)]


@pytest.mark.parametrize(
    ("more", "search", "expected"),
    [
        ([], "", [BEST, BEST, TIE, ""]),
        ([entry("p", 0.9, origin="published")], "", [BEST, "", "", "", ""]),
        ([entry("best", 0.6)], "", [BEST, TIE, "", TIE, ""]),
        ([entry("best", 0.6)], "x", [BEST, "", ""]),  # they were compared with the best, not with each other
    ],
)
def test_all_of_equal_best_are_marked_and_ties_only_beside_a_recomputed_best_that_is_shown(more, search, expected):
    board = Board([entry("x1", 0.5), entry("b", 0.5), entry("x2", 0.4), entry("x3", 0.3), *more])
    rows = board.rows([ITM], search=search)
    marks = board.marks(rows, ITM, {"best", "x1", "x2"})
    assert [marks.get((row.model, row.origin), "") for row in rows] == expected


def test_columns_are_whole_tasks_and_categories_are_asked_for():
    swap = ITM._replace(category="swap_obj")
    board = Board([entry("a"), entry("a", 0.3, swap), entry("a", 0.1, BRITTLE)])
    assert board.columns == [ITM, BRITTLE]
    assert board.categories(ITM) == [swap]
    assert swap.heading == "SugarCrepe itm · accuracy · swap obj"
    with pytest.raises(UnknownNameError, match="column 'SugarCrepe unrefined · accuracy'; known: SugarCrepe itm"):
        board.rows([ITM._replace(task="unrefined")])
    with pytest.raises(UnknownNameError, match="unknown column to sort by 'family'; known: model, parameters"):
        board.rows([ITM], sort="family")


def test_the_download_has_full_fractions_sources_and_no_formulas():
    evil = entry('=HYPERLINK("x")', 1 / 3, interval=(0.1, 0.5), source="+1", training_data='a,\n"b"')
    rows = list(csv.DictReader(io.StringIO(Board([evil, entry("b", 0.2)]).csv([ITM]))))
    assert [float(row["value"]) for row in rows] == [1 / 3, 0.2]
    assert (rows[0]["model"], rows[0]["source"]) == ('\'=HYPERLINK("x")', "'+1")
    assert (rows[0]["low"], rows[0]["high"], rows[1]["low"]) == ("0.1", "0.5", "")
    assert rows[0]["training_data"] == 'a,\n"b"'
    assert list(csv.DictReader(io.StringIO(Board([evil]).csv([ITM], search="zzz")))) == []


def test_a_cell_that_a_spreadsheet_may_run_begins_with_an_apostrophe():
    signs = ["=1+1", " =1+1", "\uff1d1+1", "+1", "-1", "@SUM(1)", "|calc", "%0a=1+1", "%3D1", "%x", "\t=1", "\u00a0=1"]
    signs += ["\ta", " b"]
    rows = csv.DictReader(io.StringIO(Board(map(entry, signs)).csv([ITM])))
    assert sorted(row["model"] for row in rows) == sorted(f"'{text}" for text in signs)


def test_the_page_of_many_models_draws_the_first_rows_and_says_how_many_more():
    catalogue = Catalogue(MemoryStorage(), many_models(200, 4))
    shown = view(catalogue.board, OVERVIEW)
    html, rows = board_html(catalogue, shown), len(catalogue.board.rows([place.column for place in shown]))
    assert html.count('<th scope="row"') == ROWS_AT_ONCE
    assert f"{rows - ROWS_AT_ONCE:,} more rows: narrow the choice, or show all rows" in html
    found = board_html(catalogue, shown, search="model 19", origins=["recomputed"])
    for part in found.split("<ol"):  # the same models in wide and in narrow windows
        named = re.findall(r'data-model="(.*?)"', part)
        assert sorted(named) == sorted(f"model {number}" for number in (19, *range(190, 200)))
    assert "more rows" not in found


def test_a_rank_is_the_range_where_intervals_overlap_and_ties_share_the_first():
    spans = {"a": (0.8, 0.9), "b": (0.7, 0.85), "c": (0.5, 0.6), "d": (0.1, 0.2)}
    entries = [entry(name, sum(span) / 2, interval=span) for name, span in spans.items()]
    printed, person = entry("paper", 0.65, origin="published"), entry("Human", 1.0, origin="reference")
    board = Board([*entries, printed, person])
    key = "recomputed"
    assert board.ranks(ITM) == {
        ("a", key): (1, 2), ("b", key): (1, 2), ("paper", "published"): (3, 3), ("c", key): (4, 4), ("d", key): (5, 5),
    }  # fmt: skip
    assert board.ranks(ITM, {"a", "c"})["c", key] == (1, 4)
    low = Board([entry("a", 0.1, BRITTLE), entry("b", 0.2, BRITTLE)])
    assert low.ranks(BRITTLE) == {("a", key): (1, 1), ("b", key): (2, 2)}
    assert board.ranks(BRITTLE) == {}


def test_a_page_says_what_each_row_and_column_is():
    spans = {"a": (0.8, 0.9), "b": (0.7, 0.85)}
    entries = [entry(name, sum(span) / 2, interval=span) for name, span in spans.items()]
    entries += [entry("<b>paper</b>", 0.6, BRITTLE, origin="published"), entry("a", 0.2, BRITTLE)]
    catalogue = Catalogue(MemoryStorage(), [*entries, entry("nothing", column=ITM._replace(task="unrefined"))])
    html = board_html(catalogue, places([ITM, BRITTLE]), ITM.heading, search="")
    assert re.findall(r'<td class="rank">(.*?)</td>', html)[:3] == ["1–2", "1–2", ""]
    assert re.findall(r"(\d of 2)</td>", html)[:2] == ["2 of 2", "1 of 2"]
    assert "&lt;b&gt;paper&lt;/b&gt;" in html
    assert "<b>paper" not in html
    assert '<i style="left:80.0%;width:10.0%"></i>' in html
    assert '<b style="left:60.0%"></b><u style="left:33.3%"></u>' in html
    assert "rows without any of these scores are hidden" in html
    assert 'data-model="nothing"' not in html
    assert 'data-model="nothing"' in board_html(catalogue, places([ITM, BRITTLE]), most=None, with_empty=True)
    assert "How often only one of two true captions outscores the negative. Lower is better." in html


# Which scores are shown together


def headings(board, name):
    return [place.column.heading for place in view(board, name)]


def test_a_benchmark_shows_its_main_scores_and_their_categories_and_a_skill_one_number():
    values = published()
    board = Board([*values, *skill_means(values)])
    assert view_names(board)[:3] == ["SugarCrepe", "Hard Positives", "ARO"]
    assert view_names(board)[-3:-1] == [BY_SKILL, OVERVIEW]
    assert headings(board, "no such view") == headings(board, OVERVIEW)
    assert "SugarCrepe itm · macro accuracy" in headings(board, OVERVIEW)
    assert headings(board, "SugarCrepe")[:2] == [
        "SugarCrepe itm · macro accuracy",
        "SugarCrepe itm · accuracy · replace obj",
    ]
    skills = {place.group: place for place in view(board, BY_SKILL)}
    assert list(skills) == ["Object", "Attribute", "Relation", "Binding", "Order", "Paraphrase"]  # of docs/skills.md
    column, _, part = skills["Attribute"]
    assert part == "SugarCrepe, add att and replace att"
    swaps = [column._replace(category=category) for category in ("add_att", "replace_att")]
    values = [board.entry(swap, "NegCLIP", "published") for swap in swaps]
    mean = board.entry(column, "NegCLIP", "published")
    assert (mean.value, mean.n, mean.interval) == (sum(entry.value for entry in values) / 2, 692 + 788, None)
    sources = [values[0].source, values[1].source]
    assert mean.source == f"mean of add att and replace att, from {sources[0]}; {sources[1]}"
    assert skills["Relation"].column.category == "replace_rel"
    assert column not in board.categories(column.whole)
    assert skill_means(values[:1]) == []  # a model without one of the categories


def test_a_hundred_columns_of_others_stay_readable():
    foreign = [entry(f"m{row}", 0.5, BoardColumn(f"set {number}", "", "", "accuracy"), origin="published")
               for number in range(136) for row in range(1 + number % 3)]  # fmt: skip
    board = Board([*foreign, *many_models(3, 12)])
    names = view_names(board)
    assert names[-1] == OTHER
    assert not any(name.startswith("set") for name in names)
    assert len(view(board, OTHER)) == MOST_COLUMNS
    assert {board.count(place.column) for place in view(board, OTHER)} == {3}
    assert all(len(view(board, name)) <= MOST_COLUMNS for name in names)
