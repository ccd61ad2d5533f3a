"""EqBen (Wang et al., ICCV 2023) as a `datasets` builder.

A row is a group of two images that differ in little, frames of a video or renderings of a scene, and two captions, each
true of only one image. The text is exactly as released; frames that are arrays become PNG files.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from ...metrics.common.errors import DataError
from ..sources.builders import Images, ReleasedRows, Rows, SourceConfig, make_configs
from ..sources.columns import GROUP
from ..sources.downloads import drive_address
from ..sources.records import Row
from ..sources.source_files import SourceFile

# The groups of each subset in the full test set; of the subset of 10 % no counts are known.
FULL_COUNTS = {
    "eqbenag": 195_872,
    "eqbenyoucook2": 45_849,
    "eqbengebc": 1_814,
    "eqbenkubric_loc": 2_000,
    "eqbenkubric_attr": 2_000,
    "eqbenkubric_cnt": 2_000,
    "eqbensd": 1_513,
}
# The Google Drive ids of each set's image archive and annotations.
_DRIVE = {
    False: ("13Iuirsvx34-9F_1Mjhs4Dqn59yokyUjy", "18BSRf1SnBtGiEc42mzRLirXaBLzYE5Tt"),
    True: ("1e608uhd36ak_v7SnlMVaYcekBc4gBqzn", "1gNR4K2Cv4rbnjVRdHuBV6PuoJ5MlRXnZ"),
}
_GET = {
    full: f"Get {name} with `gdown {{0}}` (images, to be unpacked) and `gdown {{1}}`".format(*_DRIVE[full])
    for full, name in ((False, "the 10 % subset"), (True, "the full test set, 100 GB,"))
}
_NAMES = {False: "eqben_subset_10percent_final.json", True: "private_info_global.json"}
_SCHEMA = {"image0": str, "caption0": str, "image1": str, "caption1": str}
_MOST_VALUES = 100_000_000  # the limit for a frame, far more than any video has


@dataclass
class EqBenConfig(SourceConfig):
    """With `full`, the full test set in place of the authors' subset of 10 %."""

    full: bool = False


class EqBen(ReleasedRows):
    """Seven configurations, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(EqBenConfig, "EqBen", FULL_COUNTS)
    BUILDER_CONFIG_CLASS = EqBenConfig
    IS_DOWNLOADED = True
    COLUMNS = f"id {GROUP}"

    def _parts(self) -> Mapping[str, Rows]:
        name, remedy = (by_form[self.config.full] for by_form in (_NAMES, _GET))
        url = drive_address(_DRIVE[self.config.full][1])
        return {self.config.name: Rows(SourceFile(name, (f"annotation/{name}",), url, remedy=remedy), _SCHEMA)}

    def _images(self) -> Images:
        url = drive_address(_DRIVE[self.config.full][0])
        return Images(("image_subset", "images", "image"), _GET[self.config.full], url=url)

    def _problem(self, record: Row) -> str | None:
        subsets = [record[f"image{side}"].partition("/")[0] for side in "01"]
        if subsets[0] != subsets[1] or subsets[0] not in FULL_COUNTS:
            return f"the images lie in {subsets[0]!r} and {subsets[1]!r}, not in one folder of {', '.join(FULL_COUNTS)}"
        empty = [name for name, value in record.items() if not value.strip()]
        return f"{empty[0]} is empty" if empty else None

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        if record["image0"].startswith(f"{part}/"):
            names = {f"filename_{side}": record[f"image{side}"] for side in "01"}
            yield {"id": f"{part}/{key}"} | names | {f"caption_{side}": record[f"caption{side}"] for side in "01"}

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        rows, name, origin = super()._read_rows(dl_manager), self.config.name, _NAMES[self.config.full]
        if not rows:
            raise DataError(f"{origin} in {self._folder} has no groups of {name}. {_GET[self.config.full]}.")
        if self.config.full and len(rows) != FULL_COUNTS[name]:
            raise DataError(
                f"{origin} in {self._folder} has {len(rows):,} groups of {name}, but the release has "
                f"{FULL_COUNTS[name]:,}: it is damaged or of another release. {_GET[True]}; or leave full out."
            )
        return rows

    def _image_file(self, row: Row, column: str, path: str) -> dict[str, Any]:
        if not path.endswith(".npy"):
            return super()._image_file(row, column, path)
        name = PurePosixPath(row[column.replace("image", "filename")])
        return {"path": str(name.with_suffix(".png")), "bytes": frame_as_png(path)}


def frame_as_png(path: str) -> bytes:
    """Return the PNG file of a frame, a NumPy file of shape (height, width, 3), uint8, blue, green and red.

    Raises:
        DataError: the file holds something else. It is mapped, and nothing in it is unpickled.
    """
    try:
        frame = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} is not a file of NumPy with an array ({error}). Get it again.") from error
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or not 0 < frame.size <= _MOST_VALUES:
        raise DataError(
            f"{path} holds {frame.dtype} of shape {frame.shape}. Expected uint8 of shape (height, width, 3) with at "
            f"most {_MOST_VALUES:,} values."
        )
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(frame[:, :, ::-1])).save(file, "PNG")
    return file.getvalue()
