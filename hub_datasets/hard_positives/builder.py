"""Hard Positives (Kamath et al., 2024) as a `datasets` builder, from the user's copy of the authors' repository.

A row is an image with three captions: the original, a hard positive that says the same and a hard negative that
does not. The text is exactly as released; what is wrong with a row stands in its column `defect`, and each config
has a second one, `<name>_clean`, without the rows that have a defect.

The module imports only the standard library, Pillow, `datasets` and its siblings, one name a line, so that
`datasets` up to 3.6 can run it as a script and any later version can import the class.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import ClassVar

import datasets
from PIL import Image

from .construct import LEXICON
from .construct import swap_phrases
from .defects import NEGATIVES_DIFFER
from .defects import DUPLICATE
from .defects import SEPARATOR
from .defects import find_defects
from .defects import find_origin
from .defects import find_repetitions

RELEASED_ROWS = {"replace_relations": 16_868, "replace_attributes": 10_575, "swap": 28_748}
_CLEAN = "_clean"
CONFIG_NAMES = (*RELEASED_ROWS, *(name + _CLEAN for name in RELEASED_ROWS))
OTHER = "other"

_VERSION = "1.0.0"
_HOMEPAGE = "https://github.com/amitakamath/hard_positives"
_FILES = {
    "replace_relations": "vl_checklist_relations.json",
    "replace_attributes": "vl_checklist_attributes.json",
    "swap": "visual_genome_attribution.json",
}
_ORIGINALS, _POSITIVES = "data", "swapped_data"
_GROUPS = {"replace_relations": "relation_", "replace_attributes": "attribute_"}
_TEXT_FIELDS = ("image_path", "true_caption", "false_caption")
_BOX_FIELDS = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")
_IMAGE_FOLDERS = ("data/VG_100K_2", "data/VG_100K", "VG_100K_2", "VG_100K", "data/images", "images", ".")
_NAMES_SHOWN = 5
_GET_REPOSITORY = (
    f"This benchmark states no licence and is not downloaded: git clone {_HOMEPAGE}, then pass the clone as data_dir."
)
_GET_ARO = (
    "If the clone has no such file: data/visual_genome_attribution.json is ARO's (Google Drive id "
    "13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw), and rebuild_swap=True makes the hard positives of swap from it alone."
)
_GET_IMAGES = (
    "They are Visual Genome's (https://homes.cs.washington.edu/~ranjay/visualgenome/api.html): put VG_100K/ and "
    "VG_100K_2/ into data_dir"
)


@dataclass
class HardPositivesConfig(datasets.BuilderConfig):
    """One part of the benchmark, with or without its defective rows, and how to read it.

    | field           | True                                            | False                                       |
    |-----------------|-------------------------------------------------|---------------------------------------------|
    | `with_images`   | column `image`                                  | no column `image`, no image looked for      |
    | `allow_missing` | a row whose image is missing has image None     | a missing image is an error                 |
    | `verify`        | a file must have as many rows as the release    | any number of rows is accepted              |
    | `crop`          | swap: the box of the image, as the authors do   | swap: the whole image, bytes as in the file |
    | `rebuild_swap`  | swap: positives made from `data/` by rule       | swap: positives from `swapped_data/`        |

    `crop` and `rebuild_swap` change nothing in the other configs, whose images are whole as the authors' are.
    """

    with_images: bool = True
    allow_missing: bool = False
    verify: bool = True
    crop: bool = True
    rebuild_swap: bool = False


class HardPositives(datasets.GeneratorBasedBuilder):
    """Six configs, one split `test`; see `HardPositivesConfig` for the options.

    `data_dir` is a clone of the authors' repository: `data/<file>` holds original captions and hard negatives,
    `swapped_data/<file>` the hard positives, row by row for the same images. Images are looked for by their name in
    `data/VG_100K_2`, `data/VG_100K`, `VG_100K_2`, `VG_100K`, `data/images`, `images` and `data_dir` itself.

    A row has `id` (config without "_clean", "/", number of the row in the files), `category`, `image`, `filename`,
    `caption`, `positive_caption`, `negative_caption`, then `replaced` and `replacement` (replace) or `attributes` and
    `bbox` (swap), and `defect`.

    Everything but the pixels is checked before the first row is written. Raises FileNotFoundError for a `data_dir`
    that is not a folder, a file that is not there, and missing or empty images, ValueError for a malformed file,
    files that do not belong together, and an image to crop that cannot be decoded.
    """

    config: HardPositivesConfig
    BUILDER_CONFIG_CLASS = HardPositivesConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        HardPositivesConfig(name=name, version=datasets.Version(_VERSION), description=f"Hard Positives {name}")
        for name in CONFIG_NAMES
    ]

    def _info(self) -> datasets.DatasetInfo:
        text = datasets.Value("string")
        columns: dict[str, Any] = {"id": text, "category": text}
        if self.config.with_images:
            columns["image"] = datasets.Image()
        columns.update(dict.fromkeys(("filename", "caption", "positive_caption", "negative_caption"), text))
        if _part(self.config.name) == "swap":
            columns.update(attributes=[text], bbox=[datasets.Value("int32")])
        else:
            columns.update(replaced=text, replacement=text)
        return datasets.DatasetInfo(features=datasets.Features({**columns, "defect": text}))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        folder = _existing_folder(self.config.data_dir)
        rows = self._rows(folder)
        if self.config.name.endswith(_CLEAN):
            rows = [row for row in rows if not row["defect"]]
        images = self._images(folder, rows) if self.config.with_images else None
        return [datasets.SplitGenerator(name="test", gen_kwargs={"rows": rows, "images": images})]

    def _generate_examples(
        self, rows: list[dict[str, Any]], images: dict[str, str | None] | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (id, row). `images` maps a file name to its path, None where missing; None for no column."""
        for row in rows:
            example = dict(row)
            if images is not None:
                path = images[row["filename"]]
                example["image"] = self._image(Path(path), row) if path else None
            yield example["id"], example

    def _image(self, path: Path, row: dict[str, Any]) -> dict[str, Any]:
        payload = _read(path)
        if "bbox" not in row or not self.config.crop:
            return {"path": row["filename"], "bytes": payload}
        name = "_".join([Path(row["filename"]).stem, *map(str, row["bbox"])]) + ".png"
        return {"path": name, "bytes": _cropped(payload, row["bbox"], path)}

    def _rows(self, folder: Path) -> list[dict[str, Any]]:
        """Return all rows of a part, defects named."""
        part = _part(self.config.name)
        expected = RELEASED_ROWS[part] if self.config.verify else None
        originals = _read_records(folder, f"{_ORIGINALS}/{_FILES[part]}", part, expected)
        if part == "swap" and self.config.rebuild_swap:
            positives = [_swapped(record, number) for number, record in enumerate(originals)]
        else:
            positives = _read_records(folder, f"{_POSITIVES}/{_FILES[part]}", part, expected)
            _check_aligned(originals, positives, part)
        pairs = [json.dumps(pair, sort_keys=True) for pair in zip(originals, positives, strict=True)]
        return [
            _row(part, number, original, positive, is_repeated)
            for number, (original, positive, is_repeated) in enumerate(
                zip(originals, positives, find_repetitions(pairs), strict=True)
            )
        ]

    def _images(self, folder: Path, rows: list[dict[str, Any]]) -> dict[str, str | None]:
        """Return the path of each image by its file name, None where it is missing and that is allowed."""
        folders = [folder / place for place in _IMAGE_FOLDERS if (folder / place).is_dir()]
        names = dict.fromkeys(row["filename"] for row in rows)
        images = {name: _first_file(folder / name for folder in folders) for name in names}
        if not all(images.values()) and not self.config.allow_missing:
            raise FileNotFoundError(_describe_missing(self.config.name, rows, images, folder))
        return images


