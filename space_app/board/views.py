"""The views of the board: the overview, the scores of a benchmark, and the scores of each skill over all benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...hub_datasets.core.benchmarks import SKILLS, benchmark_names, get_benchmark, get_task, main_scores
from ...metrics.common.formatting import words
from ...metrics.modules.discovery import get_spec
from .board import Board
from .entries import SKILL, BoardColumn, benchmark_title, categories_of_skill

OVERVIEW, BY_SKILL, OTHER = "Overview", "By skill", "Other"
# The view that the page opens with: most models of the papers have these scores.
START = "SugarCrepe"
# As many columns as can be read; all others can be chosen.
MOST_COLUMNS = 14
# A column of the overview has at least one fifth of the models of its fullest column.
_SHARE_OF_MODELS = 5


class Place(NamedTuple):
    """A column in a view, with the heading of its group and an addition to the name of the score."""

    column: BoardColumn
    group: str
    part: str


def view_names(board: Board) -> list[str]:
    """Return the views that have values: benchmarks by number of models, the skills, the overview and the rest."""
    known = [benchmark for benchmark in _by_models(board) if benchmark in benchmark_names()]
    titles = sorted(map(benchmark_title, known), key=lambda title: title != START)
    other_view = [OTHER] if len(known) < len(_by_models(board)) else []
    skills = [BY_SKILL] if _of_skills(board) else []
    return [*titles, *skills, OVERVIEW, *other_view]


def view(board: Board, name: str) -> list[Place]:
    """Return the columns of a view, one of `view_names`; an unknown name gives the overview."""
    if name == BY_SKILL:
        return _of_skills(board)
    if name == OTHER:
        unknown = [column for column in board.columns if column.benchmark not in benchmark_names()]
        return places(sorted(unknown, key=lambda column: -board.count(column))[:MOST_COLUMNS])
    benchmark = next((known_name for known_name in benchmark_names() if benchmark_title(known_name) == name), None)
    if benchmark is None:
        return _overview(board)[:MOST_COLUMNS]
    return _of_benchmark(board, benchmark)


def main_places(board: Board) -> list[Place]:
    """Return the main scores of all benchmarks, those with the most models first."""
    mains = _mains(board)
    return places(column for benchmark in _by_models(board) for column in mains.get(benchmark, ()))


def _overview(board: Board) -> list[Place]:
    """Return the first main score of each benchmark that many models have, or that was recomputed."""
    main = [*{place.column.benchmark: place for place in reversed(main_places(board))}.values()][::-1]
    fewest = max((board.count(place.column) for place in main), default=0) / _SHARE_OF_MODELS
    return [place for place in main if board.count(place.column) >= fewest or board.recomputed(place.column)]


def places(columns: Iterable[BoardColumn]) -> list[Place]:
    """Group columns by their benchmarks, in the order of each benchmark's first column."""
    groups: dict[str, list[Place]] = {}
    for column in columns:
        heading = ", ".join(filter(None, (_task_name(column), words(column.category))))
        groups.setdefault(column.benchmark, []).append(Place(column, benchmark_title(column.benchmark), heading))
    return [place for group in groups.values() for place in group]


def _by_models(board: Board) -> list[str]:
    """Return the benchmarks with values, those with the most rows in one column first."""
    most: dict[str, int] = {}
    for column in board.columns:
        most[column.benchmark] = max(most.get(column.benchmark, 0), board.count(column))
    return sorted(most, key=lambda benchmark: -most[benchmark])


def _mains(board: Board) -> dict[str, list[BoardColumn]]:
    """Return the board's columns of the main scores of each benchmark; of a pattern, the first that matches."""
    columns = board.columns
    main_columns: dict[str, list[BoardColumn]] = {}
    for benchmark in benchmark_names():
        for task, metric, score in main_scores(benchmark):
            spec = get_spec(metric).score(score)
            task_columns = [column for column in columns if column[:3] == (benchmark, task, metric)]
            exact = [column for column in task_columns if column.score == score]
            matching = [column for column in task_columns if spec is not None and spec.is_of(column.score)]
            main_columns.setdefault(benchmark, []).extend((exact or matching)[:1])
    return main_columns


def _of_benchmark(board: Board, benchmark: str) -> list[Place]:
    """Return the main scores, with their categories if these are few; then all other scores over whole tasks."""
    columns = [column for column in board.columns if column.benchmark == benchmark]
    mains = _mains(board)[benchmark]
    categories = [
        category for column in mains for category in _few(board.categories(column), MOST_COLUMNS - len(mains))
    ]
    shown = [*mains, *_few(categories, MOST_COLUMNS - len(mains))]
    # A mean over categories adds little to the score itself, unless that is what the paper prints.
    further = [
        column for column in columns if column not in shown and (column == column.whole or column.whole not in columns)
    ]
    shown_columns = [*shown, *further][:MOST_COLUMNS]
    order = {task: number for number, task in enumerate(dict.fromkeys(column.task for column in shown_columns))}
    ordered = sorted(shown_columns, key=lambda column: order[column.task])
    title = benchmark_title(benchmark)
    return [Place(column, f"{title} {words(column.task)}", words(column.category)) for column in ordered]


def _of_skills(board: Board) -> list[Place]:
    """Return a column for each declared skill (``Task.skills``): the main score that most models have.

    The column is a task that tests only this skill, or the mean over the categories of a task that test it.
    """
    skills: dict[str, list[BoardColumn]] = {}
    for main in (column for columns in _mains(board).values() for column in columns):
        task = get_task(main.benchmark, main.task)
        if isinstance(task.skills, str):
            skills.setdefault(task.skills, []).append(main)
            continue
        for column in board.categories(main):
            if skill := task.skill_of(column.category):
                mean = column._replace(category=SKILL + skill)
                skills.setdefault(skill, []).append(mean if board.count(mean) else column)
    fullest = {skill: max(skills[skill], key=board.count) for skill in SKILLS if skill in skills}
    return [
        Place(
            column,
            skill.capitalize(),
            f"{benchmark_title(column.benchmark)}, {_skill_part(column)}",
        )
        for skill, column in fullest.items()
    ]


def _skill_part(column: BoardColumn) -> str:
    """Return the categories of a column of `_of_skills`, or its task."""
    if column.category.startswith(SKILL):
        return " and ".join(map(words, categories_of_skill(column)))
    return words(column.category or column.task)


def _task_name(column: BoardColumn) -> str:
    """Return the task in words; empty if its benchmark has no other by default."""
    if column.benchmark in benchmark_names():
        tasks = [task.name for task in get_benchmark(column.benchmark).tasks if task.by_default]
        if tasks == [column.task]:
            return ""
    return words(column.task)


def _few(columns: Sequence[BoardColumn], most: int) -> Sequence[BoardColumn]:
    return columns if len(columns) <= most else ()
