"""Contamination: planted duplicates of a benchmark are found at their rows, and shares are of all its examples."""

from __future__ import annotations

import doctest
import io
import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from console import invoke
from PIL import Image

from vl_assay.hub_datasets import load_examples
from vl_assay.hub_datasets.corpora import similar_texts
from vl_assay.hub_datasets.corpora.contamination import read_items
from vl_assay.hub_datasets.corpora.similar_texts import SimilarTexts
from vl_assay.metrics.common.errors import DataError, ScoresError, VLAssayError


def jaccard(one, two):
    """Of the pairs of neighbouring words, counted directly."""
    one, two = (set(pairwise(["<", *text, ">"])) for text in (one, two))
    return len(one & two) / len(one | two)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 2 / 3, 0.7, 1.0])
def test_every_similar_text_is_found_and_no_other(threshold):
    rng = np.random.default_rng(7)
    # Few words with unequal frequencies, so that texts share pairs, and repeat some.
    texts = [tuple(rng.choice(list("abcdef"), size=rng.integers(1, 9), p=np.arange(1, 7) / 21)) for _ in range(300)]
    indexed, asked = list(dict.fromkeys(texts[:100])), [*texts[100:], ("x", "y"), ("a", "x")]
    index = SimilarTexts(indexed, threshold)
    found = {(n, number): value for n, text in enumerate(asked) for number, value in index.find(text)}
    values = {(n, number): jaccard(a, b) for n, a in enumerate(asked) for number, b in enumerate(indexed)}
    assert found == pytest.approx({key: value for key, value in values.items() if value >= threshold})
    assert len(found) > 5
    assert list(index.find(())) == []


def test_docstring_examples():
    assert doctest.testmod(similar_texts) == (0, 1)


def test_a_resemblance_outside_its_range_is_refused():
    for threshold in (0, 1.1, float("nan")):
        with pytest.raises(ScoresError, match="above 0 and at most 1"):
            SimilarTexts([], threshold)


@pytest.fixture(scope="module")
def planted(toy, tmp_path_factory):
    """The first examples of toy_scenes/itm, and a corpus with copies of some; its rows are the dictionary's keys."""
    folder = tmp_path_factory.mktemp("planted")
    [data] = load_examples("toy_scenes/itm")
    examples = [data.examples[number] for number in (0, 100, 200)]
    first, second = (each.captions[0] for each in examples[:2])
    photo = data.image_bytes(examples[0].images[0])
    copy = io.BytesIO()
    Image.open(io.BytesIO(data.image_bytes(examples[1].images[0]))).convert("RGB").resize((300, 300)).save(copy, "JPEG")
    rows = {
        "other": ("an unrelated sentence about trains and weather", None),
        "same words": (f"  {first.upper()}!", None),
        "one word more": (f"{second} outside", None),
        "a negative": (examples[2].captions[1], None),
        "same file": ("nothing to see", photo),
        "compressed again": (None, copy.getvalue()),
        "damaged": ("", b"no image"),
    }
    captions, images = (list(column) for column in zip(*rows.values(), strict=True))
    table = pa.table({"caption": captions, "jpg": pa.array(images, pa.binary())})
    for number in range(2):  # twice, so that rows are counted over shards
        pq.write_table(table, folder / f"{number}.parquet")
    return folder, data, examples, list(rows)


def hits(record, example):
    return {(hit["kind"], hit["is_negative"]): hit for hit in record["hits"] if hit["example"] == example.id}


def test_copies_are_found_at_their_rows_and_counted_by_example(planted, tmp_path):
    folder, data, examples, rows = planted
    words = ["corpus", "contamination", folder, "--out", tmp_path, "--benchmark", "toy_scenes/itm"]
    words += [
        "--column",
        "image=jpg",
        "--resemblance",
        "0.7",
        "--image-model",
        "histogram",
        "--image-similarity",
        "0.95",
    ]
    result = invoke(*words, width=250)
    assert result.exit_code == 0, (result.output, result.exception)
    record = json.loads((tmp_path / "contamination.json").read_text())
    first, second, third = (hits(record, example) for example in examples)
    for found, key, name in (
        (first, ("caption_exact", False), "same words"),
        (first, ("image_exact", False), "same file"),
        (second, ("caption_near", False), "one word more"),
        (second, ("image_near", False), "compressed again"),
        (third, ("caption_exact", True), "a negative"),
    ):
        assert (found[key]["row"], found[key]["shard"]) == (rows.index(name), f"{folder}/0.parquet")
        assert found[key]["rows"] % 2 == 0
    assert first["caption_exact", False]["rows"] == first["image_exact", False]["rows"] == 2
    assert first["caption_exact", False]["similarity"] == 1
    assert 0.7 <= second["caption_near", False]["similarity"] < 1
    counts = {"captions": 10, "without a caption": 4, "images": 6, "without an image": 8, "unreadable images": 2}
    assert record["counts"] == counts
    [part] = record["parts"].values()
    by_image = {each.id for each in data.examples if examples[0].images[0] in each.images}
    assert (part["examples"], part["with_images"], part["image_exact"]) == (280, 280, len(by_image))
    with_hit = {hit["example"] for hit in record["hits"] if not hit["is_negative"]}
    assert part["any"] == len(with_hit) < 280
    assert 2 <= part["both"] <= part["image"] <= part["any"]
    share = f"{len(with_hit)} of 280 examples ({100 * len(with_hit) / 280:.1f} %) have an image or a positive caption"
    assert share in result.output
    assert "same words" not in result.output  # single hits are in the files


def test_without_a_model_only_the_same_files_are_found(planted, tmp_path):
    folder = planted[0]
    command = ["corpus", "contamination", folder, "--benchmark", "toy_scenes/itm", "--resemblance", "1"]
    result = invoke(*command, "--out", tmp_path / "same", "--column", "image=jpg")
    record = json.loads((tmp_path / "same" / "contamination.json").read_text())
    assert {hit["kind"] for hit in record["hits"]} == {"caption_exact", "image_exact"}
    assert "similar images not looked for (--image-model)" in " ".join(result.output.split())
    captions = invoke(*command, "--out", tmp_path / "captions", "--no-images")
    record = json.loads((tmp_path / "captions" / "contamination.json").read_text())
    assert {hit["kind"] for hit in record["hits"]} == {"caption_exact"}
    assert record["parts"]["toy_scenes/itm"]["with_images"] == 0
    assert "images not looked for" in captions.output
    lacking = invoke(*command, "--out", tmp_path / "lacking")
    assert lacking.exit_code == 1
    assert "has no column 'image'" in lacking.output
    both = invoke(*command, "--out", tmp_path / "both", "--no-images", "--image-model", "histogram")
    assert isinstance(both.exception, VLAssayError)
    assert "give one of them" in str(both.exception)


def test_a_damaged_image_of_a_benchmark_is_told(planted, monkeypatch):
    data = planted[1]
    monkeypatch.setattr(type(data), "image_bytes", lambda self, key: b"no image")
    with pytest.raises(DataError, match="of toy_scenes is no image"):
        read_items(["toy_scenes/itm"], image_model="histogram")
