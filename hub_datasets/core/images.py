"""Images as models and people see them: one way to decode a file, for scoring, for crops and for pages.

An image is its stored pixels in RGB, 8 bits each. An orientation in EXIF data is not applied, as in the papers' own
scripts, so that boxes, models and annotators mean the same pixels.
"""

from __future__ import annotations

import io
from collections.abc import Collection

import numpy as np
from PIL import ExifTags, Image, TiffImagePlugin, UnidentifiedImageError

from ...metrics.common.storage import refuse_pointer

# Other formats, such as EPS, start programs or are read by little-tested code. Pillow counts phones' MPO as JPEG.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MOST_PIXELS = 100_000_000
# Servers take requests of 20 MB and more, in which four characters stand for three bytes.
MOST_SENT = 15_000_000
# Models scale the shorter side to a fixed length: a line of 30,000 pixels would become an image of gigabytes.
MOST_ASPECT = 200
# TIFF decodes complete tiles, however small the image; programs write tiles of 128 to 1,024 pixels.
MOST_TILE = 1_024
# The errors that decoding a damaged file may raise.
DECODING_ERRORS = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


def decode(content: bytes) -> Image.Image:
    """Decode an image file into RGB.

    Raises:
        OSError, SyntaxError, ValueError, Image.DecompressionBombError: one of `DECODING_ERRORS`: no image in one of the
            `FORMATS`, a damaged one, more than `MOST_PIXELS`, a side over `MOST_ASPECT` times as long as the other,
            tiles longer than `MOST_TILE` and than the image, or pixels of 32 bits, whose range is unknown.
    """
    with open_checked(content) as image:
        if image.mode.startswith("I;16"):  # Pillow's conversion would make all above 255 white
            return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)).convert("RGB")
        if image.mode in ("I", "F"):
            raise ValueError(f"its pixels have 32 bits (mode {image.mode}); save it with 8 or 16 bits")
        return image.convert("RGB")


def check_image(content: bytes) -> None:
    """Raise what `decode` would raise; a JPEG is decoded at an eighth of its size, in half the time or less."""
    with open_checked(content) as image:
        if image.format == "JPEG":
            image.draft(None, (1, 1))
            image.load()
            return
    decode(content)


def portable(
    content: bytes, most: int | None = MOST_SENT, kinds: Collection[str] = ("JPEG", "PNG")
) -> tuple[str, bytes]:
    """Return media type and content of a file that every program shows as `decode` does; raise as `decode`.

    The file itself, if it is one of `kinds`, in RGB and without an EXIF orientation, else a PNG; at most `most` bytes.
    """
    image = decode(content)
    with open_checked(content) as file:
        kind = str(file.format)
        turned = file.getexif().get(ExifTags.Base.Orientation, 1) != 1
        is_plain = kind in kinds and file.mode == "RGB" and not turned and "transparency" not in file.info
    if not is_plain:
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        kind, content = "PNG", buffer.getvalue()
    if most is not None and len(content) > most:
        raise ValueError(f"it has {len(content):,} bytes as {kind}; {most:,} can be sent. Scale it down")
    return f"image/{kind.lower()}", content


def thumbnail(content: bytes, side: int) -> tuple[bytes, int, int]:
    """Return a small version of an image, as JPEG, and the width and height of the image; raise as `decode`.

    Only as many pixels of a JPEG are decoded as needed: thousands of thumbnails take seconds.
    """
    with open_checked(content) as image:
        size = image.size
        image.draft("RGB", (side, side))
        small = image if image.mode == "RGB" else decode(content)
        small.thumbnail((side, side), Image.Resampling.BILINEAR)
        file = io.BytesIO()
        small.save(file, "JPEG", quality=70)
    return file.getvalue(), *size


def open_checked(content: bytes) -> Image.Image:
    """Open an image without decoding it, after checking its size; raise as `decode`."""
    refuse_pointer(content)
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError:  # Pillow names the address of the bytes
        raise UnidentifiedImageError(f"not an image in one of the formats {', '.join(FORMATS)}") from None
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise ValueError(f"it has {width:,} × {height:,} pixels; an image may have {MOST_PIXELS:,}. Scale it down")
    if max(width, height) > MOST_ASPECT * min(width, height):
        raise ValueError(
            f"it has {width:,} × {height:,} pixels; one side may be {MOST_ASPECT} times as long as the other. Cut it"
        )
    tags = getattr(image, "tag_v2", {})
    for tag, side in ((TiffImagePlugin.TILEWIDTH, width), (TiffImagePlugin.TILELENGTH, height)):
        length = tags.get(tag, 0)
        if not isinstance(length, int) or length > max(side, MOST_TILE):
            raise ValueError(
                f"it has {width:,} × {height:,} pixels in a tile {length!r:.20} pixels long; a tile may have "
                f"{MOST_TILE:,}, or the image's length. Save it without tiles"
            )
    return image
