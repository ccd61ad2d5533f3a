"""VALSE (Parcalabescu et al., ACL 2022) as a `datasets` builder: eleven pieces, each on a linguistic phenomenon.

A row is an image, a caption and a foil, which differs from it in what the piece is about. The text is as released.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ..sources.builders import Images, ReleasedRows, Rows, VerifiedConfig, make_configs
from ..sources.image_archives import COCO_VAL2014, COCO_VAL2017
from ..sources.records import Row, check_row_count
from ..sources.source_files import SourceFile, data_folder, is_file_name

_GET = "Get it with `git clone https://github.com/Heidelberg-NLP/VALSE` and put the images where its card says"
_SCHEMA = {
    "image_file": str,
    "caption": str,
    "foil": str,
    "dataset": str,
    "mturk": {"caption": int},
}
# How many annotators have to prefer the caption: the authors' rule.
_VOTES = 2
_URL = "https://raw.githubusercontent.com/Heidelberg-NLP/VALSE/2152d90d4aecd11f7f74cf03420abcb63efff9c5/data"
# The file of each piece, how many rows it has, how many of them are valid, and where the authors have its images.
_PIECES = {
    "existence": ("existence", 534, 505, "visual7w/images"),
    "plurals": ("plurals", 1_000, 851, "plurals/test_images"),
    "counting_hard": ("counting-hard", 1_000, 868, "visual7w/images"),
    "counting_small": ("counting-small-quant", 1_000, 900, "visual7w/images"),
    "counting_adversarial": ("counting-adversarial", 756, 691, "visual7w/images"),
    "relations": ("relations", 614, 535, "relations/test_images"),
    "action_replacement": ("action-replacement", 779, 648, "actions/images_512"),
    "actant_swap": ("actant-swap", 1_042, 949, "actions/images_512"),
    "coreference_standard": ("coreference-standard", 916, 708, "coref/release_too_many_is_this_in_color/images"),
    "coreference_hard": ("coreference-hard", 141, 104, "coref/release_v18/test_images"),
    "foil_it": ("foil-it", 1_000, 943, "val2014"),
}
_ARCHIVES = {"plurals": COCO_VAL2017, "relations": COCO_VAL2017, "foil_it": COCO_VAL2014}


@dataclass
class ValseConfig(VerifiedConfig):
    """`all_rows` keeps the rows, too, in which fewer than two annotators prefer the caption."""

    all_rows: bool = False


class Valse(ReleasedRows):
    """Eleven configurations, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(ValseConfig, "VALSE", _PIECES)
    BUILDER_CONFIG_CLASS = ValseConfig
    GET_SOURCES = _GET
    ROWS: ClassVar = {
        name: Rows(SourceFile(f"data/{stem}.json", (f"{stem}.json",), f"{_URL}/{stem}.json"), _SCHEMA, count)
        for name, (stem, count, _, _) in _PIECES.items()
    }
    COLUMNS = "id category image filename caption negative_caption source"

    @property
    def _folder(self) -> Any:
        return data_folder(self.config.data_dir, _GET, is_needed=False)

    def _images(self) -> Images:
        name = self.config.name
        folder = _PIECES[name][3]
        archives = (_ARCHIVES[name],) if name in _ARCHIVES else ()
        coco = tuple(archive.inside.rstrip("/") for archive in archives)
        return Images((f"data/{folder}", folder, *coco), f"{_GET}, here data/{folder}", archives)

    def _problem(self, record: Row) -> str | None:
        name = record["image_file"]
        return None if is_file_name(name) else f"image_file {name!r} is not a bare file name"

    def _read_part(self, name: str, part: Rows, dl_manager: Any) -> list[Row]:
        rows = super()._read_part(name, part, dl_manager)
        if self._verifies and not self.config.all_rows:
            check_row_count(len(rows), _PIECES[name][2], f"{name} (valid rows)")
        return rows

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        if self.config.all_rows or record["mturk"]["caption"] >= _VOTES:
            yield {
                "id": f"{part}/{key}",
                "category": part,
                "filename": record["image_file"],
                "caption": record["caption"],
                "negative_caption": record["foil"],
                "source": record["dataset"],
            }
