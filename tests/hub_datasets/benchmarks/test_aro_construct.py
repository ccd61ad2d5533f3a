"""VG-Relation and VG-Attribution from scene graphs: which tests they yield, to the last one, and which they do not."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vl_assay.hub_datasets import build
from vl_assay.hub_datasets.aro.construct import attribution_records, rebuild, relation_records
from vl_assay.hub_datasets.core.repository import read_build
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.functional.aro import SYMMETRIC


def thing(name, x, y, w, h, attributes=(), relations=()):
    """An object; relations are pairs of a name and an object's id."""
    edges = [{"name": relation, "object": target} for relation, target in relations]
    return {"name": name, "x": x, "y": y, "w": w, "h": h, "attributes": list(attributes), "relations": edges}


def scene(**objects):
    """A scene 100 wide and 80 high: large objects are at least 25 wide and 20 high."""
    return {"width": 100, "height": 80, "location": "field", "objects": objects}


# Hand-worked: a horse of two attributes that eats grass behind a fence, beside another horse and near a small bird.
MEADOW = scene(
    horse=thing(
        "horse", 10, 20, 40, 30, ["brown", "large"],
        [("eating", "grass"), ("next to", "fence"), ("behind", "fence"), ("behind", "second"), ("watching", "bird")],
    ),
    grass=thing("grass", 0, 40, 100, 40, ["green"], [("below", "horse")]),
    fence=thing("fence", 60, 10, 25, 20, ["brown"], [("on", "grass")]),
    second=thing("horse", 30, 30, 30, 30, [], []),
    bird=thing("bird", 5, 5, 24, 60, ["white"], [("above", "grass")]),
)  # fmt: skip

# Image 1 has nothing large, image 2 nothing at all.
GRAPHS = {"1": scene(a=thing("cat", 0, 0, 24, 20, ["red"]), b=thing("dog", 0, 0, 25, 19, ["blue"])), "2": scene()}
GRAPHS["2315001"] = MEADOW


def record(true, false, box, **label):
    sides = dict(zip(("bbox_x", "bbox_y", "bbox_w", "bbox_h"), box, strict=True))
    return {"image_path": "2315001.jpg", **sides, "true_caption": true, "false_caption": false, **label}


# Left out: "next to" (symmetric), the second horse (also a horse), the bird (24 of 100 wide: less than a quarter).
RELATIONS = [
    record(
        "the horse is eating the grass",
        "the grass is eating the horse",
        (0, 20, 100, 60),  # from 0 to 100, and from 20 to 40 + 40
        relation_name="eating",
    ),
    record(
        "the horse is behind the fence",
        "the fence is behind the horse",
        (10, 10, 75, 40),  # from 10 to 60 + 25, and from 10 to 20 + 30
        relation_name="behind",
    ),
    record(
        "the grass is below the horse",
        "the horse is below the grass",
        (0, 20, 100, 60),
        relation_name="below",
    ),
    record(
        "the fence is on the grass",
        "the grass is on the fence",
        (0, 10, 100, 70),  # from 10 to 40 + 40
        relation_name="on",
    ),
]

# Left out: brown horse and brown fence (the same attribute), the second horse (no attribute), the bird (too narrow).
ATTRIBUTIONS = [
    record(
        "the brown horse and the green grass",
        "the green horse and the brown grass",
        (0, 20, 100, 60),
        attributes=["brown", "green"],
    ),
    record(
        "the large horse and the green grass",
        "the green horse and the large grass",
        (0, 20, 100, 60),
        attributes=["large", "green"],
    ),
    record(
        "the large horse and the brown fence",
        "the brown horse and the large fence",
        (10, 10, 75, 40),
        attributes=["large", "brown"],
    ),
    record(
        "the green grass and the brown fence",
        "the brown grass and the green fence",
        (0, 10, 100, 70),
        attributes=["green", "brown"],
    ),
]


def captions(records):
    return [record["true_caption"] for record in records]


def test_relations_are_exactly_those_listed_by_hand():
    assert list(relation_records(GRAPHS)) == RELATIONS


def test_attributions_are_exactly_those_listed_by_hand():
    assert list(attribution_records(GRAPHS)) == ATTRIBUTIONS


@pytest.mark.parametrize(
    ("size", "kept"), [((25, 20), True), ((24, 20), False), ((25, 19), False), ((24.99, 80), False), ((100, 80), True)]
)
def test_an_object_of_exactly_a_quarter_is_large_enough(size, kept):
    a = thing("cat", 0, 0, *size, ["red"], [("on", "b")])
    graphs = {"7": scene(a=a, b=thing("mat", 0, 0, 50, 50, ["blue"]))}
    assert captions(relation_records(graphs)) == ["the cat is on the mat"] * kept
    assert captions(attribution_records(graphs)) == ["the red cat and the blue mat"] * kept


def test_the_least_share_is_a_choice():
    assert captions(relation_records(GRAPHS, min_share=0.24))[-1] == "the bird is above the grass"
    assert len(list(relation_records(GRAPHS, min_share=0))) == 6  # watching the bird, and the bird above the grass
    assert list(relation_records(GRAPHS, min_share=1)) == []


