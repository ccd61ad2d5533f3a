"""The toy world: objects on a canvas, their relations, and how scenes are sampled.

Every label of the benchmark is computed from a `Scene`, never from pixels.
Coordinates are pixels of a 128 × 128 canvas, x to the right and y down.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np

CANVAS = 128
SHAPES = ("circle", "square", "triangle", "star", "cross", "ring", "diamond", "pill")
COLOURS = ("red", "blue", "green", "yellow", "purple", "orange", "pink", "black")
TEXTURES = ("plain", "striped", "dotted", "checkered")
SIZES = ("small", "big")
ATTRIBUTES = {"size": SIZES, "texture": TEXTURES, "colour": COLOURS}
RELATIONS = ("left of", "right of", "above", "below", "inside", "larger than")
SIZE_RELATIONS = ("inside", "larger than")

RADIUS = {"small": 9, "big": 19}
_CELL_CENTRES = (23, 64, 105)
_JITTER = 1
# Centres of two objects in one column (or row) differ by at most 3 pixels, in two columns by at least 38: with a
# threshold between them no relation is ambiguous.
_APART = 20


@dataclass(frozen=True)
class Thing:
    """One object of a scene; `x`, `y` is its centre in pixels."""

    shape: str
    colour: str
    size: str
    texture: str
    x: int
    y: int

    @property
    def radius(self) -> int:
        """Half the side of the object's square, in pixels."""
        return RADIUS[self.size]


@dataclass(frozen=True)
class Scene:
    """Two to four objects of different shapes; captions describe the first two."""

    things: tuple[Thing, ...]

    def to_json(self) -> str:
        """Return the scene as one line of JSON, the content of the PNG text field ``scene``."""
        return json.dumps({"things": [vars(thing) for thing in self.things]}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Scene:
        """Return the scene that `to_json` wrote."""
        return cls(tuple(Thing(**thing) for thing in json.loads(text)["things"]))

    def values(self, kind: str) -> set[str]:
        """Return all values of an attribute kind (or of ``"shape"``) that occur in the scene."""
        return {getattr(thing, kind) for thing in self.things}


def holds(relation: str, a: Thing, b: Thing) -> bool:
    """Return whether `a` stands in `relation` (one of `RELATIONS`) to `b`."""
    dx, dy = b.x - a.x, b.y - a.y
    return {
        "left of": dx > _APART,
        "right of": -dx > _APART,
        "above": dy > _APART,
        "below": -dy > _APART,
        "inside": a.radius < b.radius and a.radius + max(abs(dx), abs(dy)) <= b.radius,
        "larger than": a.radius > b.radius,
    }[relation]


@dataclass(frozen=True)
class ScenePlan:
    """Constraints on the first two objects of a scene: `relation` holds between them, `false_relation` does not.

    `contrast` is the kind of attribute in which the two differ.
    """

    relation: str
    false_relation: str
    contrast: str

    @property
    def named(self) -> tuple[str, ...]:
        """The attribute kinds that a caption names: the contrast, and with sizes the colour."""
        return ("size", "colour") if self.contrast == "size" else (self.contrast,)


def sample_plan(rng: np.random.Generator) -> ScenePlan:
    """Return a plan with the pair (relation, false relation) uniform over ordered pairs.

    Uniform, so that the relation of a caption is independent of its label. Captions with a relation of size name no
    sizes: "a big ring inside a small star" could be detected without the image.
    """
    relation, false_relation = (str(r) for r in rng.choice(RELATIONS, size=2, replace=False))
    kinds = ["colour", "texture"]
    if relation not in SIZE_RELATIONS and false_relation not in SIZE_RELATIONS:
        kinds.append("size")
    return ScenePlan(relation, false_relation, str(rng.choice(kinds)))


def sample_scene(rng: np.random.Generator, plan: ScenePlan) -> Scene:
    """Return a scene of two to four objects that satisfies `plan`, by rejection sampling."""
    while True:
        first, second, *rest = _sample_things(rng, int(rng.integers(2, 5)))
        if plan.relation == "inside":
            dx, dy = rng.integers(-1, 2, size=2)
            first = replace(first, x=second.x + int(dx), y=second.y + int(dy))
        if getattr(first, plan.contrast) == getattr(second, plan.contrast) or first.colour == second.colour:
            continue
        if holds(plan.relation, first, second) and not holds(plan.false_relation, first, second):
            return Scene((first, second, *rest))


def _sample_things(rng: np.random.Generator, count: int) -> list[Thing]:
    shapes = rng.choice(SHAPES, size=count, replace=False)
    colours = rng.choice(COLOURS, size=count)
    sizes = rng.choice(SIZES, size=count)
    # One texture is absent from each scene, so that negatives can name it.
    textures = rng.choice(rng.choice(TEXTURES, size=len(TEXTURES) - 1, replace=False), size=count)
    cells = rng.choice(len(_CELL_CENTRES) ** 2, size=count, replace=False)
    jitter = rng.integers(-_JITTER, _JITTER + 1, size=(count, 2))
    return [
        Thing(
            shape=str(shapes[i]),
            colour=str(colours[i]),
            size=str(sizes[i]),
            texture=str(textures[i]),
            x=_CELL_CENTRES[int(cells[i]) % 3] + int(jitter[i, 0]),
            y=_CELL_CENTRES[int(cells[i]) // 3] + int(jitter[i, 1]),
        )
        for i in range(count)
    ]


def exchange_values(scene: Scene, kind: str) -> Scene:
    """Return the scene with the values of one attribute kind exchanged between the first two objects."""
    first, second, *rest = scene.things
    exchanged = (replace(a, **{kind: getattr(b, kind)}) for a, b in ((first, second), (second, first)))
    return Scene((*exchanged, *rest))


def exchange_places(scene: Scene, relation: str) -> Scene:
    """Return the scene with the roles of the first two objects exchanged, so that `relation` holds in reverse."""
    first, second, *rest = scene.things
    if relation in SIZE_RELATIONS:
        first, second = replace(first, size=second.size), replace(second, size=first.size)
    swapped = (replace(first, x=second.x, y=second.y), replace(second, x=first.x, y=first.y))
    return Scene((*swapped, *rest))
