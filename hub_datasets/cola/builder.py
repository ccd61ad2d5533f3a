"""Cola's multi-object matching test (Ray et al., NeurIPS 2023 Datasets and Benchmarks) as a `datasets` builder.

A row is a group of two images of Visual Genome and two captions, each caption true of its own image only. The
text is exactly as released. Cola's single-object test is not part of this dataset.

The module imports only the standard library and `datasets`, one import a line, so that `datasets` up to 3.6
can run it as a script and any later version can import the class.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import ClassVar
from typing import TypeVar

import datasets

CONFIG_NAMES = ("multiobjects",)

_VERSION = "1.0.0"
# The default branch: the checksum below pins the content.
_REPOSITORY_URL = "https://raw.githubusercontent.com/arijitray1993/COLA/HEAD"
_ANNOTATIONS = "data/COLA_multiobjects_matching_benchmark.json"
_CHECKSUM = "e2846dcc958e3277813ca572bce53db96fd5dd65caaa57ccd20dc1ce51d73ec0"
# The authors' folder, and those of Visual Genome, whose images have the same names.
_IMAGE_FOLDERS = ("images", "vg_gqa_images", "VG_100K", "VG_100K_2")
_IMAGE_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG")
_GONE = (404, 410)
_FIELDS = ("url_0", "caption_0", "url_1", "caption_1")
_ROW_SHAPE = "a list of four texts: URL of image 1, caption 1, URL of image 2, caption 2"
_NAMES_SHOWN = 5
_OWN_ANNOTATIONS = f"pass data_dir, a folder that holds {_ANNOTATIONS}"
_OWN_IMAGES = "pass data_dir, a folder that holds images/ with the files named in the annotations, or with_images=False"
_Row = dict[str, str]
_Result = TypeVar("_Result")


@dataclass
class ColaConfig(datasets.BuilderConfig):
    """How strict to be about the user's own files in `data_dir`.

    | field           | True                                        | False                                  |
    |-----------------|---------------------------------------------|----------------------------------------|
    | `with_images`   | columns `image_0`, `image_1`, bytes as found | neither column, no image looked for   |
    | `allow_missing` | an image that is missing is None            | a missing image is an error            |
    | `verify`        | a local annotation file must match its sum  | any well-formed local file is accepted |

    A downloaded annotation file must match its sum whatever `verify` says.
    """

    with_images: bool = True
    allow_missing: bool = False
    verify: bool = True


class Cola(datasets.GeneratorBasedBuilder):
    """One config, `multiobjects`, with one split `test`; see `ColaConfig` for the options.

    `data_dir` is the user's own copy, looked up in this order:

    - annotations: `data/COLA_multiobjects_matching_benchmark.json`, then the same file beside the images; otherwise
      it is downloaded and checked against the released file;
    - images by file name, such as `2390970.jpg`: in `images/`, `vg_gqa_images/`, `VG_100K/`, `VG_100K_2/`, then in
      `data_dir` itself; where it has neither such a folder nor a single one of the images, they are downloaded one by
      one from the URLs in the annotations.

    A row has `id` (config name, "/", the row's place in the released file, from 0), `image_0`, `filename_0`,
    `caption_0`, `image_1`, `filename_1` and `caption_1`.

    Everything is checked before the first row is written; only when streaming are the images fetched as the rows go
    by. Raises FileNotFoundError for a `data_dir` that is not a folder and for missing or empty images, ValueError for
    a wrong checksum, a malformed annotation file or a download that is no image, ConnectionError for a failed download.
    """

    config: ColaConfig
    BUILDER_CONFIG_CLASS = ColaConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        ColaConfig(name=name, version=datasets.Version(_VERSION), description=f"Cola {name}") for name in CONFIG_NAMES
    ]

    def _info(self) -> datasets.DatasetInfo:
        text = datasets.Value("string")
        columns: dict[str, Any] = {"id": text}
        for side in "01":
            if self.config.with_images:
                columns[f"image_{side}"] = datasets.Image()
            columns |= {f"filename_{side}": text, f"caption_{side}": text}
        return datasets.DatasetInfo(features=datasets.Features(columns))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        data_dir = _existing_folder(self.config.data_dir)
        rows = self._annotations(dl_manager, data_dir)
        images = self._images(dl_manager, data_dir, rows) if self.config.with_images else None
        return [datasets.SplitGenerator(name="test", gen_kwargs={"rows": rows, "images": images})]

    def _generate_examples(
        self, rows: dict[str, _Row], images: dict[str, str | None] | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (id, row). `images` maps a URL to the image's path, None where missing; None for no columns."""
        for key, row in rows.items():
            example: dict[str, Any] = {"id": key}
            for side in "01":
                url = row[f"url_{side}"]
                if images is not None:
                    path = images[url]
                    example[f"image_{side}"] = {"path": _file_name(url), "bytes": _read(Path(path))} if path else None
                example[f"filename_{side}"] = _file_name(url)
                example[f"caption_{side}"] = row[f"caption_{side}"]
            yield key, example

    def _annotations(self, dl_manager: datasets.DownloadManager, data_dir: Path | None) -> dict[str, _Row]:
        """Return the rows by their id, in the order of the annotation file: the user's own, or a checked download."""
        path = _local_annotations(data_dir)
        if path is not None:
            payload = _read(path)
            if self.config.verify:
                remedy = "It is damaged or of another release: replace it, or pass verify=False to accept it."
                _check_sum(payload, str(path), remedy)
            return _parse_rows(payload, str(path))
        url = f"{_REPOSITORY_URL}/{_ANNOTATIONS}"
        copy = _fetch(lambda source: str(dl_manager.download(source)), url, _OWN_ANNOTATIONS)
        payload = _fetch(lambda _: _read(Path(copy)), url, _OWN_ANNOTATIONS)
        remedy = f"It is damaged, or was changed at its source: remove {copy} and try again, or {_OWN_ANNOTATIONS}."
        _check_sum(payload, url, remedy)
        return _parse_rows(payload, url)

    def _images(
        self, dl_manager: datasets.DownloadManager, data_dir: Path | None, rows: dict[str, _Row]
    ) -> dict[str, str | None]:
        """Return the path of each image by its URL, None where it is missing and that is allowed."""
        folders = [] if data_dir is None else [*(data_dir / name for name in _IMAGE_FOLDERS), data_dir]
        urls = list(dict.fromkeys(row[field] for row in rows.values() for field in ("url_0", "url_1")))
        images = {url: _first_file(folder / _file_name(url) for folder in folders) for url in urls}
        is_local = any(images.values()) or any(folder.is_dir() for folder in folders[:-1])
        if not is_local:
            images = _download_images(dl_manager, urls)
        if not all(images.values()) and not self.config.allow_missing:
            raise FileNotFoundError(_describe_missing(rows, images, str(data_dir) if is_local else "their URLs"))
        return images


def _file_name(url: str) -> str:
    return url.rsplit("/", 1)[-1]


def _existing_folder(data_dir: str | None) -> Path | None:
    if not data_dir:
        return None
    folder = Path(data_dir).expanduser().absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"data_dir {folder} is not a folder. Leave it out to download the files.")
    return folder


