"""The pictures of toy_scenes: boxes fit what is drawn, what differs looks different, a PNG carries its scene."""

import io
import itertools

import numpy as np
import pytest
from PIL import Image

from vl_assay.hub_datasets.toy_scenes import world
from vl_assay.hub_datasets.toy_scenes.render import box, read_scene, render, to_png
from vl_assay.hub_datasets.toy_scenes.tasks import sample_episode
from vl_assay.hub_datasets.toy_scenes.world import Scene, Thing


def drawn_extent(thing):
    """XYXY of the pixels that a thing changes."""
    pixels = np.asarray(render(Scene((thing,)))).astype(int)
    ys, xs = np.nonzero(np.abs(pixels - pixels[0, 0]).sum(axis=2))
    return xs.min(), ys.min(), xs.max() + 1, ys.max() + 1


@pytest.mark.parametrize("size", world.SIZES)
def test_boxes_are_tight_around_the_pixels(size):
    for shape, texture, (x, y) in itertools.product(world.SHAPES, world.TEXTURES, ((22, 104), (65, 23))):
        thing = Thing(shape, "green", size, texture, x, y)
        assert box(thing) == pytest.approx(drawn_extent(thing), abs=1.5)


@pytest.mark.parametrize("kind", ["shape", *world.ATTRIBUTES])
def test_things_that_differ_in_one_value_look_different(kind):
    values = world.SHAPES if kind == "shape" else world.ATTRIBUTES[kind]
    thing = {"shape": "ring", "colour": "red", "size": "small", "texture": "striped", "x": 64, "y": 64}
    pictures = {render(Scene((Thing(**thing | {kind: value}),))).tobytes() for value in values}
    assert len(pictures) == len(values)


def test_a_thing_inside_another_is_drawn_on_top():
    inner = Thing("circle", "red", "small", "plain", 64, 64)
    outer = Thing("square", "blue", "big", "plain", 64, 64)
    alone = render(Scene((inner,))).getpixel((64, 64))
    assert {render(Scene(order)).getpixel((64, 64)) for order in ((inner, outer), (outer, inner))} == {alone}


def test_a_png_carries_its_scene_and_another_format_does_not():
    scene = sample_episode(0, "test", 0).scene
    image = Image.open(io.BytesIO(to_png(scene)))
    assert read_scene(image) == scene
    assert image.convert("RGB").tobytes() == render(scene).tobytes()
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, format="JPEG")
    assert read_scene(Image.open(buffer)) is None
    assert read_scene(render(scene)) is None
