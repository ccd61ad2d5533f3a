"""Pairs from tables: files of several formats, folders of them, datasets on the Hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError
from ...core.benchmarks import benchmark_names
from ...core.image_keys import content_key
from .pairs import Pair
from .tables import HUB, SUFFIXES, Keyed, check_fields, choose_columns, column_names, hub_name, read_rows, row_id

# The first of these names that a table has is taken. Names come before images: they need not be read.
_GUESSES = {
    "positive": ("positive", "caption", "positive_caption", "true_caption"),
    "negative": (
        "negative",
        "negative_caption",
        "false_caption",
        "hard_negative",
        "negative_captions",
        "hard_negatives",
    ),
    "image": ("filename", "file_name", "image_path", "image_id", "image"),
    "category": ("category", "type", "kind", "relation_name"),
    "id": ("id",),
}
_NEEDED = ("positive", "negative")


def read_table(reference: str, columns: Mapping[str, str], options: Mapping[str, Any]) -> Iterator[Pair]:
    """The pairs of a file, of a folder of files or of a dataset on the Hub; arguments as for `pairs.read_pairs`."""
    check_fields("pairs", columns, Pair._fields)
    if reference.startswith("hf://"):
        yield from _hub_pairs(reference, columns, options)
        return
    path = Path(reference).expanduser()
    if options:
        raise DataError(f"{reference} is not built, so {', '.join(options)} mean nothing to it; leave the options out")
    for file in _files(path):
        yield from _pairs(str(file), file.stem, read_rows(file), columns, in_folder=path.is_dir())


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError(
            f"there is no benchmark, file or folder {str(path)!r}; name a benchmark ({', '.join(benchmark_names())}), "
            f"a file ({', '.join(SUFFIXES)}), a folder, or {HUB}OWNER/NAME"
        )
    found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not found:
        raise DataError(f"{path} holds no files of pairs; they end in {', '.join(SUFFIXES)}")
    return found


def _hub_pairs(reference: str, columns: Mapping[str, str], options: Mapping[str, Any]) -> Iterator[Pair]:
    import datasets

    from ...core.build import data_errors

    repo, config = hub_name(reference)
    with data_errors(reference):
        loaded = datasets.load_dataset(repo, config, **{"split": None, **options})
    if isinstance(loaded, datasets.DatasetDict):
        if len(loaded) > 1 and "test" not in loaded:
            splits = ", ".join(map(str, loaded))
            raise DataError(f"{reference} has the splits {splits}; choose one with --option split=NAME")
        loaded = loaded["test"] if "test" in loaded else next(iter(loaded.values()))
    for column, feature in loaded.features.items():
        if isinstance(feature, datasets.Image):
            loaded = loaded.cast_column(column, datasets.Image(decode=False))
    wanted = choose_columns(reference, loaded.column_names, columns, _GUESSES, _NEEDED)
    rows = loaded.select_columns(list(dict.fromkeys(wanted.values()))).to_list()
    keyed = [(str(number), row) for number, row in enumerate(rows)]
    yield from _pairs(reference, config or repo.partition("/")[2], keyed, columns, in_folder=False)


def _pairs(
    source: str, name: str, rows: Sequence[Keyed], columns: Mapping[str, str], *, in_folder: bool
) -> Iterator[Pair]:
    chosen = choose_columns(source, column_names(rows), columns, _GUESSES, _NEEDED)
    for key, row in rows:
        texts = {field: _texts(source, key, chosen[field], row) for field in _NEEDED}
        if len(texts["positive"]) > 1:
            raise DataError(f"{source}: row {key} has several captions in {chosen['positive']!r}; give each its row")
        id = f"{name}/{key}" if "id" not in chosen else row_id(source, key, row, chosen["id"])
        if in_folder and "id" in chosen and not id.startswith(f"{name}/"):
            id = f"{name}/{id}"
        image = _image(row.get(chosen["image"])) if "image" in chosen else ""
        category = row.get(chosen["category"]) if "category" in chosen else None
        category = name if category in (None, "") else str(category)
        for number, negative in enumerate(texts["negative"]):
            suffix = f"#{number}" if len(texts["negative"]) > 1 else ""
            yield Pair(id + suffix, image, texts["positive"][0], negative, category)


def _texts(source: str, key: str, column: str, row: Mapping[str, Any]) -> Sequence[str]:
    value = row.get(column)
    values: list[Any] = value if isinstance(value, list) and value else [value]
    for each in values:
        if not isinstance(each, str):
            raise DataError(
                f"{source}: row {key} has {each!r} in {column!r}, where a caption belongs; mend or remove it"
            )
    return values


def _image(value: Any) -> str:
    """The name of an image's file, or the key of its content."""
    if isinstance(value, Mapping):
        content = value.get("bytes")
        return content_key(content) if content else str(value.get("path") or "")
    return "" if value is None else str(value)