def _local_annotations(data_dir: Path | None) -> Path | None:
    if data_dir is None:
        return None
    candidates = (data_dir / _ANNOTATIONS, data_dir / _file_name(_ANNOTATIONS))
    return next((path for path in candidates if path.is_file()), None)


def _fetch(action: Callable[[str], _Result], url: str, remedy: str) -> _Result:
    try:
        return action(url)
    except Exception as error:  # The HTTP libraries below raise errors without a common base class.
        reason = _reason(error)
        found = f"{type(reason).__name__}: {reason}"
        raise ConnectionError(f"Could not download {url} ({found}). Try again, or {remedy}.") from error


def _reason(error: BaseException) -> BaseException:
    # fsspec calls every failure of a request "not found", with what really happened as its cause.
    return error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ else error


def _read(path: Path) -> bytes:
    # Not `read_bytes`: `datasets` swaps Path for a class of its own, of which only `open` reads remote files.
    with path.open("rb") as file:
        return file.read()


def _check_sum(payload: bytes, source: str, remedy: str) -> None:
    found = hashlib.sha256(payload).hexdigest()
    if found != _CHECKSUM:
        raise ValueError(f"{source} has SHA-256 {found}, but {_ANNOTATIONS} as released has {_CHECKSUM}. {remedy}")


