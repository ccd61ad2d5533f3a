"""Drawn images for classification: a single object of each shape, colour, size and texture of toy_scenes."""

from __future__ import annotations

import itertools

import numpy as np

from ..toy_scenes.render import to_png
from ..toy_scenes.world import CANVAS, COLOURS, RADIUS, SHAPES, SIZES, TEXTURES, Scene, Thing
from .labelled import Labelled


def draw_shapes() -> Labelled:
    """Draw the 512 images; a class is a colour and a shape, and positions are random with a fixed seed."""
    names = [f"{colour} {shape}" for colour, shape in itertools.product(COLOURS, SHAPES)]
    rng = np.random.default_rng(0)
    images, scenes = [], []
    for label, (colour, shape) in enumerate(itertools.product(COLOURS, SHAPES)):
        for size, texture in itertools.product(SIZES, TEXTURES):
            reach = RADIUS[size] + 3
            x, y = rng.integers(reach, CANVAS - reach, 2).tolist()
            images.append((f"{colour}-{shape}-{size}-{texture}.png", label))
            scenes.append(Scene((Thing(shape, colour, size, texture, x, y),)))
    return Labelled(names, images, read=lambda place: to_png(scenes[place]))
