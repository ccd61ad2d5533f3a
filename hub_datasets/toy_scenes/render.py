"""Rendering of scenes, and reading a scene from its image."""

from __future__ import annotations

import functools
import io
import math
from functools import cache

from PIL import Image, ImageChops, ImageDraw
from PIL.PngImagePlugin import PngInfo

from .world import CANVAS, Scene, Thing

_BACKGROUND = (245, 244, 240)
_RGB = {
    "red": (214, 40, 40),
    "blue": (45, 95, 210),
    "green": (40, 150, 70),
    "yellow": (240, 200, 30),
    "purple": (125, 60, 170),
    "orange": (240, 130, 25),
    "pink": (240, 130, 180),
    "black": (30, 30, 34),
}
# Supersampling: images are drawn at twice the size and reduced, for smooth edges.
_SCALE = 2
_HALO = 1


def render(scene: Scene) -> Image.Image:
    """Return the scene as an RGB image of `CANVAS` × `CANVAS` pixels; smaller things are drawn over larger ones."""
    image = Image.new("RGB", (CANVAS * _SCALE, CANVAS * _SCALE), _BACKGROUND)
    for thing in sorted(scene.things, key=lambda thing: -thing.radius):
        reach = thing.radius + _HALO + 1
        corner = ((thing.x - reach) * _SCALE, (thing.y - reach) * _SCALE)
        side = 2 * reach * _SCALE
        image.paste(_BACKGROUND, corner, _mask(thing.shape, thing.radius + _HALO, side))
        mask = _mask(thing.shape, thing.radius, side)
        image.paste(_RGB[thing.colour], corner, mask)
        if thing.texture != "plain":
            pattern = _pattern(thing.texture).crop((*corner, corner[0] + side, corner[1] + side))
            image.paste(_shade(thing.colour), corner, ImageChops.multiply(mask, pattern))
    return image.reduce(_SCALE)


@functools.lru_cache(10_240)
def to_png(scene: Scene) -> bytes:
    """Return the scene's image as PNG bytes, with the scene in the text field ``scene`` (see `read_scene`).

    Images are cached, at most 60 MB, as all configurations have the same scenes.
    """
    info = PngInfo()
    info.add_text("scene", scene.to_json())
    buffer = io.BytesIO()
    render(scene).save(buffer, format="PNG", pnginfo=info)
    return buffer.getvalue()


def read_scene(image: Image.Image) -> Scene | None:
    """Return the scene that the PNG of an image contains, None for other images; for oracles and tests of labels."""
    text = image.info.get("scene")
    return Scene.from_json(text) if isinstance(text, str) else None


def box(thing: Thing) -> tuple[float, float, float, float]:
    """Return the tight bounding box of an object, XYXY in pixels."""
    xs, ys = zip(*_outline(thing.shape), strict=True)
    return (
        thing.x + thing.radius * min(xs),
        thing.y + thing.radius * min(ys),
        thing.x + thing.radius * max(xs),
        thing.y + thing.radius * max(ys),
    )


def _shade(colour: str) -> tuple[int, int, int]:
    """Return the colour of a texture: darker than the object, lighter for black."""
    if colour == "black":
        return (165, 165, 170)
    r, g, b = (round(0.42 * channel) for channel in _RGB[colour])
    return (r, g, b)


@cache
def _mask(shape: str, radius: int, side: int) -> Image.Image:
    """Return a shape in the middle of a `side` × `side` square, 255 inside; `side` is in supersampled pixels."""
    mask = Image.new("L", (side, side))
    draw = ImageDraw.Draw(mask)
    draw.polygon(_points(shape, radius * _SCALE, side / 2), fill=255)
    if shape == "ring":
        draw.polygon(_points(shape, 0.6 * radius * _SCALE, side / 2), fill=0)
    return mask


def _points(shape: str, radius: float, centre: float) -> list[tuple[float, float]]:
    return [(centre + radius * x, centre + radius * y) for x, y in _outline(shape)]


@cache
def _outline(shape: str) -> tuple[tuple[float, float], ...]:
    """Return the outline of a shape as points in [-1, 1] × [-1, 1]."""
    if shape in ("circle", "ring"):
        return _arc(0, 360)
    if shape == "pill":
        right = ((0.5 + 0.5 * x, 0.5 * y) for x, y in _arc(-90, 90))
        left = ((-0.5 + 0.5 * x, 0.5 * y) for x, y in _arc(90, 270))
        return (*right, *left)
    if shape == "star":
        corners = ((2 * math.pi * i / 10 - math.pi / 2, (1, 0.48)[i % 2]) for i in range(10))
        return tuple((r * math.cos(angle), r * math.sin(angle)) for angle, r in corners)
    if shape == "cross":
        a = 0.36
        return (
            *((-a, -1), (a, -1), (a, -a), (1, -a), (1, a), (a, a)),
            *((a, 1), (-a, 1), (-a, a), (-1, a), (-1, -a), (-a, -a)),
        )
    polygons = {
        "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        "triangle": ((0.0, -0.95), (1.0, 0.85), (-1.0, 0.85)),
        "diamond": ((0.0, -1.0), (0.75, 0.0), (0.0, 1.0), (-0.75, 0.0)),
    }
    return polygons[shape]


def _arc(start: int, end: int) -> tuple[tuple[float, float], ...]:
    return tuple((math.cos(math.radians(a)), math.sin(math.radians(a))) for a in range(start, end + 1, 5))


@cache
def _pattern(texture: str) -> Image.Image:
    """Return the mask of a texture on a full canvas, 255 inside."""
    side = CANVAS * _SCALE
    pattern = Image.new("L", (side, side))
    draw = ImageDraw.Draw(pattern)
    if texture == "striped":
        for y in range(0, side, 10):
            draw.rectangle((0, y, side, y + 3), fill=255)
    elif texture == "dotted":
        for y in range(0, side, 12):
            for x in range((y // 12 % 2) * 6, side, 12):
                draw.ellipse((x, y, x + 5, y + 5), fill=255)
    else:
        for y in range(0, side, 8):
            for x in range((y // 8 % 2) * 8, side, 16):
                draw.rectangle((x, y, x + 7, y + 7), fill=255)
    return pattern
