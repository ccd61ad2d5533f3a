"""Which scores are shown together: what papers argue for, those of a benchmark, those of a skill."""

from __future__ import annotations

import pytest
from space_support import many_models
from submission_support import MemoryStorage
from test_board import entry

from vl_assay.hub_datasets.core.benchmarks import benchmark_names, get_task, main_scores
from vl_assay.metrics.modules.discovery import get_spec
from vl_assay.space_app.board.board import Board
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import BoardColumn
from vl_assay.space_app.board.launch import published
from vl_assay.space_app.board.views import BY_SKILL, MOST_COLUMNS, OTHER, OVERVIEW, view, view_names


@pytest.mark.parametrize("benchmark", benchmark_names())
def test_every_benchmark_has_main_scores_of_its_tasks_and_metrics(benchmark):
    for task, metric, score in main_scores(benchmark):
        assert metric in get_task(benchmark, task).metrics
        assert get_spec(metric).score(score) is not None


def headings(board, name):
    return [place.column.heading for place in view(board, name)]


def test_the_overview_opens_with_what_the_papers_argue_for():
    board = Catalogue(MemoryStorage()).board
    assert headings(board, OVERVIEW) == [
        "Hard Positives replace · augmented accuracy", "Hard Positives replace · brittleness ↓",
        "Hard Positives swap · augmented accuracy", "Hard Positives swap · brittleness ↓",
        "SugarCrepe itm · macro accuracy", "ARO relation · macro accuracy", "ARO coco order · accuracy",
        "TRICD val · CPD AP", "Toy Scenes itm · accuracy",
    ]  # fmt: skip
    assert headings(board, "no such view") == headings(board, OVERVIEW)


def test_a_benchmark_shows_its_main_scores_and_their_categories_and_a_skill_those_of_all_benchmarks():
    board = Board(published())
    assert view_names(board)[:3] == [OVERVIEW, "Hard Positives", "SugarCrepe"]
    assert headings(board, "SugarCrepe")[:2] == [
        "SugarCrepe itm · macro accuracy",
        "SugarCrepe itm · accuracy · replace obj",
    ]
    skills = {}
    for place in view(board, BY_SKILL):
        skills.setdefault(place.group, []).append(place.column)
    assert list(skills) == [
        "Object",
        "Attribute",
        "Relation",
        "Binding",
        "Order",
        "Paraphrase",
    ]  # those of docs/skills.md
    assert [column.category for column in skills["Attribute"]] == ["replace_att", "add_att"]
    assert [(column.benchmark, column.category) for column in skills["Binding"]] == [
        ("sugarcrepe", "swap_obj"), ("sugarcrepe", "swap_att"),
    ]  # fmt: skip
    every = view(board, BY_SKILL, most=None)
    assert {place.column.task for place in every if place.group == "Binding"} >= {"relation", "attribution"}


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
