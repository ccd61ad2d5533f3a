"""Decoding: one rule for all, and nothing that takes the machine's memory or starts another program."""

import io
import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from damage import flipped
from PIL import Image

from vl_assay.hub_datasets.core.images import DECODING_ERRORS, FORMATS, decode, portable


def file_of(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_becomes_rgb(kind):
    image = decode(file_of(Image.new("RGB", (8, 6), (255, 0, 0)), kind))
    assert (image.mode, image.size) == ("RGB", (8, 6))
    assert image.getpixel((3, 3))[0] > 200


def test_16_bits_are_scaled_and_32_bits_refused():
    ramp = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    for kind in ("PNG", "TIFF"):
        decoded = np.asarray(decode(file_of(Image.fromarray(ramp), kind)))
        assert (decoded == (ramp >> 8)[..., None]).all()
    for values in (ramp.astype(np.int32), ramp.astype(np.float32)):
        with pytest.raises(ValueError, match=r"its pixels have 32 bits .* save it with 8 or 16 bits"):
            decode(file_of(Image.fromarray(values), "TIFF"))


def test_the_orientation_of_a_camera_is_not_applied():
    image = Image.new("RGB", (8, 4))
    exif = image.getexif()
    exif[0x0112] = 6
    assert decode(file_of(image, "JPEG", exif=exif)).size == (8, 4)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((30_000, 1), "30,000 × 1 pixels; one side may be 200 times as long"),
        ((1, 30_000), "1 × 30,000 pixels; one side may be 200 times as long"),
        ((12_000, 10_000), "12,000 × 10,000 pixels; an image may have 100,000,000"),
    ],
)
def test_images_that_would_take_gigabytes_are_refused_before_they_are_decoded(size, message):
    with pytest.raises(ValueError, match=message):
        decode(file_of(Image.new("1", size)))


def tiled(tile, kind="I", size=16):
    """A TIFF of 16 × 16 pixels in one compressed tile of that width and length."""
    content = zlib.compress(bytes(1000))
    code = {"H": 3, "I": 4, "f": 11}[kind]
    tags = [
        (256, 4, "I", size),
        (257, 4, "I", size),
        (258, 3, "H", 8),
        (259, 3, "H", 8),
        (262, 3, "H", 1),
        (277, 3, "H", 1),
    ]
    tags += [(322, code, kind, tile[0]), (323, code, kind, tile[1]), (324, 4, "I", 8), (325, 4, "I", len(content))]
    entries = b"".join(
        struct.pack("<HHI", tag, type_, 1) + struct.pack(f"<{code}", value).ljust(4, b"\0")
        for tag, type_, code, value in tags
    )
    return b"II*\0" + struct.pack("<I", 8 + len(content)) + content + struct.pack("<H", len(tags)) + entries + bytes(4)


@pytest.mark.parametrize(
    "tile",
    [(16384, 16384), (2048, 16), (16, 1040), (4294967280, 4294967280)],
)
def test_small_images_in_huge_tiles_are_refused_before_they_are_decoded(tile):
    with pytest.raises(ValueError, match=r"16 × 16 pixels in a tile .* pixels long; a tile may have 1,024"):
        decode(tiled(tile))


@pytest.mark.parametrize(("tile", "kind"), [((2048.0, 2048.0), "f"), ((1024, 1024), "H")])
def test_tiles_of_other_types_end_in_an_error_of_those_that_are_expected(tile, kind):
    with pytest.raises(DECODING_ERRORS):  # its tile is cut off
        decode(tiled(tile, kind))


def test_other_formats_are_refused():
    for content in (file_of(Image.new("RGB", (8, 8)), "EPS"), file_of(Image.new("RGB", (8, 8)), "PDF"), b"", b"text"):
        with pytest.raises(OSError, match="not an image in one of the formats BMP, GIF"):
            decode(content)


def test_damaged_images_end_in_an_error_of_those_that_are_expected():
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
    files = [file_of(noise, kind) for kind in FORMATS]
    for number in range(500):
        content = files[number % len(files)]
        for _ in range(1 + number % 3):
            content = flipped(content, rng)
        with suppress(*DECODING_ERRORS):
            decode(content[: len(content) if number % 4 else rng.integers(len(content))])


def test_a_file_to_send_shows_every_decoder_the_same_pixels_and_is_copied_where_it_does():
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    for kind in ("JPEG", "PNG"):
        content = file_of(image, kind)
        assert portable(content) == (f"image/{kind.lower()}", content)
    content = file_of(image, "WEBP")
    assert portable(content, kinds=("WEBP",)) == ("image/webp", content)
    exif = image.getexif()
    exif[0x0112] = 6  # a decoder that obeys it turns the image
    others = (
        file_of(image, "JPEG", exif=exif),
        file_of(image, "BMP"),
        file_of(image.convert("RGBA")),
        file_of(image, "GIF"),
    )
    for content in (*others, file_of(image, transparency=(0, 0, 0)), file_of(image.convert("L"), "JPEG")):
        kind, sent = portable(content)
        assert kind == "image/png"
        assert (np.asarray(Image.open(io.BytesIO(sent))) == np.asarray(decode(content))).all()


def test_a_file_that_is_damaged_or_too_large_to_send_is_an_error():
    content = file_of(Image.effect_noise((64, 64), 90).convert("RGB"), "JPEG")
    with pytest.raises(DECODING_ERRORS):
        portable(content[: len(content) // 2])
    with pytest.raises(ValueError, match="can be sent"):
        portable(content, len(content) - 1)
