"""toy_scenes shows its tasks as the benchmarks of photographs do: the same columns have the same names and types."""

from __future__ import annotations

import datasets
import pytest

from vl_assay.hub_datasets.benchmarks import get_benchmark, get_builder
from vl_assay.hub_datasets.toy_scenes.tasks import TASKS

PAIR = ("id", "category", "image", "filename", "caption", "negative_caption")
ORDER = ("id", "image", "filename", "caption", "negative_captions", "perturbations")
GROUP = tuple(f"{name}_{side}" for side in "01" for name in ("image", "filename", "caption"))
RETRIEVAL = ("id", "image", "filename", "captions", "condition")
SETS = ("id", "category", "image", "filename", "caption", "hard_negatives")
# What both must have, beside the type that whatever else both have must share.
COUNTERPARTS = {
    ("itm", "sugarcrepe", "swap_obj"): PAIR,
    ("itm", "aro", "vg_relation"): PAIR,
    ("itm", "vl_checklist", "attribute_color"): PAIR,
    ("hard_positives", "hard_positives", "swap"): (*PAIR, "positive_caption"),
    ("hard_positives", "hard_positives", "replace_attributes"): (*PAIR, "positive_caption"),
    ("order", "aro", "coco_order"): ORDER,
    ("order", "aro", "flickr30k_order"): ORDER,
    ("groups", "cola", "multiobjects"): ("id", *GROUP),
    ("groups", "winoground", "winoground"): ("id", "tag", *GROUP),
    ("groups", "tricd", "groups"): ("id", *GROUP),
    ("vqa", "tricd", "vqa"): ("id", "image", "filename", "question", "answer", "type"),
    ("retrieval", "retrieval", "coco"): RETRIEVAL,
    ("retrieval", "retrieval", "flickr30k"): RETRIEVAL,
    ("sets", "crepe", "productivity_swap"): (*SETS, "complexity"),
    ("sets", "crepe", "systematicity_atom_cc12m"): SETS,
}
DETECTION = {
    "id": "string",
    "image": "image",
    "filename": "string",
    "caption": "string",
    "phrases": {"text": "string", "start": "int32", "end": "int32", "phrase_id": "int32", "boxes": [["float64"]]},
    "positive": "bool",
    "pair_id": "string",
    "type": "string",
    "width": "int32",
    "height": "int32",
    "overruns": "bool",
}
EVERY = pytest.mark.parametrize(("task", "benchmark", "config"), COUNTERPARTS)


@pytest.fixture
def features(tmp_path):
    """A function from a benchmark and a configuration to its columns and their types."""

    def features(benchmark, config):
        builder = get_builder(benchmark)(config_name=config, cache_dir=str(tmp_path))
        return {name: kind(feature) for name, feature in builder.info.features.items()}

    return features


def kind(feature):
    """A type without what differs between versions of `datasets`."""
    if isinstance(feature, datasets.Image):
        return "image"
    if isinstance(feature, datasets.Value):
        return feature.dtype
    if isinstance(feature, dict):
        return {name: kind(part) for name, part in feature.items()}
    [item] = feature if isinstance(feature, list) else [feature.feature]
    return [kind(item)]


def scored(benchmark, config):
    """What a score takes of a row, one entry for each task that scores the configuration."""
    tasks = [task for task in get_benchmark(benchmark).tasks if config in task.configs]
    return {(task.kind, task.images, task.captions) for task in tasks}


@EVERY
def test_columns_that_both_have_are_of_one_type(task, benchmark, config, features):
    ours, theirs = features("toy_scenes", task), features(benchmark, config)
    common = [name for name in ours if name in theirs]
    assert set(COUNTERPARTS[task, benchmark, config]) <= set(common)
    assert {name: ours[name] for name in common} == {name: theirs[name] for name in common}


@EVERY
def test_what_is_scored_has_the_same_names(task, benchmark, config):
    assert scored("toy_scenes", task) == scored(benchmark, config)


def test_detection_is_exactly_the_public_part_of_tricd(features):
    ours, theirs = features("toy_scenes", "detection"), features("tricd", "val")
    assert ours == theirs
    assert list(ours.items()) == list(theirs.items())
    assert ours == {**DETECTION, "phrases": [DETECTION["phrases"]]}
    assert [list(columns["phrases"][0]) for columns in (ours, theirs)] == [list(DETECTION["phrases"])] * 2


def test_every_configuration_but_captions_has_a_counterpart():
    assert {task for task, _, _ in COUNTERPARTS} | {"detection", "captions"} == set(TASKS)