def test_symmetric_relations_are_those_of_the_authors_by_default_and_any_others_on_request():
    near = captions(relation_records(GRAPHS, symmetric=()))
    assert "the horse is next to the fence" in near
    assert len(near) == 5
    assert captions(relation_records(GRAPHS, symmetric=["eating", "behind", "below"])) == [
        "the horse is next to the fence",
        "the fence is on the grass",
    ]
    for relation in SYMMETRIC:
        graphs = {"7": scene(a=thing("cat", 0, 0, 50, 50, (), [(relation, "b")]), b=thing("mat", 0, 0, 50, 50))}
        assert list(relation_records(graphs)) == []


def test_negatives_that_the_scene_graph_asserts_are_left_out_on_request_alone():
    a = thing("cat", 0, 0, 50, 50, ["red", "big"], [("watching", "b"), ("on", "b")])
    b = thing("dog", 0, 0, 50, 50, ["big", "red"], [("watching", "a")])
    graphs = {"7": scene(a=a, b=b)}
    watching = ["the cat is watching the dog", "the cat is on the dog", "the dog is watching the cat"]
    assert captions(relation_records(graphs)) == watching
    assert captions(relation_records(graphs, drop_true_negatives=True)) == ["the cat is on the dog"]
    # The big cat and the red dog, or the red cat and the big dog: both are true.
    assert captions(attribution_records(graphs)) == ["the red cat and the big dog", "the big cat and the red dog"]
    assert list(attribution_records(graphs, drop_true_negatives=True)) == []
    # The red cat and the big dog again, but no dog is red, or no cat is big: a negative half true is false.
    for cat, dog in ((["red", "big"], ["big"]), (["red"], ["big", "red"])):
        graphs = {"7": scene(a=a | {"attributes": cat}, b=b | {"attributes": dog})}
        assert captions(attribution_records(graphs, drop_true_negatives=True)) == ["the red cat and the big dog"]


def test_the_same_test_is_made_once_but_not_that_of_another_box():
    cat = thing("cat", 0, 0, 50, 50, ["red", "red"], [("on", "mat"), ("on", "mat"), ("on", "twin"), ("on", "moved")])
    mats = {"mat": (10, 10, 50, 50), "twin": (10, 10, 50, 50), "moved": (20, 10, 50, 50)}
    graphs = {"7": scene(cat=cat, **{key: thing("mat", *box, ["blue"]) for key, box in mats.items()})}
    for records in (list(relation_records(graphs)), list(attribution_records(graphs))):
        assert [record["bbox_w"] for record in records] == [60, 70]
        assert len(set(captions(records))) == 1
    assert len(list(relation_records(graphs | {"8": graphs["7"]}))) == 4  # another image is another test


def test_the_scene_graphs_are_left_as_they_were():
    graphs = copy.deepcopy(GRAPHS)
    assert len(list(relation_records(graphs))) == len(list(attribution_records(graphs))) == 4
    assert graphs == GRAPHS


KEYS = ("a", "b", "c", "d")


@st.composite
def scene_graphs(draw):
    """Small scenes in which objects share names and attributes, and large and small ones meet."""
    number, words = st.integers(0, 12), st.lists(st.sampled_from(["red", "big", "old"]), max_size=2)
    edges = st.lists(st.tuples(st.sampled_from(["on", "near", "eating"]), st.sampled_from(KEYS)), max_size=3)
    objects = {
        key: thing(
            draw(st.sampled_from(["cat", "dog", "mat"])),
            *(draw(number) for _ in range(4)),
            draw(words),
            draw(edges),
        )
        for key in KEYS
    }
    return {"7": {"width": 20, "height": 16, "objects": objects}}


def naive(graphs, kind):
    """Captions and boxes as the appendix of the paper words them, without repetitions; boxes by counting pixels."""
    found = []
    for graph in graphs.values():
        large = {k: o for k, o in graph["objects"].items() if o["w"] * 4 >= 20 and o["h"] * 4 >= 16}
        for k, (one, two) in (
            (k, (a, b)) for k, a in large.items() for j, b in large.items() if a["name"] != b["name"]
        ):
            columns = {x for o in (one, two) for x in (o["x"], o["x"] + o["w"])}
            rows = {y for o in (one, two) for y in (o["y"], o["y"] + o["h"])}
            box = (min(columns), min(rows), max(columns) - min(columns), max(rows) - min(rows))
            j = next(key for key, o in large.items() if o is two)
            if kind == "relation":
                names = [e["name"] for e in one["relations"] if e["object"] == j and e["name"] != "near"]
                found += [(box, f"the {one['name']} is {r} the {two['name']}") for r in names]
            elif k < j:
                pairs = [(p, q) for p in one["attributes"] for q in two["attributes"] if p != q]
                found += [(box, f"the {p} {one['name']} and the {q} {two['name']}") for p, q in pairs]
    return Counter(dict.fromkeys(found, 1))


def summary(records):
    return Counter(((r["bbox_x"], r["bbox_y"], r["bbox_w"], r["bbox_h"]), r["true_caption"]) for r in records)