def _part(config_name: str) -> str:
    return config_name.removesuffix(_CLEAN)


def _existing_folder(data_dir: str | None) -> Path:
    if not data_dir:
        raise FileNotFoundError(f"data_dir is needed. {_GET_REPOSITORY}")
    folder = Path(data_dir).expanduser().absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"data_dir {folder} is not a folder. {_GET_REPOSITORY}")
    return folder


def _read(path: Path) -> bytes:
    # Not `read_bytes`: `datasets` swaps Path for a class of its own, of which only `open` reads remote files.
    with path.open("rb") as file:
        return file.read()


def _read_records(folder: Path, name: str, part: str, expected: int | None) -> list[dict[str, Any]]:
    """Parse a file of the release and check every record; ValueError names the file and the record."""
    path = folder / name
    if not path.is_file():
        hint = f" {_GET_ARO}" if part == "swap" else ""
        raise FileNotFoundError(f"{path} is not there. {_GET_REPOSITORY}{hint}")
    shape = _shape(part)
    try:
        records = json.loads(_read(path).decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}. Expected {shape}.") from error
    if not isinstance(records, list) or not records:
        found = "an empty list" if records == [] else f"{type(records).__name__} at the top level"
        raise ValueError(f"{path} holds {found}. Expected {shape}.")
    for number, record in enumerate(records):
        problem = _record_problem(record, part)
        if problem:
            raise ValueError(f"{path}, record {number}: {problem}. Expected {shape}.")
    if expected is not None and len(records) != expected:
        raise ValueError(
            f"{path} has {len(records):,} rows, the release has {expected:,}. It is damaged or of another release: "
            "replace it, or pass verify=False to accept it."
        )
    return records


def _shape(part: str) -> str:
    fields = f"the text fields {', '.join(_TEXT_FIELDS)}"
    if part == "swap":
        fields += f", the whole numbers {', '.join(_BOX_FIELDS)} and attributes, a list of two texts"
    return f"a list of records, each an object with {fields}"


