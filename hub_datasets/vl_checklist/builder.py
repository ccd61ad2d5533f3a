"""VL-CheckList (Zhao et al., 2022) as a `datasets` builder, from the user's own copy.

A row is one image-to-text test: an image, a caption that describes it and one that does not, of which the
object, the attribute or the relation was replaced. The text is exactly as released. The repository states no
licence, so nothing of it comes with this module and nothing is downloaded.

The module imports only the standard library and `datasets`, one import a line, so that `datasets` up to 3.6
can run it as a script and any later version can import the class.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pathlib import PurePosixPath
from typing import Any
from typing import ClassVar
from typing import NamedTuple

import datasets

CONFIG_NAMES = (
    "attribute_action",
    "attribute_color",
    "attribute_material",
    "attribute_size",
    "attribute_state",
    "object_location",
    "object_size",
    "relation_action",
    "relation_spatial",
)
SOURCES = ("vg", "vaw", "swig", "hake")

_VERSION = "1.0.0"
_HOMEPAGE = "https://github.com/om-ai-lab/VL-CheckList"
_IMAGES_GUIDE = f"{_HOMEPAGE}/blob/main/DATASETS.md"
# The images of VAW are those of Visual Genome.
_IMAGE_ROOTS = {"vg": "vg", "vaw": "vg", "swig": "swig", "hake": "hake"}
_OBJECT_PARTS = {"location": ("center", "mid", "margin"), "size": ("large", "medium", "small")}
_OBJECT_ROLES = {
    "hake": ("hake_obj",),
    "swig": ("swig_agent", "swig_destination", "swig_item", "swig_tool"),
    "vg": ("vg_obj", "vg_subj"),
}
_ROW_SHAPE = '[image path, {"POS": [caption, ...], "NEG": [caption, ...]}]'
_NAMES_SHOWN = 5


class AnnotationFile(NamedTuple):
    """An annotation file: its path in the repository's `data/`, where its images are from, and of objects the part."""

    path: str
    source: str
    part: str | None


def annotation_files(config_name: str) -> list[AnnotationFile]:
    """Return the files that the authors' `corpus/v1` lists for a type."""
    group, kind = config_name.split("_")
    if group == "attribute":
        return [AnnotationFile(f"Attribute/{source}/{kind}.json", source, None) for source in ("vg", "vaw")]
    if config_name == "relation_action":
        paths = {"vg": "vg/action", "swig": "swig_action", "hake": "hake_action"}
        return [AnnotationFile(f"Relation/{path}.json", source, None) for source, path in paths.items()]
    if config_name == "relation_spatial":
        return [AnnotationFile("Relation/vg/spatial.json", "vg", None)]
    files = []
    for source, roles in _OBJECT_ROLES.items():
        folder = f"Object/{kind.capitalize()}/{source}_{kind}"
        for role in roles:
            inner = f"{folder}/{role}" if source == "swig" else folder
            files += [AnnotationFile(f"{inner}/{role}_{part}.json", source, part) for part in _OBJECT_PARTS[kind]]
    return files


@dataclass
class VLCheckListConfig(datasets.BuilderConfig):
    """One type, which of its sources to read, and what to do where an image is missing.

    | field           | True                                        | False                                  |
    |-----------------|---------------------------------------------|----------------------------------------|
    | `with_images`   | column `image`, bytes as in the file        | no column `image`, no image looked for |
    | `allow_missing` | a row whose image is missing has image None | a missing image is an error            |

    `sources` names the sources of images, separated by commas: by default all, "vg,vaw,swig,hake". Each file that the
    authors list for them must be there.
    """

    with_images: bool = True
    allow_missing: bool = False
    sources: str = ",".join(SOURCES)


