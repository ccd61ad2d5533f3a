"""Captions and their images, from which candidates are made: files, folders of images, benchmarks, the Hub."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError
from ....metrics.common.storage import with_home, write_atomically
from ...core.benchmarks import adopt, benchmark_names
from ...core.image_keys import content_key
from ...core.images import DECODING_ERRORS, open_checked
from ...core.repository import BUILD_FILE
from .tables import SourceTable, check_rows, read_tables

_FIELDS = ("caption", "image", "id")


class Captioned(NamedTuple):
    """A positive caption, as released, and its image: path or URL of the file, else another name; "" for none."""

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
    """Read the captions of a source.

    Args:
        reference: a table of `tables.read_tables`; or a benchmark, a part of one or a folder that ``vl-assay build``
            wrote, of which the positive captions are taken.
        columns: the columns `caption`, `image` and `id`, such as ``{"caption": "title"}``; common names are found
            without (``tables.COLUMNS``). A column may hold lists of captions.
        split: of a dataset on the Hub; by default ``test`` if it exists, else the first.
        limit: how many captions to read at most, from the first on.
        images: a folder for copies of the images' files, named by the keys of their content; the captions then have
            the paths of the copies. Without it no image is read.
        data_dir: the user's copy of a benchmark's sources.

    Returns:
        At least one caption, in the order of the source. Without a column of ids, the number or the key of the row is
        the id, with ``#`` and a number from 0 behind for each of several captions.

    Raises:
        UnknownNameError: an unknown name in `columns`.
        DataError: there are no captions, a column is missing, a caption is empty or not text, an id comes twice, or an
            image cannot be read.
    """
    text = adopt(str(reference))
    keep = None if images is None else Path(images)
    if text.partition("/")[0] in benchmark_names() or (with_home(text) / BUILD_FILE).is_file():
        stream = _benchmark_captions(text, data_dir, keep)
    else:
        options = {} if split is None else {"split": split}
        pictures = "first" if keep else "skip"
        tables = read_tables(text, _FIELDS, ("caption",), columns or {}, pictures=pictures, options=options)
        stream = (caption for table in tables for caption in _table_captions(table, keep, in_folder=len(tables) > 1))
        if tables[0].is_made:  # one row for each candidate of a caption
            rows: dict[tuple[str, str], Captioned] = {}
            for row in stream:
                rows.setdefault((row.image, row.caption), row)
            stream = iter(rows.values())
    captions = list(itertools.islice(stream, limit))
    check_rows(text, captions)
    return captions


def _table_captions(table: SourceTable, keep: Path | None, *, in_folder: bool) -> Iterator[Captioned]:
    for key, row in table.rows:
        captions = table.texts(key, row, "caption")
        id = table.id(key, row) or (f"{table.name}/{key}" if in_folder else key)
        picture, image = table.value(row, "image"), table.image(row)
        if keep and isinstance(picture, Mapping):
            image = _keep_picture(table.source, key, picture, keep)
        elif image and table.folder is not None and "://" not in image:
            image = str(table.folder / image)
            if keep:
                try:
                    content = Path(image).read_bytes()
                except OSError as error:
                    raise DataError(
                        f"the image {image} cannot be read: {error.strerror or error}; correct its row, or use "
                        "captions alone, with `images: false` in --config"
                    ) from error
                image = keep_image(content, image, keep)
        for number, caption in enumerate(captions):
            yield Captioned(f"{id}#{number}" if len(captions) > 1 else id, image, caption)


def _benchmark_captions(reference: str, data_dir: str | Path | None, keep: Path | None) -> Iterator[Captioned]:
    from ...core.examples import load_examples

    types = ("matching", "retrieval")
    tasks = load_examples(reference, task_types=types, data_dir=data_dir, needs_images=keep is not None)
    usable = [data for data in tasks if len(data.task.images) == 1]
    if not usable:
        raise DataError(f"{reference} has no captions of one image each; name another part of it")
    yielded: set[tuple[str, str]] = set()
    for data in usable:
        # A retrieval task has only positive captions.
        positives = data.task.positives
        for example in data.examples:
            key = example.images[0]
            image = data.image_names.get(key, key.removeprefix("file:"))
            if keep and key:
                image = keep_image(data.image_bytes(key), image, keep)
            for number, caption in enumerate(example.captions[:positives]):
                if (key, caption) not in yielded:
                    yielded.add((key, caption))
                    yield Captioned(f"{data.task.name}/{example.id}" + (f"#{number}" if number else ""), image, caption)


def _keep_picture(reference: str, key: str, picture: Mapping[str, Any], folder: Path) -> str:
    import fsspec

    path, content = str(picture.get("path") or ""), picture.get("bytes")
    if content is None and path:  # a file of a folder of images, on the Hub or in an archive there
        with fsspec.open(path, "rb") as file:
            content = file.read()  # pyright: ignore[reportAttributeAccessIssue]
    if content is None:
        raise DataError(f"{reference}: row {key} has no image; correct the dataset, or set `images: false` in --config")
    return keep_image(content, path or f"row {key}", folder)


def keep_image(content: bytes, name: str, folder: Path) -> str:
    """Copy an image to a folder under the key of its content, with the suffix of its name or ``.png``; return its path.

    Raises:
        DataError: it cannot be decoded; `name` is in the message.
    """
    try:
        open_checked(content).close()
    except DECODING_ERRORS as error:
        raise DataError(f"{name} is not a readable image ({error}); correct the row that names it") from error
    path = folder / (content_key(content) + (Path(name).suffix.lower() or ".png"))
    if not path.exists():
        write_atomically(path, content)
    return str(path)
