"""VL-CheckList (Zhao et al., 2022) as a `datasets` builder, from the user's copy.

A row is one image-to-text test: an image, a caption that describes it and a hard negative, in which the object, the
attribute or the relation is replaced. The text is exactly as released. The repository states no licence, so nothing of
it comes with this module and nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ...metrics.common.errors import DataError
from ..sources.builders import ReleasedRows, Rows, SourceConfig, make_configs
from ..sources.records import Row
from ..sources.source_files import ImagePaths, SourceFile, first_file, is_inner_path

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

_HOMEPAGE = "https://github.com/om-ai-lab/VL-CheckList"
_IMAGES_GUIDE = f"{_HOMEPAGE}/blob/main/DATASETS.md"
# VAW uses the images of Visual Genome.
_IMAGE_ROOTS = {"vg": "vg", "vaw": "vg", "swig": "swig", "hake": "hake"}
_OBJECT_PARTS = {"location": ("center", "mid", "margin"), "size": ("large", "medium", "small")}
_OBJECT_ROLES = {
    "hake": ("hake_obj",),
    "swig": ("swig_agent", "swig_destination", "swig_item", "swig_tool"),
    "vg": ("vg_obj", "vg_subj"),
}
# A released row is the list of these two.
_SCHEMA = {"path": str, "texts": {"POS": [str], "NEG": [str]}}


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
            files += [AnnotationFile(f"{inner}/{role}_{topic}.json", source, topic) for topic in _OBJECT_PARTS[kind]]
    return files


@dataclass
class VLCheckListConfig(SourceConfig):
    """One type, and which of its sources of images to read.

    `sources` names them, separated by commas: by default all, "vg,vaw,swig,hake". Each file that the authors list for
    them must be there.
    """

    sources: str = ",".join(SOURCES)


class VLCheckList(ReleasedRows):
    """Nine configurations, one split `test`; the card has the columns and the layout of `data_dir`."""

    config: VLCheckListConfig
    BUILDER_CONFIG_CLASS = VLCheckListConfig
    BUILDER_CONFIGS: ClassVar = make_configs(VLCheckListConfig, "VL-CheckList", CONFIG_NAMES)
    GET_SOURCES = f"VL-CheckList states no licence: clone {_HOMEPAGE} and add the images as {_IMAGES_GUIDE} says"
    COLUMNS = "id category source part image filename caption negative_caption defects"

    def _parts(self) -> Mapping[str, Rows]:
        self._files = {file.path: file for file in _chosen_files(self.config.name, self.config.sources)}
        remedy = f"Get them from {_HOMEPAGE}, or pass the sources that you have, such as sources='vg'"
        return {path: Rows(SourceFile(f"data/{path}", (path,), remedy=remedy), _SCHEMA) for path in self._files}

    def _problem(self, record: Row) -> str | None:
        if not is_inner_path(record["path"]):
            return f"{record['path']!r} is not the relative path of an image"
        empty = [name for name in ("POS", "NEG") if not record["texts"][name]]
        return f"{empty[0]} is empty" if empty else None

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        file = self._files[part]
        yield {
            "id": f"{part.removesuffix('.json')}/{key}",
            "category": self.config.name,
            "source": file.source,
            "part": file.part,
            "filename": record["path"],
            "caption": record["texts"]["POS"][0],
            "negative_caption": record["texts"]["NEG"][0],
        }

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        rows = super()._read_rows(dl_manager)
        _flag_defects(rows)
        return rows

    def _image_names(self, row: Row) -> dict[str, str]:
        return {"image": _image_path(row)}

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        folder = self._folder
        images = {
            (name := _image_path(row)): first_file([folder / name, folder / "images" / name, folder / row["filename"]])
            for row in rows
        }
        affected = sum(images[_image_path(row)] is None for row in rows)
        where = f"{folder} (images of {affected} of {len(rows)} rows)"
        remedy = f"{_IMAGES_GUIDE} says where to get them; pass the sources that you have, such as sources='vg'"
        return self._require_images(rows, images, where, remedy)


def _chosen_files(config_name: str, sources: str) -> list[AnnotationFile]:
    """Return the files of a type from the sources in a comma-separated list."""
    names = [name.strip() for name in str(sources).split(",")]
    unknown = [name for name in names if name not in SOURCES]
    if unknown:
        raise DataError(f"unknown source {unknown[0]!r} in sources={sources!r}; known: {', '.join(SOURCES)}")
    known = annotation_files(config_name)
    files = [file for file in known if file.source in names]
    if not files:
        has = ", ".join(dict.fromkeys(file.source for file in known))
        raise DataError(f"{config_name} has nothing from sources={sources!r}, only from {has}. Add one of these.")
    return files


def _image_path(row: Row) -> str:
    return f"{_IMAGE_ROOTS[row['source']]}/{row['filename']}"


def _flag_defects(rows: list[Row]) -> None:
    """Give each row its list `defects`."""
    described = {(_image_path(row), row["caption"]) for row in rows}
    seen = set()
    for row in rows:
        image, caption, negative = _image_path(row), row["caption"], row["negative_caption"]
        defects = {
            "duplicate": (image, caption, negative) in seen,
            "same_text": caption == negative,
            "negative_is_caption": caption != negative and (image, negative) in described,
        }
        row["defects"] = [name for name, applies in defects.items() if applies]
        seen.add((image, caption, negative))