class VLCheckList(datasets.GeneratorBasedBuilder):
    """Nine configs, one split `test`; see `VLCheckListConfig` for the options.

    `data_dir` is the user's own copy, and must be given:

    - annotations: `data/Attribute/vg/color.json` and so on, as in the authors' repository, then without `data/`;
    - images: `vg/VG_100K/2361911.jpg`, `swig/dialing_8.jpg`, `hake/openimages/0030feaa83a02c0d.jpg` and so on, as in
      the authors' instructions, then in `images/`, then without `vg/`, `swig/` or `hake/`.

    A row has `id` (path of the annotation file without ".json", "/", the row's place in it, from 0), `category` (the
    config's name), `source`, `part` (of objects: where it is or how big; else None), `image`, `filename` (the image's
    path as released), `caption`, `negative_caption` (the first of each, as the authors do) and `defects`, a list of:

    - "duplicate": an earlier row of the config has the same image, caption and negative;
    - "same_text": the negative is the caption;
    - "negative_is_caption": another row of the config gives the negative as a caption of the same image.

    Everything is checked before the first row is written. Raises FileNotFoundError where there is no `data_dir`, and
    for annotation files and images that are missing or empty, ValueError for a malformed annotation file or `sources`
    that the config does not have.
    """

    config: VLCheckListConfig
    BUILDER_CONFIG_CLASS = VLCheckListConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        VLCheckListConfig(name=name, version=datasets.Version(_VERSION), description=f"VL-CheckList {name}")
        for name in CONFIG_NAMES
    ]

    def _info(self) -> datasets.DatasetInfo:
        text = datasets.Value("string")
        columns: dict[str, Any] = {"id": text, "category": text, "source": text, "part": text}
        if self.config.with_images:
            columns["image"] = datasets.Image()
        columns |= {"filename": text, "caption": text, "negative_caption": text, "defects": [text]}
        return datasets.DatasetInfo(features=datasets.Features(columns))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        data_dir = _existing_folder(self.config.data_dir)
        rows = self._annotations(data_dir)
        images = self._images(data_dir, rows) if self.config.with_images else None
        return [datasets.SplitGenerator(name="test", gen_kwargs={"rows": rows, "images": images})]

    def _generate_examples(
        self, rows: dict[str, dict[str, Any]], images: dict[str, str | None] | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (id, row). `images` maps "root/path" to the image's path, None where missing; None for no column."""
        for key, row in rows.items():
            example: dict[str, Any] = {"id": key, "category": self.config.name, **row}
            if images is not None:
                path = images[_image_key(row)]
                example["image"] = {"path": row["filename"], "bytes": _read(Path(path))} if path else None
            yield key, example

    def _annotations(self, data_dir: Path) -> dict[str, dict[str, Any]]:
        """Return the rows by id, in the order of the files, defects flagged."""
        files = _chosen_files(self.config.name, self.config.sources)
        paths = {file: _first_file([data_dir / "data" / file.path, data_dir / file.path]) for file in files}
        missing = [f"data/{file.path}" for file, path in paths.items() if path is None]
        if missing:
            raise FileNotFoundError(
                f"{self.config.name}: {len(missing)} of {len(files)} annotation files are missing from {data_dir}, or "
                f"empty: {_shown(missing)}. Get them from {_HOMEPAGE}, or pass the sources that you have, such as "
                f"sources='vg'."
            )
        rows = {}
        for file, path in paths.items():
            parsed = _parse_rows(_read(Path(str(path))), str(path))
            for number, (filename, caption, negative) in enumerate(parsed):
                rows[f"{file.path.removesuffix('.json')}/{number}"] = {
                    "source": file.source,
                    "part": file.part,
                    "filename": filename,
                    "caption": caption,
                    "negative_caption": negative,
                }
        _flag_defects(rows)
        return rows

    def _images(self, data_dir: Path, rows: dict[str, dict[str, Any]]) -> dict[str, str | None]:
        """Return the path of each image by "root/path", None where it is missing and that is allowed."""
        images: dict[str, str | None] = {}
        for row in rows.values():
            key = _image_key(row)
            if key not in images:
                places = [data_dir / key, data_dir / "images" / key, data_dir / row["filename"]]
                images[key] = _first_file(places)
        if not all(images.values()) and not self.config.allow_missing:
            raise FileNotFoundError(_describe_missing(self.config.name, rows, images, str(data_dir)))
        return images


def _existing_folder(data_dir: str | None) -> Path:
    if not data_dir:
        raise FileNotFoundError(
            f"VL-CheckList is read from your own copy, as it states no licence. Clone {_HOMEPAGE}, add the images as "
            f"{_IMAGES_GUIDE} says, and pass the folder as data_dir."
        )
    folder = Path(data_dir).expanduser().absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"data_dir {folder} is not a folder. Pass a clone of {_HOMEPAGE}.")
    return folder


