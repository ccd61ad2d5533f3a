"""SugarCrepe (Hsieh et al., NeurIPS 2023 Datasets and Benchmarks) as a `datasets` builder.

A row is one image-to-text test: a COCO val2017 image, a caption that describes it and a hard negative. The text is
exactly as released, stray white space included. The seven configurations named after a category are the released
benchmark; the seven `unrefined_*` ones are the candidates before its adversarial refinement.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ...metrics.common.errors import DataError
from ..sources.builders import ReleasedRows, Rows, VerifiedConfig, make_configs
from ..sources.records import Row, shortened_list
from ..sources.source_files import is_file_name
from .release import ANNOTATIONS_URL, CATEGORIES, CONFIG_NAMES, IMAGES, SCHEMA, UNREFINED, annotation_file
from .v2 import IDS, NAME, TEXTS, texts_hash


class SugarCrepe(ReleasedRows):
    """Fifteen configurations, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(VerifiedConfig, "SugarCrepe", CONFIG_NAMES)
    IS_DOWNLOADED = True
    IMAGES = IMAGES
    COLUMNS = "id category image filename caption negative_caption"

    def _parts(self) -> Mapping[str, Rows]:
        names = CATEGORIES if self.config.name == NAME else (self.config.name,)
        return {name: Rows(annotation_file(name), SCHEMA) for name in names}

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        rows = super()._read_rows(dl_manager)
        return self._check_v2(rows) if self.config.name == NAME else rows

    def _check_v2(self, rows: list[Row]) -> list[Row]:
        """Return the rows of `v2`, which must be those of its source release; ``verify=False`` allows deviations."""
        kept = [row for row in rows if row["id"] in IDS]
        lacking = sorted(IDS.difference(row["id"] for row in kept))
        difference = f"lacks {len(lacking):,} of {len(IDS):,} rows ({shortened_list(lacking)})" if lacking else ""
        if not difference and texts_hash((row["id"], row["caption"], row["negative_caption"]) for row in kept) != TEXTS:
            difference = f"has other captions in the {len(IDS):,} rows"
        if not difference:
            return kept
        problem = f"{NAME} was made from another release of SugarCrepe: this one {difference} of {NAME}"
        if self.config.verify or not kept:
            raise DataError(f"{problem}. Use the release at {ANNOTATIONS_URL}.")
        warnings.warn(problem, UserWarning, stacklevel=2)
        return kept

    def _problem(self, record: Row) -> str | None:
        name = record["filename"]
        return None if is_file_name(name) else f"filename {name!r} is not a bare file name"

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        yield {"id": f"{part}/{key}", "category": part.removeprefix(UNREFINED), **record}
