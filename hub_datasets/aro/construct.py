"""Make VG-Relation and VG-Attribution from the scene graphs of GQA, as the paper did (ARO, appendix A.1).

A record has the fields of the authors' release, so that the builder reads what `rebuild` writes. The paper leaves
open what becomes of objects with several attributes; here every pair of different attributes makes a record. A test
that would occur twice, with the same box and captions, is made once.

The scene graphs are those of GQA's ``train_sceneGraphs.json`` and ``val_sceneGraphs.json``::

    {image id: {"width": …, "height": …, "objects": {object id: {
        "name": …, "x": …, "y": …, "w": …, "h": …, "attributes": [text, …],
        "relations": [{"name": text, "object": object id}, …]}}}}
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...metrics.common.errors import DataError
from ...metrics.common.storage import write_text
from ...metrics.functional.aro import SYMMETRIC
from ..core.crops import MOST_PIXELS
from ..core.source_files import check_rows
from .release import FILES

MIN_SHARE = 0.25

_GRAPH = {"width": float, "height": float, "objects": dict}
_SIDES = dict.fromkeys(("x", "y", "w", "h"), float)
_OBJECT = {"name": str, **_SIDES, "attributes": [str], "relations": [{"name": str, "object": str}]}
Object = Mapping[str, Any]


def relation_records(
    scene_graphs: Mapping[str, Any],
    *,
    symmetric: Collection[str] = SYMMETRIC,
    min_share: float = MIN_SHARE,
    drop_true_negatives: bool = False,
) -> Iterator[dict[str, Any]]:
    """The tests of VG-Relation: "the horse is eating the grass" against "the grass is eating the horse".

    A record is made for each relation from one object to another where both are large enough and have different
    names, in the order of the scene graphs.

    Args:
        scene_graphs: by image id, see the module.
        symmetric: names of relations that are left out, because both captions are true.
        min_share: least width and height of an object as shares of the image's, in [0, 1].
        drop_true_negatives: leave out, beyond the paper, records whose negative the scene graph itself asserts.

    Yields:
        Records with ``image_path``, ``bbox_x``, ``bbox_y``, ``bbox_w``, ``bbox_h`` (the smallest box around both
        objects, in pixels), ``true_caption``, ``false_caption`` and ``relation_name``.

    Raises:
        DataError: a scene graph of another shape; the message names the image and the object. Or `min_share` is not
            between 0 and 1.

    >>> horse = {"name": "horse", "x": 10, "y": 20, "w": 60, "h": 50, "attributes": [],
    ...          "relations": [{"name": "eating", "object": "2"}]}
    >>> grass = {"name": "grass", "x": 0, "y": 60, "w": 100, "h": 40, "attributes": [], "relations": []}
    >>> graphs = {"7": {"width": 100, "height": 100, "objects": {"1": horse, "2": grass}}}
    >>> [record] = relation_records(graphs)
    >>> record["true_caption"], record["false_caption"]
    ('the horse is eating the grass', 'the grass is eating the horse')
    >>> [record[side] for side in ("bbox_x", "bbox_y", "bbox_w", "bbox_h")]
    [0, 20, 100, 80]
    """
    for image, objects in _large_objects(scene_graphs, min_share):
        stated = {(key, edge["name"], edge["object"]) for key, thing in objects.items() for edge in thing["relations"]}
        found = []
        for key, thing in objects.items():
            for edge in thing["relations"]:
                relation, other_key = edge["name"], edge["object"]
                other = objects.get(other_key)
                if other is None or other["name"] == thing["name"] or relation in symmetric:
                    continue
                if drop_true_negatives and (other_key, relation, key) in stated:
                    continue
                captions = [
                    f"the {a['name']} is {relation} the {b['name']}" for a, b in ((thing, other), (other, thing))
                ]
                found.append(_record(image, (thing, other), captions) | {"relation_name": relation})
        yield from _once(found)


def attribution_records(
    scene_graphs: Mapping[str, Any], *, min_share: float = MIN_SHARE, drop_true_negatives: bool = False
) -> Iterator[dict[str, Any]]:
    """The tests of VG-Attribution: "the paved road and the white house" against "the white road and the paved house".

    A record is made for each two objects that are large enough and have different names, and each two different
    attributes of theirs, in the order of the scene graphs. Two objects are paired once: their order in the caption is
    that of the scene graph.

    Arguments, records and errors are those of `relation_records`, with ``attributes``, a list of two, in place of
    ``relation_name``. The scene graph asserts a negative if both objects have both attributes.

    >>> road = {"name": "road", "x": 0, "y": 60, "w": 100, "h": 40, "attributes": ["paved"], "relations": []}
    >>> house = {"name": "house", "x": 30, "y": 0, "w": 50, "h": 70, "attributes": ["white"], "relations": []}
    >>> graphs = {"7": {"width": 100, "height": 100, "objects": {"1": road, "2": house}}}
    >>> [record] = attribution_records(graphs)
    >>> record["true_caption"], record["false_caption"]
    ('the paved road and the white house', 'the white road and the paved house')
    >>> record["attributes"]
    ['paved', 'white']
    """
    for image, objects in _large_objects(scene_graphs, min_share):
        found = []
        for one, two in itertools.combinations(objects.values(), 2):
            if one["name"] == two["name"]:
                continue
            for first, second in itertools.product(one["attributes"], two["attributes"]):
                negative_is_true = second in one["attributes"] and first in two["attributes"]
                if first == second or (drop_true_negatives and negative_is_true):
                    continue
                captions = [
                    f"the {a} {one['name']} and the {b} {two['name']}" for a, b in ((first, second), (second, first))
                ]
                found.append(_record(image, (one, two), captions) | {"attributes": [first, second]})
        yield from _once(found)


def rebuild(
    scene_graphs: str | Path,
    folder: str | Path,
    *,
    symmetric: Collection[str] = SYMMETRIC,
    min_share: float = MIN_SHARE,
    drop_true_negatives: bool = False,
) -> dict[str, int]:
    """Write both files of the release anew from a file of scene graphs.

    Args:
        scene_graphs: a JSON file of GQA's scene graphs.
        folder: where ``visual_genome_relation.json`` and ``visual_genome_attribution.json`` go; made if it is not
            there. With GQA's photographs in its ``images`` it is a `data_dir` for the builder, which has to be told
            ``verify=False``, as the number of rows is not the release's.
        symmetric, min_share, drop_true_negatives: see `relation_records`.

    Returns:
        The number of records by the name of the builder's configuration.

    Raises:
        DataError: the file is missing, no JSON, or of another shape; nothing is written then.
        StorageError: `folder` cannot be written.
    """
    try:
        graphs = json.loads(Path(scene_graphs).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"the scene graphs {scene_graphs} cannot be read: {error}") from error
    options: dict[str, Any] = {"min_share": min_share, "drop_true_negatives": drop_true_negatives}
    records = {
        "vg_relation": list(relation_records(graphs, symmetric=symmetric, **options)),
        "vg_attribution": list(attribution_records(graphs, **options)),
    }
    for config, rows in records.items():
        write_text(Path(folder) / FILES[config], json.dumps(rows, ensure_ascii=False))
    return {config: len(rows) for config, rows in records.items()}


def _large_objects(scene_graphs: Mapping[str, Any], min_share: float) -> Iterator[tuple[str, dict[str, Object]]]:
    """The objects of each image that are large enough, by their ids; DataError for a graph of another form."""
    if isinstance(min_share, bool) or not isinstance(min_share, int | float) or not 0 <= min_share <= 1:
        raise DataError(f"min_share is {min_share!r}; it is a share of the image's width and height, from 0 to 1")
    if not isinstance(scene_graphs, Mapping):
        raise DataError(f"the scene graphs are {type(scene_graphs).__name__}; expected {{image id: scene graph}}")
    for image, graph in scene_graphs.items():
        label = f"image {image!r}"
        try:
            [found] = check_rows([(label, graph)], _GRAPH, "scene graphs", _size_problem)
            ids = found["objects"]
            labelled = ((f"{label}, object {key!r}", thing) for key, thing in ids.items())
            objects = check_rows(labelled, _OBJECT, "scene graphs", functools.partial(_object_problem, ids))
        except ValueError as error:
            raise DataError(str(error)) from error
        least_width, least_height = min_share * found["width"], min_share * found["height"]
        by_id = zip(ids, objects, strict=True)
        yield image, {key: o for key, o in by_id if o["w"] >= least_width and o["h"] >= least_height}


def _size_problem(graph: Object) -> str | None:
    is_size = all(0 < graph[side] <= MOST_PIXELS for side in ("width", "height"))
    return None if is_size else f"it is {graph['width']!r} wide and {graph['height']!r} high, in pixels"


def _object_problem(ids: Mapping[str, Any], thing: Object) -> str | None:
    wrong = [side for side in _SIDES if not abs(thing[side]) <= MOST_PIXELS]
    if wrong:
        return f"{wrong[0]} is {thing[wrong[0]]!r}"
    if not all((thing["name"], *thing["attributes"], *(edge["name"] for edge in thing["relations"]))):
        return "a name is empty"
    lost = [edge["object"] for edge in thing["relations"] if edge["object"] not in ids]
    return f"a relation leads to {lost[0]!r}, which is not there" if lost else None


def _record(image: str, pair: tuple[Object, Object], captions: list[str]) -> dict[str, Any]:
    """What both kinds of records share; the box is the smallest that holds both objects."""
    left, top = (min(thing[side] for thing in pair) for side in ("x", "y"))
    right, bottom = (max(thing[side] + thing[size] for thing in pair) for side, size in (("x", "w"), ("y", "h")))
    return {
        "image_path": f"{image}.jpg",
        "bbox_x": left,
        "bbox_y": top,
        "bbox_w": right - left,
        "bbox_h": bottom - top,
        "true_caption": captions[0],
        "false_caption": captions[1],
    }


def _once(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of an image without repetitions, in their order."""
    return list({json.dumps(record, sort_keys=True): record for record in records}.values())
