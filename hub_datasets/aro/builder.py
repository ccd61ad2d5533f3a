"""ARO (Yuksekgonul et al., ICLR 2023) as a `datasets` builder, from the user's copy of its sources or mirrors.

A row is one image-to-text test. `vg_relation` and `vg_attribution` show a photograph of Visual Genome: a caption
describes what is in its box, and in another the two objects of a relation, or the attributes of two objects, are
exchanged. `coco_order` and `flickr30k_order` show a photograph of COCO or Flickr30k: four captions have the words of
the positive caption in another order.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..authoring.text.shuffles import SHUFFLES
from ..retrieval.karpathy import SOURCES, CaptionRelease, KarpathyBuilder, ShuffleConfig, perturb
from ..sources.builders import Images, ReleasedRows, Rows, make_configs
from ..sources.columns import columns
from ..sources.crops import crop, crop_name
from ..sources.records import Row
from ..sources.source_files import ImagePaths, data_folder, read_bytes
from .release import DRIVE_IDS, annotation_file, problem, released_rows, to_row

# Successive rows often share a box: its crop is made once for them.
_CROPS_KEPT = 32
# The number of negatives of every row of order, as in the paper.
_NEGATIVES = 4
_ORDER = "image filename caption negative_captions perturbations testable text_index released_text seed tagger"
_COLUMNS = {
    "vg_relation": "category image filename caption negative_caption relation bbox",
    "vg_attribution": "category image filename caption negative_caption attributes bbox",
    "coco_order": _ORDER,
    "flickr30k_order": _ORDER,
}
CONFIG_NAMES = tuple(_COLUMNS)


@dataclass
class AROConfig(ShuffleConfig):
    """One part of ARO; `seed`, `tagger`, `units` and `allow_identity` are options of the order configurations.

    `crop` (for `vg_relation` and `vg_attribution`) gives the part of the image in the row's box as a PNG; without it,
    the whole image, bytes as in the file.
    """

    crop: bool = True


class ARO(KarpathyBuilder, ReleasedRows):
    """Four configurations, one split `test`; the card has the columns and the layout of `data_dir`.

    An image to crop that cannot be decoded raises a `DataError`.
    """

    config: AROConfig
    BUILDER_CONFIG_CLASS = AROConfig
    IS_DOWNLOADED = True
    BUILDER_CONFIGS: ClassVar = make_configs(AROConfig, "ARO", CONFIG_NAMES)
    IMAGES = Images(
        ("images",),
        f"Get them with `gdown {DRIVE_IDS['vgr_vga_images.zip']}` (vgr_vga_images.zip, 1 GB), unzip in data_dir",
    )

    def _columns(self) -> dict[str, Any]:
        return columns(f"id {_COLUMNS[self.config.name]}")

    @property
    def _is_order(self) -> bool:
        """Return whether the words of the captions are shuffled."""
        return self.config.name.endswith("_order")

    @property
    def _source(self) -> CaptionRelease:
        return SOURCES[self.config.name.removesuffix("_order")]

    @property
    def _folder(self) -> Any:
        if self._is_order:
            return super()._folder
        return data_folder(self.config.data_dir, annotation_file(self.config.name).remedy, is_needed=False)

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        kind = KarpathyBuilder if self._is_order else ReleasedRows
        return kind._read_rows(self, dl_manager)

    def _parts(self) -> Mapping[str, Rows]:
        return {self.config.name: released_rows(self.config.name, self._folder)}

    def _problem(self, record: Row) -> str | None:
        return problem(record)

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        yield to_row(part, key, record)

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        kind = KarpathyBuilder if self._is_order else ReleasedRows
        return kind._find_images(self, dl_manager, rows)

    def _generate_examples(self, rows: Iterable[Row], images: ImagePaths | None) -> Iterator[tuple[str, Row]]:
        # An image is read once for consecutive rows that share it.
        self._read = functools.lru_cache(1)(read_bytes)
        self._crop = functools.lru_cache(_CROPS_KEPT)(crop)
        yield from super()._generate_examples(self._order_rows(list(rows)) if self._is_order else rows, images)

    def _order_rows(self, entries: list[Row]) -> Iterator[Row]:
        """Yield one row per caption of each image (ARO, section 2.2); it depends only on the caption and options."""
        for entry, shuffled in perturb(entries, SHUFFLES, self.config):
            for index, (text, caption) in enumerate(zip(entry["captions"], shuffled.captions, strict=True)):
                perturbed = {
                    name: texts[index] for name, texts in shuffled.perturbed.items() if texts[index] is not None
                }
                negatives = itertools.cycle(list(perturbed.values()) or [caption])
                yield {
                    "id": f"{entry['id']}-{index}",
                    "filename": entry["filename"],
                    "caption": caption,
                    "negative_captions": list(itertools.islice(negatives, _NEGATIVES)),
                    "perturbations": list(perturbed),
                    "testable": any(negative != caption for negative in perturbed.values()),
                    "text_index": index,
                    "released_text": text,
                    "seed": self.config.seed,
                    "tagger": shuffled.tagger,
                }

    def _image_file(self, row: Row, column: str, path: str) -> dict[str, Any]:
        if "bbox" in row and self.config.crop:
            box = tuple(row["bbox"])
            return {"path": crop_name(row["filename"], box), "bytes": self._crop(path, box)}
        return {"path": row["filename"], "bytes": self._read(path)}
