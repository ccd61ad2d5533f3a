"""Steps over a training set: planted copies of a benchmark are found at their rows, and candidates are the rules'."""

import json
import pickle
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from console import invoke

from vl_assay.hub_datasets import load_examples
from vl_assay.hub_datasets.authoring.generate.rejected import Rejected
from vl_assay.hub_datasets.authoring.generate.rules import make_by_rule
from vl_assay.hub_datasets.corpora.contamination import SimilarTexts, search_step, summarise
from vl_assay.hub_datasets.corpora.shards import find_shards, run
from vl_assay.metrics.common.errors import ScoresError


def jaccard(one, two):
    """Of the pairs of neighbouring words, counted directly."""
    one, two = (set(pairwise(["<", *text, ">"])) for text in (one, two))
    return len(one & two) / len(one | two)


@pytest.mark.parametrize("threshold", [0.3, 2 / 3, 1.0])
def test_every_similar_text_is_found_and_no_other(threshold):
    rng = np.random.default_rng(7)
    # Few words with unequal frequencies, so that texts share pairs, and repeat some.
    texts = [tuple(rng.choice(list("abcdef"), size=rng.integers(1, 9), p=np.arange(1, 7) / 21)) for _ in range(300)]
    indexed, asked = list(dict.fromkeys(texts[:100])), [*texts[100:], ("x", "y"), ("a", "x")]
    index = SimilarTexts([" ".join(text) for text in indexed], threshold)
    found = {(n, text): value for n, text in enumerate(asked) for text, value in index.find(asked[n])}
    values = {(n, " ".join(text)): jaccard(own, text) for n, own in enumerate(asked) for text in indexed}
    assert found == pytest.approx({key: value for key, value in values.items() if value >= threshold})
    assert len(found) > 5
    assert list(index.find(())) == []


@pytest.mark.parametrize("threshold", [0, 1.1, float("nan")])
def test_a_resemblance_outside_its_range_is_refused(threshold):
    with pytest.raises(ScoresError, match="above 0 and at most 1"):
        SimilarTexts([], threshold)


@pytest.fixture(scope="module")
def planted(toy, tmp_path_factory):
    """Some examples of toy_scenes/itm, and a corpus with copies of them; its rows are the dictionary's keys."""
    folder = tmp_path_factory.mktemp("planted")
    [data] = load_examples("toy_scenes/itm")
    examples = [data.examples[number] for number in (0, 100, 200)]
    first, second = (example.captions[0] for example in examples[:2])
    rows = {
        "other": ("an unrelated sentence about trains and weather", None),
        "same words": (f"  {first.upper()}!", None),
        "one word more": (f"{second} outside", None),
        "a negative": (examples[2].captions[1], None),
        "same file": ("nothing to see", data.image_bytes(examples[0].images[0])),
        "damaged": ("", b"no image"),
        "nothing": (None, None),
    }
    captions, images = (list(column) for column in zip(*rows.values(), strict=True))
    table = pa.table({"caption": captions, "jpg": pa.array(images, pa.binary())})
    for number in range(2):
        pq.write_table(table, folder / f"{number}.parquet")
    return folder, data, examples, list(rows)


def test_copies_are_found_at_their_rows_and_counted_by_example(planted, tmp_path):
    folder, data, examples, names = planted
    words = ["corpus", "contamination", folder, "--out", tmp_path, "--benchmark", "toy_scenes/itm"]
    result = invoke(*words, "--column", "image=jpg", width=250)
    assert result.exit_code == 0, (result.output, result.exception)
    record = json.loads((tmp_path / "contamination.json").read_text())
    rows = pq.read_table(tmp_path / "shards").to_pylist()
    by_id = {found["example"]: found for found in record["found"]}
    for example, kind, name in (
        (examples[0], "caption_exact", "same words"),
        (examples[0], "image_exact", "same file"),
        (examples[1], "caption_near", "one word more"),
        (examples[2], "negative", "a negative"),
    ):
        items = by_id[example.id][kind]
        found = [row for row in rows if row["item"] in items and row["row"] == names.index(name)]
        assert len(found) == 2  # one in each shard
        assert [row["similarity"] == 1 for row in found] == [kind != "caption_near"] * 2
    assert record["counts"] == {"captions": 10, "without a caption": 4, "images": 4, "without an image": 10}
    [part] = record["examples"].values()
    by_image = {each.id for each in data.examples if examples[0].images[0] in each.images}
    assert (part["examples"], part["with images"], part["same image"]) == (280, 280, len(by_image))
    positives = {own["example"] for own in record["found"] if any(own[kind] for kind in list(own)[2:5])}
    assert part["any"] == len(positives) < 280
    assert 1 <= part["image and caption"] <= part["same caption"] <= part["similar caption"] <= part["any"]
    assert part["negative caption"] == sum(bool(own["negative"]) for own in record["found"]) > 0
    line = next(line for line in result.output.splitlines() if "toy_scenes/itm" in line)
    assert [cell.strip() for cell in line.split("│")[2:-1]] == [str(number) for number in part.values()]