def _parse_rows(payload: bytes, source: str) -> dict[str, _Row]:
    """Parse an annotation file and check every row; ValueError names the file and the row, counted from 0.

    The rows come by their id in a dict: `datasets` would split a list among processes.
    """
    try:
        rows = json.loads(payload.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{source} is not valid JSON: {error}. Expected a list of rows.") from error
    if not isinstance(rows, list) or not rows:
        found = "an empty list" if rows == [] else f"{type(rows).__name__} at the top level"
        raise ValueError(f"{source} holds {found}. Expected a list of rows, each {_ROW_SHAPE}.")
    urls: dict[str, str] = {}
    for number, row in enumerate(rows):
        problem = _row_problem(row, urls)
        if problem:
            raise ValueError(f"{source}, row {number}: {problem}. Expected {_ROW_SHAPE}.")
    return {f"{CONFIG_NAMES[0]}/{number}": dict(zip(_FIELDS, row, strict=True)) for number, row in enumerate(rows)}


def _row_problem(row: object, urls: dict[str, str]) -> str | None:
    """Return what is wrong with a parsed row, None if nothing is; `urls`, by file name, grows by its images."""
    if not isinstance(row, list) or len(row) != len(_FIELDS):
        found = f"a list of {len(row)}" if isinstance(row, list) else type(row).__name__
        return f"found {found} instead of a row"
    for field, value in zip(_FIELDS, row, strict=True):
        if not isinstance(value, str) or not value.strip():
            return f"{field} is {'empty' if isinstance(value, str) else type(value).__name__}, not text"
        if field.startswith("url"):
            name = _file_name(value)
            if not value.startswith(("https://", "http://")) or name in ("", ".", "..") or "\\" in name:
                return f"{field} {value!r} is not the http(s) URL of a file"
            if urls.setdefault(name, value) != value:
                return f"{field} {value!r} and {urls[name]!r} have the same file name"
    return None


def _first_file(places: Iterable[Path]) -> str | None:
    """Return the first of the paths where a file lies that is not empty (an interrupted copy is)."""
    return next((str(path) for path in places if path.is_file() and path.stat().st_size), None)


def _download_images(dl_manager: datasets.DownloadManager, urls: list[str]) -> dict[str, str | None]:
    """Return each image's path in the cache by its URL, None where the server says that there is no such file."""
    images: dict[str, str | None]
    try:
        images = dict(zip(urls, map(str, dl_manager.download(urls)), strict=True))
    except Exception:  # One by one, to tell which: what has arrived is in the cache.
        images = {}
        for url in urls:
            images[url] = _fetch(lambda source: _download_unless_gone(dl_manager, source), url, _OWN_IMAGES)
    if not dl_manager.is_streaming:
        for url, path in images.items():
            if path is not None:
                _check_download(url, path)
    return images


def _download_unless_gone(dl_manager: datasets.DownloadManager, url: str) -> str | None:
    try:
        return str(dl_manager.download(url))
    except FileNotFoundError as error:
        reason = _reason(error)
        if isinstance(reason, FileNotFoundError) or getattr(reason, "status", None) in _GONE:
            return None
        raise


def _check_download(url: str, path: str) -> None:
    with Path(path).open("rb") as file:
        start = file.read(16)
    if not start.startswith(_IMAGE_SIGNATURES):
        raise ValueError(
            f"What {url} sent is no JPEG or PNG file, it starts with {start!r}. Remove {path} and try again, or "
            f"{_OWN_IMAGES}."
        )


def _describe_missing(rows: dict[str, _Row], images: dict[str, str | None], source: str) -> str:
    by_name = {_file_name(url): path for url, path in images.items()}
    missing = sum(path is None for path in images.values())
    shown = _missing(by_name, ((_file_name(row[url]), key) for key, row in rows.items() for url in ("url_0", "url_1")))
    return (
        f"{CONFIG_NAMES[0]}: {missing} of {len(images)} images are missing from {source}, or empty: "
        f"{shown}. Put them into {_IMAGE_FOLDERS[0]}/ of data_dir, or pass allow_missing=True to keep "
        f"their rows without an image, or with_images=False for the text alone."
    )


def _missing(images: dict[str, str | None], uses: Iterable[tuple[str, str]]) -> str:
    """Name images without a path, each with the rows that show it, of which `uses` has (image, id of the row)."""
    ids: dict[str, list[str]] = {name: [] for name, path in images.items() if path is None}
    for name, row_id in uses:
        if name in ids:
            ids[name].append(row_id)
    return _shown([f"{name} (for {_shown(rows)})" for name, rows in ids.items()])


def _shown(names: list[str]) -> str:
    more = [f"and {len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
    return ", ".join([*names[:_NAMES_SHOWN], *more])
