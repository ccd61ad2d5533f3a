"""Captions and their images, from which candidates are made: files, folders of images, benchmarks, the Hub."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_atomically
from ...core.benchmarks import benchmark_names
from ...core.build import BUILD_FILE, data_errors
from ...core.image_keys import content_key
from .tables import (
    HUB,
    check_fields,
    check_unicode,
    choose_columns,
    column_names,
    find_table,
    hub_name,
    read_rows,
    row_id,
)

# The first of these names that a table has is taken.
_GUESSES = {
    "caption": ("caption", "text", "positive", "positive_caption", "true_caption", "sentence", "captions"),
    "image": ("file_name", "filename", "image_path", "image", "image_id"),
    "id": ("id",),
}


class Captioned(NamedTuple):
    """A caption that is true of an image.

    Attributes:
        id: different for each caption.
        image: the path or URL of the image's file where it is known, else what tells it from others; "" for nothing.
        caption: the text, as it came.
    """

    id: str
    image: str
    caption: str


def read_captions(
    reference: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    split: str | None = None,
    limit: int | None = None,
    images: str | Path | None = None,
    data_dir: str | Path | None = None,
) -> list[Captioned]:
    """The captions of a source.

    Args:
        reference: a file (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, or ``.json``: a list of rows, or an object of
            rows by key); a folder of images with ``metadata.csv``, ``metadata.jsonl`` or ``metadata.parquet``, whose
            columns are `file_name` and `caption` or `text`; a benchmark, a part of one or a folder that ``vl-assay
            build`` wrote, of which the true captions are taken; or ``"hf://datasets/owner/name"``, with ``/config``
            behind where it has several.
        columns: which column is our `caption`, `image` and `id`, such as ``{"caption": "title"}``; common names are
            found without. A column may hold lists of captions.
        split: of a dataset on the Hub; by default ``test`` where there is one, else the first.
        limit: how many captions to read at most, from the first on.
        images: a folder to which a copy of each image's file is written, under the key of its content; the captions
            then name these copies. Without it no image is read.
        data_dir: the user's own copy of a benchmark's sources.

    Returns:
        At least one caption, in the order of the source. Without a column of ids, the number or the key of the row is
        the id, with ``#`` and a number from 0 behind for each of several captions.

    Raises:
        UnknownNameError: a name in `columns` that is not ours.
        DataError: nothing is there, a column is missing, a caption is empty or no text, an id comes twice, or an image
            that is wanted is not there or no image.
    """
    columns = dict(columns or {})
    check_fields("captions", columns, _GUESSES)
    text = str(reference)
    keep = None if images is None else Path(images)
    if text.startswith(HUB):
        found = _hub_captions(text, columns, split, keep)
    elif text.partition("/")[0] in benchmark_names() or (Path(text).expanduser() / BUILD_FILE).is_file():
        found = _benchmark_captions(text, data_dir, keep)
    else:
        found = _file_captions(Path(text).expanduser(), columns, keep)
    return _check(text, list(itertools.islice(found, limit)))


def _check(reference: str, found: list[Captioned]) -> list[Captioned]:
    if not found:
        raise DataError(f"{reference} has no captions: no rows came")
    check_unicode(reference, found)
    twice = [id for id, times in Counter(each.id for each in found).items() if times > 1]
    if twice:
        raise DataError(
            f"{reference}: the id {twice[0]!r} comes more than once; make ids different, or name another column with "
            "--column id=NAME"
        )
    return found


def _file_captions(path: Path, columns: Mapping[str, str], keep: Path | None) -> Iterator[Captioned]:
    path = find_table(path)
    rows = read_rows(path)
    chosen = choose_columns(str(path), column_names(rows), columns, _GUESSES, ("caption",)) if rows else {}
    for key, row in rows:
        name = str(row.get(chosen.get("image", "")) or "")
        is_file = bool(name) and "://" not in name
        place = str(path.parent / name) if is_file else name
        image = _keep_file(place, keep) if keep and is_file else place
        yield from _captions(str(path), key, row, chosen, image)


def _captions(
    source: str, key: str, row: Mapping[str, Any], chosen: Mapping[str, str], image: str
) -> Iterator[Captioned]:
    value = row.get(chosen["caption"])
    values = value if isinstance(value, list) else [value]
    id = row_id(source, key, row, chosen["id"]) if "id" in chosen else key
    for number, caption in enumerate(values):
        if not isinstance(caption, str) or not caption.strip():
            raise DataError(f"{source}: row {key} has {caption!r} where a caption belongs; mend or remove it")
        yield Captioned(f"{id}#{number}" if len(values) > 1 else id, image, caption)


def _hub_captions(
    reference: str, columns: Mapping[str, str], split: str | None, keep: Path | None
) -> Iterator[Captioned]:
    import datasets

    repo, config = hub_name(reference)
    with data_errors(reference):
        # As a stream, so that a limit also limits what is downloaded.
        loaded: Any = datasets.load_dataset(repo, config, split=split, streaming=True)
        if isinstance(loaded, dict):
            loaded = loaded["test"] if "test" in loaded else next(iter(loaded.values()))
        chosen = choose_columns(reference, loaded.column_names, columns, _GUESSES, ("caption",))
        pictures = {column for column, feature in loaded.features.items() if isinstance(feature, datasets.Image)}
        dropped = pictures - ({chosen.get("image")} if keep else set())
        loaded = loaded.remove_columns(sorted(dropped))
        for column in pictures - dropped:
            loaded = loaded.cast_column(column, datasets.Image(decode=False))
        for key, row in enumerate(loaded):
            picture = row.get(chosen.get("image", ""))
            image = _keep_picture(reference, key, picture, keep) if keep and isinstance(picture, Mapping) else picture
            yield from _captions(reference, str(key), row, chosen, str(image or ""))


def _benchmark_captions(reference: str, data_dir: str | Path | None, keep: Path | None) -> Iterator[Captioned]:
    from ...core.examples import load_examples

    found = load_examples(reference, kinds=("matching", "retrieval"), data_dir=data_dir, needs_images=keep is not None)
    usable = [data for data in found if len(data.task.images) == 1]
    if not usable:
        raise DataError(f"{reference} has no captions that are each true of one image; name another part of it")
    seen: set[tuple[str, str]] = set()
    for data in usable:
        # Columns of negatives say so by their names; a retrieval task has true captions only, in one column.
        true_ones = sum("neg" not in column for column in data.task.captions) * (data.task.kind == "matching")
        for example in data.examples:
            key = example.images[0]
            image = data.image_names.get(key, key.removeprefix("file:"))
            if keep and key:
                image = str(_keep_bytes(data.image_bytes(key), image, keep))
            for number, caption in enumerate(example.captions[: true_ones or None]):
                if (key, caption) not in seen:
                    seen.add((key, caption))
                    yield Captioned(f"{data.task.name}/{example.id}" + (f"#{number}" if number else ""), image, caption)


def _keep_file(path: str, folder: Path) -> str:
    try:
        return str(_keep_bytes(Path(path).read_bytes(), path, folder))
    except OSError as error:
        raise DataError(f"the image {path} cannot be read: {error.strerror or error}") from error


def _keep_picture(reference: str, key: int, picture: Mapping[str, Any], folder: Path) -> str:
    import fsspec

    path, content = str(picture.get("path") or ""), picture.get("bytes")
    if content is None and path:  # a file of a folder of images, on the Hub or in an archive there
        with fsspec.open(path, "rb") as file:
            content = file.read()  # pyright: ignore[reportAttributeAccessIssue]
    if content is None:
        raise DataError(f"{reference}: row {key} has no image; leave out --images, or mend the dataset")
    return str(_keep_bytes(content, path or ".png", folder))


def _keep_bytes(content: bytes, name: str, folder: Path) -> Path:
    """The file of an image in the folder, written unless it is there; what is no image is not passed on."""
    from PIL import Image

    try:
        Image.open(io.BytesIO(content)).close()
    except (OSError, Image.DecompressionBombError) as error:
        raise DataError(f"{name} is no image that can be read; mend the row that names it") from error
    path = folder / (content_key(content) + Path(name).suffix.lower())
    if not path.exists():
        write_atomically(path, content)
    return path
