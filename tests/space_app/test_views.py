"""Which scores are shown together: what papers argue for, those of a benchmark, those of a skill."""

from __future__ import annotations

from space_support import many_models
from submission_support import MemoryStorage
from test_board import entry

from vl_assay.space_app.board.board import Board
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import BoardColumn, skill_means
from vl_assay.space_app.board.launch import published
from vl_assay.space_app.board.views import BY_SKILL, MOST_COLUMNS, OTHER, OVERVIEW, view, view_names


def headings(board, name):
    return [place.column.heading for place in view(board, name)]


def test_the_overview_opens_with_what_the_papers_argue_for():
    board = Catalogue(MemoryStorage()).board
    assert headings(board, OVERVIEW) == [
        "Hard Positives replace · augmented accuracy", "SugarCrepe itm · macro accuracy",
        "ARO relation · macro accuracy", "TRICD val · CPD AP", "Toy Scenes itm · accuracy",
    ]  # fmt: skip
    assert headings(board, "no such view") == headings(board, OVERVIEW)


def test_a_benchmark_shows_its_main_scores_and_their_categories_and_a_skill_one_number():
    values = published()
    board = Board([*values, *skill_means(values)])
    assert view_names(board)[:3] == ["SugarCrepe", "Hard Positives", "ARO"]
    assert view_names(board)[-3:-1] == [BY_SKILL, OVERVIEW]
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
