"""ARO (Yuksekgonul et al., ICLR 2023) as a `datasets` builder, from the user's own copy of its sources.

A row is one image-to-text test. `vg_relation` and `vg_attribution` show a photograph of Visual Genome: a caption
describes what is in its box, and in another the two objects of a relation, or the attributes of two objects, are
exchanged. `coco_order` and `flickr30k_order` show a photograph of COCO or Flickr30k: four captions have the words of
the right one in another order.

What shuffles captions is imported by the order configurations alone, when they are built.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import datasets

from ..core.crops import crop, crop_name
from ..core.source_files import ImagePaths, Row, SourceBuilder, VerifiedConfig, data_folder, find_images, read_bytes
from ..retrieval.karpathy import SOURCES, check_options, find_photographs, load_authoring, read_entries, source_folder
from .order import SOURCE_NAMES, order_rows
from .release import DRIVE_IDS, annotation_file, read_rows

_TEXT = datasets.Value("string")
# Successive rows often share a box: its crop is made once for them.
_CROPS_KEPT = 32

# Order of columns within each configuration; every row starts with its id.
_COLUMNS: dict[str, dict[str, Any]] = {
    config: {
        "category": _TEXT,
        "image": datasets.Image(),
        "filename": _TEXT,
        "caption": _TEXT,
        "negative_caption": _TEXT,
        **labels,
        "bbox": [datasets.Value("float32")],
    }
    for config, labels in {"vg_relation": {"relation": _TEXT}, "vg_attribution": {"attributes": [_TEXT]}}.items()
} | {
    config: {
        "image": datasets.Image(),
        "filename": _TEXT,
        "caption": _TEXT,
        "negative_captions": [_TEXT],
        "perturbations": [_TEXT],
        "testable": datasets.Value("bool"),
        "text_index": datasets.Value("int32"),
        "released_text": _TEXT,
        "seed": datasets.Value("int64"),
        "tagger": _TEXT,
    }
    for config in SOURCE_NAMES
}
CONFIG_NAMES = tuple(_COLUMNS)


@dataclass
class AROConfig(VerifiedConfig):
    """One part of ARO, and what its images show.

    `crop` (for `vg_relation` and `vg_attribution`) gives the part of the image in the row's box as a PNG; without it,
    the whole image, bytes as in the file.

    For the order configurations: another `seed`, any whole number, makes another set of permutations; `tagger` tells
    nouns and adjectives from the rest, "spacy", "plain" (which comes with the package) or "auto", spaCy if it is
    installed and else "plain"; `units` are what is permuted, "words" without their punctuation or, as in the authors'
    code, "tokens", which include punctuation; with `allow_identity`, as in the authors' code, a permutation that
    changes nothing may be drawn.
    """

    crop: bool = True
    seed: int = 0
    tagger: str = "auto"
    units: str = "words"
    allow_identity: bool = False


class ARO(SourceBuilder):
    """Four configurations, one split `test`; see the card for the columns.

    `data_dir` is the user's own copy. It holds, for

    - `vg_relation` and `vg_attribution`: `visual_genome_relation.json` or `visual_genome_attribution.json`, and the
      images as `images/<filename>` or `<filename>`;
    - `coco_order`: COCO's photographs as `val2014/<filename>`, `images/val2014/<filename>` or `<filename>`, and
      perhaps `coco_karpathy_test.json`, which is downloaded otherwise;
    - `flickr30k_order`: the same with `flickr30k-images` and `flickr30k_test.json`.

    An image to crop that cannot be decoded raises a ValueError, an order configuration without VL-Assay an ImportError.
    """

    config: AROConfig
    BUILDER_CONFIG_CLASS = AROConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        AROConfig(name=name, version=datasets.Version("1.0.0"), description=f"ARO {name}") for name in CONFIG_NAMES
    ]

    def _columns(self) -> dict[str, Any]:
        return {"id": _TEXT, **_COLUMNS[self.config.name]}

    @property
    def _is_order(self) -> bool:
        """Whether the words of the captions are shuffled."""
        return self.config.name in SOURCE_NAMES

    @property
    def _folder(self) -> Any:
        config = self.config
        if self._is_order:
            return source_folder(SOURCES[SOURCE_NAMES[config.name]], config.data_dir, with_images=config.with_images)
        return data_folder(config.data_dir, annotation_file(config.name).remedy)

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        config = self.config
        if not self._is_order:
            return read_rows(config.name, self._folder, verify=config.verify)
        check_options(config.seed, allow_identity=config.allow_identity)
        shuffler = load_authoring()
        # Refuses an unknown tagger or kind of units now.
        shuffler.perturb([], shuffler.SHUFFLES, tagger=config.tagger, units=config.units)
        source = SOURCES[SOURCE_NAMES[config.name]]
        entries = read_entries(source, self._folder, dl_manager, verify=config.verify)
        return [{"id": f"{config.name}/{entry['place']}", **entry} for entry in entries]

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        folder = self._folder
        if self._is_order:
            source = SOURCES[SOURCE_NAMES[self.config.name]]
            where = f"{folder} (photographs of {source.photographs})"
            return self._require_images(rows, find_photographs(rows, folder), where, source.remedy)
        images = find_images((row["filename"] for row in rows), [folder / "images", folder])
        remedy = (
            f"Get them with `gdown {DRIVE_IDS['vgr_vga_images.zip']}` (vgr_vga_images.zip, 1 GB), unzip in data_dir"
        )
        return self._require_images(rows, images, folder / "images", remedy)

    def _generate_examples(self, rows: Iterable[Row], images: ImagePaths | None) -> Iterator[tuple[str, Row]]:
        config = self.config
        # An image is read once for the rows that follow each other with it.
        self._read = functools.lru_cache(1)(read_bytes)
        self._crop = functools.lru_cache(_CROPS_KEPT)(crop)
        if self._is_order:
            how = {"units": config.units, "allow_identity": config.allow_identity}
            rows = order_rows(config.name, list(rows), config.seed, config.tagger, **how)
        yield from super()._generate_examples(rows, images)

    def _image_file(self, row: Row, column: str, path: str) -> dict[str, Any]:
        if "bbox" in row and self.config.crop:
            box = tuple(row["bbox"])
            return {"path": crop_name(row["filename"], box), "bytes": self._crop(path, box)}
        return {"path": row["filename"], "bytes": self._read(path)}