@given(scene_graphs())
def test_the_records_are_those_of_a_naive_reading_of_the_paper(graphs):
    assert summary(relation_records(graphs)) == naive(graphs, "relation")
    assert summary(attribution_records(graphs)) == naive(graphs, "attribution")


@given(scene_graphs())
def test_both_captions_have_the_same_words_in_another_order(graphs):
    for record in (*relation_records(graphs), *attribution_records(graphs)):
        true, false = record["true_caption"], record["false_caption"]
        assert true != false
        assert sorted(true.split()) == sorted(false.split())


@given(scene_graphs())
def test_leaving_out_true_negatives_only_leaves_out(graphs):
    for make in (relation_records, attribution_records):
        kept, every = list(make(graphs, drop_true_negatives=True)), list(make(graphs))
        assert [record for record in every if record in kept] == kept


def test_what_is_rebuilt_is_built_as_a_dataset(tmp_path):
    (tmp_path / "graphs.json").write_text(json.dumps(GRAPHS), encoding="utf-8")
    assert rebuild(tmp_path / "graphs.json", tmp_path / "set") == {"vg_relation": 4, "vg_attribution": 4}
    assert len(list((tmp_path / "set").iterdir())) == 2
    assert json.loads((tmp_path / "set" / "visual_genome_relation.json").read_text("utf-8")) == RELATIONS
    assert json.loads((tmp_path / "set" / "visual_genome_attribution.json").read_text("utf-8")) == ATTRIBUTIONS
    (tmp_path / "set" / "images").mkdir()
    Image.effect_noise((100, 80), 60).save(tmp_path / "set" / "images" / "2315001.jpg")
    configs = ["vg_relation", "vg_attribution"]
    out = build("aro", tmp_path / "out", configs=configs, data_dir=tmp_path / "set", options={"verify": False})
    counts = {config: splits["test"] for config, splits in read_build(out)["configs"].items()}
    # Boxes (0, 20, 100, 60), (10, 10, 75, 40) and (0, 10, 100, 70) in both; 8 captions in both.
    expected = {"rows": 4, "images": 3, "missing_images": 0, "captions": 8}
    assert counts == {"vg_relation": expected, "vg_attribution": expected}


def test_options_reach_both_files(tmp_path):
    (tmp_path / "graphs.json").write_text(json.dumps(GRAPHS), encoding="utf-8")
    options: dict[str, Any] = {"symmetric": (), "min_share": 0.0, "drop_true_negatives": True}
    counts = rebuild(tmp_path / "graphs.json", tmp_path / "set", **options)
    assert counts == {
        "vg_relation": len(list(relation_records(GRAPHS, **options))),
        "vg_attribution": len(list(attribution_records(GRAPHS, min_share=0.0, drop_true_negatives=True))),
    }
    assert counts["vg_relation"] == 7  # all but "behind" the other horse: 5 - 1, 1, 1 and 1


@pytest.mark.parametrize("text", [None, "{", '{"7": {}}'])
def test_damaged_scene_graphs_write_nothing(tmp_path, text):
    if text is not None:
        (tmp_path / "graphs.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"graphs\.json cannot be read" if text != '{"7": {}}' else "image '7'"):
        rebuild(tmp_path / "graphs.json", tmp_path / "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"name": None}, "name is None"),
        ({"name": ""}, "a name is empty"),
        ({"w": float("nan")}, "w is nan"),
        ({"attributes": ["red", 7]}, "attributes is ['red', 7]"),
        ({"relations": [{"name": "on", "object": 7}]}, "relations is ["),
        ({"relations": [{"name": "on", "object": "tree"}]}, "a relation leads to 'tree', which is not there"),
    ],
)
def test_an_object_of_another_shape_is_named_with_what_was_expected(change, found):
    graphs = {"5": scene(horse=MEADOW["objects"]["bird"] | {"relations": []} | change)}
    for make in (relation_records, attribution_records):
        with pytest.raises(DataError, match=r"image '5', object 'horse': .*Expected \{name: str, x: float") as caught:
            list(make(graphs))
        assert found in str(caught.value)


@pytest.mark.parametrize(
    ("graphs", "found"),
    [
        ([MEADOW], "the scene graphs are list; expected {image id: scene graph}"),
        ({"5": None}, "image '5': found None"),
        ({"5": {"width": 5, "height": 5, "objects": []}}, "image '5': objects is []"),
        ({"5": {"height": 5, "width": 0, "objects": {}}}, "image '5': it is 0 wide and 5 high"),
        ({"5": scene(horse=7)}, "object 'horse': found 7"),
    ],
)
def test_scene_graphs_of_another_shape_are_errors(graphs, found):
    with pytest.raises(DataError) as caught:
        list(relation_records(graphs))
    assert found in str(caught.value)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), "a quarter", None, True])
def test_a_least_share_that_is_none_is_refused(share):
    with pytest.raises(DataError, match="it is a share of the image's width and height, from 0 to 1"):
        list(attribution_records(GRAPHS, min_share=share))
