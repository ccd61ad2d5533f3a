"""Pairs of a positive caption and a hard negative: reading them from benchmarks and tables, and writing them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....metrics.common.errors import DataError
from ....metrics.common.storage import with_home
from ...core.benchmarks import Task, adopt, benchmark_names
from ...core.repository import BUILD_FILE
from .made import image_file, relative_image
from .tables import SourceTable, check_rows, read_tables, write_rows

if TYPE_CHECKING:
    from ...core.examples import TaskData


class Pair(NamedTuple):
    """A positive caption, as released, and a hard negative, with a unique id and the category of what it tests.

    `image` is the path of the image's file, the key of its content or another name of it; "" if it is unknown.
    """

    id: str
    image: str
    positive: str
    negative: str
    category: str


def read_pairs(
    reference: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[Pair]:
    """Read the pairs of a dataset, one for each negative of a row.

    Args:
        reference: a benchmark or a part of one (``"sugarcrepe"``, ``"sugarcrepe/swap_obj"``, ``"toy_scenes/itm"``), or
            a folder that ``vl-assay build`` wrote; or tables of `tables.read_tables`, such as SugarCrepe's files.
        columns: the columns `positive`, `negative`, `image`, `category` and `id` of a file or Hub dataset, such as
            ``{"positive": "caption"}``; common names are found without (``tables.COLUMNS``).
        data_dir: the user's copy of a benchmark's sources, see its card.
        options: fields of the configuration of a benchmark's builder; of a Hub dataset ``{"split": "test"}``.

    Returns:
        At least one pair, in the order of the source. Without a column of categories the category is the name of the
        file or configuration; without one of ids an id is that name, ``/`` and the row's key or number from 0. In a
        benchmark with several tasks of pairs, ids and categories start with the task. For several pairs of a row ``#``
        and a number from 0 are added to its id.

    Raises:
        UnknownNameError: no such benchmark or part of one, or an unknown name in `columns`.
        DataError: there are no pairs, a column is missing, or an id or a caption is missing, repeated or not text; the
            message names the rows.

    Warns:
        UserWarning: tasks of a whole benchmark that have no pairs and are left out.
    """
    text = adopt(str(reference))
    if text.partition("/")[0] in benchmark_names() or (with_home(text) / BUILD_FILE).is_file():
        if columns:
            raise DataError(f"{text} is a benchmark, whose columns are known; leave out --column {', '.join(columns)}")
        pairs = list(_benchmark_pairs(text, data_dir, options))
    else:
        tables = read_tables(text, Pair._fields, ("positive", "negative"), columns or {}, options=options)
        in_folder = len(tables) > 1 or (with_home(text).is_dir() and not tables[0].is_made)
        pairs = [pair for table in tables for pair in _table_pairs(table, in_folder=in_folder)]
    check_rows(text, pairs)
    return pairs


def pair_places(task: Task, example: str, captions: int, *, prefixed: bool) -> Iterator[tuple[str, int, int]]:
    """Yield the id of each pair of a row, and the indices of its positive caption and its negative.

    Args:
        task: a task for which `has_pairs` holds.
        example: the row's id.
        captions: how many captions it has.
        prefixed: whether ids start with the task, as in a benchmark with several tasks of pairs.
    """
    true_ones = task.positives or captions
    cells = [(right, wrong) for right in range(true_ones) for wrong in range(true_ones, captions)]
    for number, (right, wrong) in enumerate(cells):
        suffix = f"#{number}" if len(cells) > 1 else ""
        yield (f"{task.name}/" if prefixed else "") + example + suffix, right, wrong


def has_pairs(task: Task) -> bool:
    """Return whether the rows of a task have one image, positive captions and negatives."""
    return len(task.images) == 1 and task.positives is not None and task.positives < len(task.captions)


def write_pairs(pairs: Sequence[Pair], path: Path) -> None:
    """Write pairs as JSON lines, atomically, for `read_pairs`; raises `StorageError`.

    Images that are files are named relative to the folder of the table.
    """
    write_rows((pair._replace(image=relative_image(pair.image, path.parent)) for pair in pairs), path)


def _benchmark_pairs(reference: str, data_dir: str | Path | None, options: Mapping[str, Any] | None) -> Iterator[Pair]:
    from ...core.examples import load_examples

    tasks = load_examples(reference, data_dir=data_dir, options=options, needs_images=False)
    usable = [data for data in tasks if has_pairs(data.task)]
    without_pairs = ", ".join(data.task.name for data in tasks if not has_pairs(data.task))
    if not usable:
        raise DataError(
            f"{reference} has no pairs of a caption and a hard negative of one image; what it asks ({without_pairs}) "
            "cannot be answered from one caption alone"
        )
    if without_pairs:
        warnings.warn(f"{reference}: left out, as they have no pairs: {without_pairs}", UserWarning, stacklevel=3)
    for data in usable:
        yield from task_pairs(data, prefixed=len(usable) > 1)


def task_pairs(data: TaskData, *, prefixed: bool = False) -> Iterator[Pair]:
    """Yield the pairs of the examples of a task; see `read_pairs` for `prefixed` ids and categories."""
    prefix = f"{data.task.name}/" if prefixed else ""
    for example in data.examples:
        category = example.category if example.category == data.task.name else prefix + example.category
        image = example.cluster or example.images[0].removeprefix("file:")
        for id, right, wrong in pair_places(data.task, example.id, len(example.captions), prefixed=prefixed):
            yield Pair(id, image, example.captions[right], example.captions[wrong], category)


def _table_pairs(table: SourceTable, *, in_folder: bool) -> Iterator[Pair]:
    for key, row in table.rows:
        positives, negatives = table.texts(key, row, "positive"), table.texts(key, row, "negative")
        if len(positives) != 1:
            raise DataError(
                f"{table.source}: row {key} has several captions in {table.columns['positive']!r}; expected one"
            )
        id = table.id(key, row)
        if id is None or (in_folder and not id.startswith(f"{table.name}/")):
            id = f"{table.name}/{key if id is None else id}"
        category = table.value(row, "category")
        category = table.name if category in (None, "") else str(category)
        for number, negative in enumerate(negatives):
            suffix = f"#{number}" if len(negatives) > 1 else ""
            yield Pair(id + suffix, image_file(table.image(row), table.folder), positives[0], negative, category)