def search(data, caption, folder):
    """What is found of a benchmark in a training set of one caption."""
    folder.mkdir()
    pq.write_table(pa.table({"caption": [caption]}), folder / "corpus.parquet")
    step = pickle.loads(pickle.dumps(search_step([data], 1.0, "caption", None)))  # as other processes receive it
    return summarise([data], list(run(find_shards([str(folder)]), step, folder / "out")))


@pytest.mark.parametrize(
    ("part", "true", "false"),
    [
        ("itm", [0], [1]),
        ("hard_positives", [0, 1], [2]),
        ("paraphrases", [0, 1], [2]),
        ("groups", [0, 1], []),
        ("order", [0], [1, 2, 3, 4]),
        ("retrieval", [0], []),
        ("vqa", [0], []),
    ],
)
def test_a_true_caption_is_no_negative_and_a_false_one_no_positive(part, true, false, toy, tmp_path):
    [data] = load_examples(f"toy_scenes/{part}", needs_images=False)
    example = data.examples[0]
    assert len(example.captions) == len(true) + len(false) or part == "retrieval"
    for number in (*true, *false):
        found = search(data, example.captions[number], tmp_path / str(number))["found"]
        [own] = [each for each in found if each["example"] == example.id]
        assert (bool(own["caption_exact"]), bool(own["negative"])) == (number in true, number in false)


@pytest.mark.parametrize("is_true", [True, False])
def test_the_caption_of_a_negative_detection_row_is_a_negative(is_true, toy, tmp_path):
    [data] = load_examples("toy_scenes/detection", needs_images=False)
    example = next(each for each in data.examples if each.positive is is_true)
    data.examples[:] = [example]
    numbers = search(data, example.captions[0], tmp_path / "set")["examples"]["toy_scenes/detection"]
    assert (numbers["same caption"], numbers["negative caption"]) == (is_true, not is_true)


def test_candidates_are_those_of_the_rules(tmp_path):
    rng = np.random.default_rng(0)
    nouns = rng.choice(["dog", "cat", "table", "bus", "horse", "狗", "été"], (100, 2))
    captions = [*(f"A red {a} and a large {b}." for a, b in nouns), None, "", " ", "!"]
    pq.write_table(pa.table({"text": pa.array(captions, pa.string())}), tmp_path / "a.parquet")
    kinds = ["swap_obj", "positive_swap"]
    words = ["--column", "caption=text", *(word for kind in kinds for word in ("--kind", kind))]
    result = invoke("corpus", "generate", tmp_path / "a.parquet", "--out", tmp_path / "made", *words)
    assert result.exit_code == 0, result.output
    there = {row: text for row, text in enumerate(captions) if text and text.strip()}
    expected, counts = set(), Counter({"captions": 101, "without a caption": 3})
    for kind in kinds:
        for row, made in zip(there, make_by_rule(kind, [*there.values()]), strict=True):
            texts = {found[0] for found in made if not isinstance(found, Rejected)}
            expected |= {(row, there[row], text, kind, kind == "positive_swap") for text in texts}
            counts[f"candidates, {kind}"] += len(texts)
    [file] = (tmp_path / "made" / "shards").iterdir()
    assert {tuple(row.values()) for row in pq.read_table(file).to_pylist()} == expected
    assert json.loads((tmp_path / "made" / "candidates.json").read_text())["counts"] == counts
    assert all(counts[f"candidates, {kind}"] > 30 for kind in kinds)
    pq.write_table(pa.table({"text": pa.array([None, ""], pa.string())}), tmp_path / "a.parquet")
    result = invoke("corpus", "generate", tmp_path / "a.parquet", "--out", tmp_path / "none", *words)
    assert (result.exit_code, pq.read_table(tmp_path / "none" / "shards").num_rows) == (0, 0)
