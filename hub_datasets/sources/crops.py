"""Boxes (x, y, width, height) of images in pixels, and the part of an image in one."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import PurePosixPath

from PIL import Image

from ...metrics.common.errors import DataError
from ..core.images import DECODING_ERRORS, decode
from .source_files import read_bytes

# No photograph is as wide: a number beyond it is damage.
MOST_PIXELS = 100_000


def corners(box: Sequence[float]) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a box, in whole pixels as Pillow rounds them."""
    x, y, width, height = box
    return round(x), round(y), round(x + width), round(y + height)


def box_problem(box: Sequence[float]) -> str | None:
    """Return the fault of a box of four numbers; None if it is valid."""
    if not all(abs(side) <= MOST_PIXELS for side in box):  # NaN is not, either
        return f"the box {list(box)} is not in pixels"
    left, top, right, bottom = corners(box)
    return None if right > left and bottom > top else f"the box {list(box)} (x, y, width, height) holds no pixel"


def open_image(path: str, remedy: str = "Replace it") -> Image.Image:
    """An image file in RGB; `DataError` names a file that cannot be decoded."""
    try:
        return decode(read_bytes(path))
    except DECODING_ERRORS as error:
        raise DataError(f"{path} cannot be read as an image ({error}). {remedy}.") from error


def to_png(image: Image.Image, compress_level: int = 1) -> bytes:
    """An image as a PNG file; level 1 is at least twice as fast as the default 6, and its files some 6 % larger."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=compress_level)
    return buffer.getvalue()


def crop(path: str, box: Sequence[float], compress_level: int = 1) -> bytes:
    """The part of an image file in a box as a PNG file; what lies outside the image is black."""
    image = open_image(path, "Replace it, or pass crop=False to keep files as they are")
    return to_png(image.crop(corners(box)), compress_level)


def crop_name(filename: str, box: Sequence[float]) -> str:
    """A name that tells the crops of one image apart: 7.jpg and (5, 0, 90, 80) give 7-5-0-95-80.png, the corners."""
    return f"{PurePosixPath(filename).stem}-{'-'.join(map(str, corners(box)))}.png"