def _chosen_files(config_name: str, sources: str) -> list[AnnotationFile]:
    """Return the files of a type from the sources in a comma-separated list."""
    names = [name.strip() for name in str(sources).split(",")]
    unknown = [name for name in names if name not in SOURCES]
    if unknown:
        raise ValueError(f"unknown source {unknown[0]!r} in sources={sources!r}; known: {', '.join(SOURCES)}")
    known = annotation_files(config_name)
    files = [file for file in known if file.source in names]
    if not files:
        has = ", ".join(dict.fromkeys(file.source for file in known))
        raise ValueError(f"{config_name} has nothing from sources={sources!r}, only from {has}. Add one of these.")
    return files


def _first_file(places: Iterable[Path]) -> str | None:
    """Return the first of the paths where a file lies that is not empty (an interrupted copy is)."""
    return next((str(path) for path in places if path.is_file() and path.stat().st_size), None)


def _read(path: Path) -> bytes:
    # Not `read_bytes`: `datasets` swaps Path for a class of its own, of which only `open` reads remote files.
    with path.open("rb") as file:
        return file.read()


def _image_key(row: dict[str, Any]) -> str:
    return f"{_IMAGE_ROOTS[row['source']]}/{row['filename']}"


def _parse_rows(payload: bytes, source: str) -> list[tuple[str, str, str]]:
    """Return (image path, caption, negative) of each row; ValueError names the file and the row, counted from 0."""
    try:
        rows = json.loads(payload.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{source} is not valid JSON: {error}. Expected a list of rows.") from error
    if not isinstance(rows, list) or not rows:
        found = "an empty list" if rows == [] else f"{type(rows).__name__} at the top level"
        raise ValueError(f"{source} holds {found}. Expected a list of rows, each {_ROW_SHAPE}.")
    for number, row in enumerate(rows):
        problem = _row_problem(row)
        if problem:
            raise ValueError(f"{source}, row {number}: {problem}. Expected {_ROW_SHAPE}.")
    return [(path, texts["POS"][0], texts["NEG"][0]) for path, texts in rows]


def _row_problem(row: object) -> str | None:
    """Return what is wrong with a parsed row, None if nothing is."""
    if not isinstance(row, list) or len(row) != 2 or not isinstance(row[1], dict):
        return f"found {json.dumps(row)[:60]} instead of a row"
    path, texts = row
    if not isinstance(path, str) or not _leads_below(path):
        return f"{path!r} is not the relative path of an image"
    for name in ("POS", "NEG"):
        captions = texts.get(name)
        if not isinstance(captions, list) or not captions or not all(isinstance(text, str) for text in captions):
            return f"{name} is {json.dumps(captions)[:60]}, not a list of captions"
    return None


def _leads_below(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not {"/", ".."} & set(parts) and "\\" not in path


def _flag_defects(rows: dict[str, dict[str, Any]]) -> None:
    """Give each row its list `defects`."""
    described = {(_image_key(row), row["caption"]) for row in rows.values()}
    seen = set()
    for row in rows.values():
        image, caption, negative = _image_key(row), row["caption"], row["negative_caption"]
        found = {
            "duplicate": (image, caption, negative) in seen,
            "same_text": caption == negative,
            "negative_is_caption": caption != negative and (image, negative) in described,
        }
        row["defects"] = [name for name, applies in found.items() if applies]
        seen.add((image, caption, negative))


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


def _describe_missing(
    config_name: str, rows: dict[str, dict[str, Any]], images: dict[str, str | None], data_dir: str
) -> str:
    missing = sum(path is None for path in images.values())
    affected = sum(images[_image_key(row)] is None for row in rows.values())
    shown = _missing(images, ((_image_key(row), key) for key, row in rows.items()))
    return (
        f"{config_name}: {missing} of {len(images)} images are missing from {data_dir}, or empty, so that "
        f"{affected} of {len(rows)} rows lack theirs: {shown}. {_IMAGES_GUIDE} says where to get them. Or "
        f"pass allow_missing=True to keep their rows without an image, with_images=False for the text alone, or the "
        f"sources that you have, such as sources='vg'."
    )