def _record_problem(record: object, part: str) -> str | None:
    """Return what is wrong with a parsed record, None if nothing is; fields that are not read do not matter."""
    if not isinstance(record, dict):
        return f"found {type(record).__name__} instead of a record"
    needed = (*_TEXT_FIELDS, *_BOX_FIELDS, "attributes") if part == "swap" else _TEXT_FIELDS
    faults = [f"{field} is missing" for field in needed if field not in record]
    if faults:
        return "; ".join(faults)
    faults = [
        f"{field} is {type(record[field]).__name__}, not text"
        for field in _TEXT_FIELDS
        if not isinstance(record[field], str)
    ]
    if not faults and record["image_path"].rpartition("/")[2] in ("", ".", ".."):
        faults.append(f"image_path {record['image_path']!r} does not end in a file name")
    if part == "swap":
        box = [record[field] for field in _BOX_FIELDS]
        if not all(type(value) is int for value in box) or min(box[2:]) < 1:
            faults.append(f"bbox_x, bbox_y, bbox_w, bbox_h are {box}, not whole numbers with a size of at least 1")
        attributes = record["attributes"]
        if not isinstance(attributes, list) or [type(value) for value in attributes] != [str, str]:
            faults.append(f"attributes is {attributes!r}, not a list of two texts")
    return "; ".join(faults) or None


def _check_aligned(originals: list[dict[str, Any]], positives: list[dict[str, Any]], part: str) -> None:
    """Refuse files that do not tell of the same images row by row."""
    names = f"{_ORIGINALS}/{_FILES[part]} and {_POSITIVES}/{_FILES[part]}"
    remedy = "Take both from the same commit of the repository."
    if len(originals) != len(positives):
        raise ValueError(f"{names} have {len(originals):,} and {len(positives):,} rows. {remedy}")
    for number, (original, positive) in enumerate(zip(originals, positives, strict=True)):
        ours, theirs = _filename(original), _filename(positive)
        if ours != theirs:
            raise ValueError(f"{names} differ in record {number}: images {ours!r} and {theirs!r}. {remedy}")


def _swapped(record: dict[str, Any], number: int) -> dict[str, Any]:
    positive = swap_phrases(record["true_caption"])
    if positive is None:
        raise ValueError(
            f"record {number}: {record['true_caption']!r} is not of the form 'the X and the Y', so its hard positive "
            f"cannot be made. Pass rebuild_swap=False and {_POSITIVES}/{_FILES['swap']}."
        )
    return {**record, "true_caption": positive}


def _row(
    part: str, number: int, original: dict[str, Any], positive: dict[str, Any], is_repeated: bool
) -> dict[str, Any]:
    captions = original["true_caption"], positive["true_caption"], original["false_caption"]
    row: dict[str, Any] = {"id": f"{part}/{number}", "category": part, "filename": _filename(original)}
    row.update(zip(("caption", "positive_caption", "negative_caption"), captions, strict=True))
    origin = None
    if part == "swap":
        row.update(attributes=original["attributes"], bbox=[original[field] for field in _BOX_FIELDS])
    else:
        lexicon = [entry for entry in LEXICON if entry.kind.startswith(_GROUPS[part])]
        origin = find_origin(captions[0], captions[1], lexicon)
        row["category"] = origin.entry.kind if origin else _GROUPS[part] + OTHER
        row["replaced"] = origin.replaced if origin else ""
        row["replacement"] = origin.entry.synonym if origin else ""
    defects = [DUPLICATE] if is_repeated else []
    defects += find_defects(*captions, origin)
    if positive["false_caption"] != original["false_caption"]:
        defects.append(NEGATIVES_DIFFER)
    return {**row, "defect": SEPARATOR.join(defects)}


def _filename(record: dict[str, Any]) -> str:
    return record["image_path"].rpartition("/")[2]


def _first_file(places: Iterable[Path]) -> str | None:
    """Return the first of the paths where a file lies that is not empty (an interrupted copy is)."""
    return next((str(path) for path in places if path.is_file() and path.stat().st_size), None)


def _cropped(payload: bytes, box: list[int], path: Path) -> bytes:
    """The box (x, y, width, height) of an image as PNG, which keeps the pixels; black where it overruns the image."""
    x, y, width, height = box
    try:
        with Image.open(io.BytesIO(payload)) as image:
            part = image.convert("RGB").crop((x, y, x + width, y + height))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be decoded ({error}). Replace it, or pass crop=False.") from error
    buffer = io.BytesIO()
    part.save(buffer, "PNG")
    return buffer.getvalue()


def _describe_missing(config_name: str, rows: list[dict[str, Any]], images: dict[str, str | None], folder: Path) -> str:
    missing = sum(path is None for path in images.values())
    shown = _missing(images, ((row["filename"], row["id"]) for row in rows))
    return (
        f"{config_name}: {missing} of {len(images)} images are missing from {folder}, or empty: "
        f"{shown}. {_GET_IMAGES}, or pass allow_missing=True to keep their rows without an image, or "
        f"with_images=False for the text alone."
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
