"""TRICD (Kamath et al., 2023), its public validation part, as a `datasets` builder.

A group is two photographs of COCO val2017 and two captions, each true of its own photograph only. `val` has the four
image-caption rows of each group with their phrases and boxes, `vqa` the same rows as yes/no questions, and `groups`
one row for each group.

The module imports only the standard library, `datasets` and its sibling, one import a line, so that `datasets` up to
3.6 can run it as a script and any later version can import the class.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import ClassVar

import datasets

from .release import REPOSITORY_URL
from .release import ROWS

CONFIG_NAMES = ("val", "vqa", "groups")

_VERSION = "1.0.0"
_GROUNDING = "TRICD_grounding_val.json"
_VQA = "TRICD_VQA_val.json"
_CHECKSUMS = {
    _GROUNDING: "024b5855e9b4f1c8758feb750c7f4206adf47a9376fd6c0ff1520166d72d73b0",
    _VQA: "6214593ae760d2727e5985722495d81ffb0a048f036fa87408f672313527b74e",
}
_IMAGES_URL = "http://images.cocodataset.org/zips/val2017.zip"
_IMAGE_FOLDER = "val2017"
_NAMES_SHOWN = 5
_Row = dict[str, Any]


@dataclass
class TRICDConfig(datasets.BuilderConfig):
    """How strict to be about the user's own files in `data_dir`.

    | field           | True                                        | False                                  |
    |-----------------|---------------------------------------------|----------------------------------------|
    | `with_images`   | column(s) `image…`, bytes as in the file    | no such column, no image looked for    |
    | `allow_missing` | an image that is missing is None            | a missing image is an error            |
    | `verify`        | an annotation file must match its sum       | any well-formed file is accepted       |
    """

    with_images: bool = True
    allow_missing: bool = False
    verify: bool = True


class TRICD(datasets.GeneratorBasedBuilder):
    """Three configs, one split `validation`; see `TRICDConfig` for the options and the card for the columns.

    Nothing is downloaded. `data_dir`, which must be given, is the user's own copy:

    - annotations: `TRICD_grounding_val.json` (`val`, `groups`), `TRICD_VQA_val.json` (`vqa`), in `data_dir` or in any
      folder below it; the copy with the shortest path is taken;
    - images: `val2017/<filename>`, then `images/val2017/<filename>`, then `<filename>`.

    Everything is checked before the first row is written. Raises FileNotFoundError for a `data_dir` that is missing
    or not a folder and for missing annotations or images, ValueError for a wrong checksum or a malformed file.
    """

    config: TRICDConfig
    BUILDER_CONFIG_CLASS = TRICDConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        TRICDConfig(name=name, version=datasets.Version(_VERSION), description=f"TRICD {name}") for name in CONFIG_NAMES
    ]
    DEFAULT_CONFIG_NAME = "val"

    def _info(self) -> datasets.DatasetInfo:
        columns = _columns(self.config.name)
        if not self.config.with_images:
            columns = {name: feature for name, feature in columns.items() if not name.startswith("image")}
        return datasets.DatasetInfo(features=datasets.Features(columns))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        data_dir = _existing_folder(self.config.data_dir)
        name = _VQA if self.config.name == "vqa" else _GROUNDING
        data, source = self._read_annotations(data_dir, name)
        rows = {row["id"]: row for row in ROWS[self.config.name](data, source)}
        images = self._images(data_dir, rows) if self.config.with_images else None
        return [datasets.SplitGenerator(name="validation", gen_kwargs={"rows": rows, "images": images})]

    def _generate_examples(
        self, rows: dict[str, _Row], images: dict[str, str | None] | None
    ) -> Iterator[tuple[str, _Row]]:
        """Yield (id, row). `images` maps a file name to its path, None where missing; None for no column."""
        for key, row in rows.items():
            example = dict(row)
            if images is not None:
                for column in _filename_columns(row):
                    path = images[row[column]]
                    image = {"path": row[column], "bytes": _read(Path(path))} if path else None
                    example[column.replace("filename", "image")] = image
            yield key, example

    def _read_annotations(self, data_dir: Path, name: str) -> tuple[dict[str, Any], str]:
        """Return the parsed file of that name, checked to be an object of lists, and its path."""
        found = sorted(data_dir.rglob(name), key=lambda path: (len(path.parts), str(path)))
        if not found:
            raise FileNotFoundError(
                f"{data_dir} does not hold {name}, neither directly nor in a folder below. Get it from "
                f"{REPOSITORY_URL} and put it there."
            )
        payload, source = _read(found[0]), str(found[0])
        digest = hashlib.sha256(payload).hexdigest()
        if self.config.verify and digest != _CHECKSUMS[name]:
            raise ValueError(
                f"{source} has SHA-256 {digest}, but {name} as released has {_CHECKSUMS[name]}. It is damaged or of "
                f"another release: replace it, or pass verify=False to accept it."
            )
        try:
            data = json.loads(payload.decode("utf-8"))
        except ValueError as error:
            raise ValueError(f"{source} is not valid JSON: {error}. Get it again from {REPOSITORY_URL}.") from error
        if not isinstance(data, dict):
            raise ValueError(f"{source} holds {type(data).__name__} at the top level. Expected an object.")
        return data, source

    def _images(self, data_dir: Path, rows: dict[str, _Row]) -> dict[str, str | None]:
        """Return the path of each image by its file name, None where it is missing and that is allowed."""
        folders = [data_dir / _IMAGE_FOLDER, data_dir / "images" / _IMAGE_FOLDER, data_dir]
        filenames = dict.fromkeys(row[column] for row in rows.values() for column in _filename_columns(row))
        images = {name: _first_file(folder / name for folder in folders) for name in filenames}
        if not all(images.values()) and not self.config.allow_missing:
            raise FileNotFoundError(_describe_missing(self.config.name, rows, images, data_dir))
        return images


def _columns(config_name: str) -> dict[str, Any]:
    text, image, number = datasets.Value("string"), datasets.Image(), datasets.Value("int32")
    flag = datasets.Value("bool")
    if config_name == "vqa":
        return {"id": text, "image": image, "filename": text, "question": text, "answer": flag, "type": text}
    if config_name == "groups":
        sides = {f"{name}_{side}": text for side in "01" for name in ("image", "filename", "caption")}
        return {"id": text, "type": text, **sides, "image_0": image, "image_1": image}
    phrase = {"text": text, "start": number, "end": number, "phrase_id": number}
    return {
        "id": text,
        "image": image,
        "filename": text,
        "caption": text,
        "phrases": [{**phrase, "boxes": [[datasets.Value("float64")]]}],
        "positive": flag,
        "pair_id": text,
        "type": text,
        "width": number,
        "height": number,
        "overruns": flag,
    }


def _existing_folder(data_dir: str | None) -> Path:
    if not data_dir:
        raise FileNotFoundError(
            f"TRICD is read from your own copy: pass data_dir, a folder with {_GROUNDING} and {_VQA} from "
            f"{REPOSITORY_URL}, and with {_IMAGE_FOLDER}/ from {_IMAGES_URL}."
        )
    folder = Path(data_dir).expanduser().absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"data_dir {folder} is not a folder. Name the one with your copy of {REPOSITORY_URL}.")
    return folder


def _read(path: Path) -> bytes:
    # Not `read_bytes`: `datasets` swaps Path for a class of its own, of which only `open` reads remote files.
    with path.open("rb") as file:
        return file.read()


def _filename_columns(row: _Row) -> list[str]:
    return [column for column in row if column.startswith("filename")]


def _first_file(places: Iterable[Path]) -> str | None:
    """Return the first of the paths where a file lies that is not empty (an interrupted copy is)."""
    return next((str(path) for path in places if path.is_file() and path.stat().st_size), None)


def _describe_missing(name: str, rows: dict[str, _Row], images: dict[str, str | None], data_dir: Path) -> str:
    missing = sum(path is None for path in images.values())
    shown = _missing(images, ((row[column], key) for key, row in rows.items() for column in _filename_columns(row)))
    return (
        f"{name}: {missing} of {len(images)} images are missing from {data_dir}, or empty: {shown}. "
        f"Get them from {_IMAGES_URL} and put them into {_IMAGE_FOLDER}/ of data_dir, or pass allow_missing=True to "
        f"keep their rows without an image, or with_images=False for the text alone."
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
