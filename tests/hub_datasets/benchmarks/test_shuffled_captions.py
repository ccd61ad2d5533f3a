"""Captions of Karpathy's splits in another order: ARO's order configurations, and what they share with retrieval."""

import io
import tracemalloc
from collections import Counter

import pytest
import sources_retrieval
from builder_support import Small
from PIL import Image

from vl_assay.hub_datasets import build as build_repository
from vl_assay.hub_datasets.authoring.text.perturb import SHUFFLES, clean_caption, perturb
from vl_assay.hub_datasets.authoring.text.tagging import tagger_name
from vl_assay.metrics.common.errors import DataError, UnknownNameError

FILE = "coco_karpathy_test.json"
ENTRIES = sources_retrieval.ENTRIES[FILE]
IMAGE = ENTRIES[0][0]
# Cleaned by the authors' code, one of them longer than 30 words.
CAPTIONS = ["A man's (old) dog, a cat. A half-pipe", " ".join(["the dogs' tails,"] * 20)]
BOTH = pytest.mark.parametrize(("name", "config"), [("aro", "coco_order"), ("retrieval", "coco_shuffle_patches_9")])


@pytest.fixture
def small(tmp_path):
    return Small("aro", tmp_path, "coco_order", tagger="textblob")


@pytest.fixture
def either(name, config, tmp_path):
    return Small(name, tmp_path, config, tagger="textblob")


def test_every_caption_is_a_row_with_its_image_and_four_orders_of_its_words(small):
    rows = small.rows()
    assert [row["id"] for row in rows] == [
        f"coco_order/{place}-{index}" for place, (_, captions) in enumerate(ENTRIES) for index in range(len(captions))
    ]
    assert [row["released_text"] for row in rows] == [text for _, captions in ENTRIES for text in captions]
    assert [row["text_index"] for row in rows[:6]] == [0, 1, 2, 3, 4, 0]
    for row in rows:
        path = small.folder / "val2014" / row["filename"]
        assert row["image"] == {"path": row["filename"], "bytes": path.read_bytes()}
        assert row["caption"] == clean_caption(row["released_text"])
        assert len(row["negative_captions"]) == 4
        if row["testable"]:
            assert row["caption"] not in row["negative_captions"]
        for negative in row["negative_captions"]:
            assert Counter(negative.split()) == Counter(row["caption"].split())
        assert (row["seed"], row["tagger"]) == (0, tagger_name("textblob"))


def test_the_negatives_are_the_perturbations_in_their_order(small):
    row = small.rows(with_images=False)[1]
    assert row["perturbations"] == list(SHUFFLES)
    made = perturb([row["released_text"]], SHUFFLES, tagger="textblob").perturbed
    assert row["negative_captions"] == [made[name][0] for name in SHUFFLES]
    # Nouns: men, shirts, horses, fence; adjectives: blue, wooden. The other words keep their places.
    words = row["negative_captions"][0].split()
    assert [words[place] for place in (0, 2, 5, 7, 8)] == ["two", "in", "ride", "near", "a"]


def test_captions_are_cut_to_thirty_words_after_they_were_permuted(small):
    sources_retrieval.write(small.folder / FILE, [(IMAGE, [" ".join(f"w{n}" for n in range(40))])])
    [row] = small.rows()
    texts = [row["caption"], *row["negative_captions"]]
    assert {len(text.split()) for text in texts} == {30}
    assert not Counter(row["negative_captions"][3].split()) <= Counter(row["caption"].split())


def test_a_perturbation_that_changes_nothing_is_left_out_and_the_others_fill_the_row(small):
    sources_retrieval.write(small.folder / FILE, [*ENTRIES, ("val2014/1.jpg", ["..."])])
    zebras, running, empty = small.rows(with_images=False)[24:]
    assert running["released_text"] == "He is running and jumping very fast."  # no noun, no adjective
    assert running["perturbations"] == list(SHUFFLES[1:])
    assert running["testable"]
    assert running["negative_captions"][3] == running["negative_captions"][0]
    assert len(set(running["negative_captions"][:3])) == 3
    # Without any other order the row is kept, flagged and tied.
    assert (zebras["released_text"], zebras["perturbations"], zebras["testable"]) == ("Zebras", [], False)
    assert zebras["negative_captions"] == ["zebras"] * 4 == [zebras["caption"]] * 4
    assert (empty["caption"], empty["negative_captions"], empty["testable"]) == ("", [""] * 4, False)


def test_order_permutes_the_authors_tokens_where_they_are_asked_for(small):
    sources_retrieval.write(small.folder / FILE, [(IMAGE, CAPTIONS)])
    row, long = small.rows(units="tokens", with_images=False)
    assert row["caption"] == clean_caption(CAPTIONS[0], "tokens") == "a man's old dog, a cat a half-pipe"
    made = perturb(CAPTIONS, SHUFFLES, tagger="textblob", units="tokens").perturbed
    assert [row["negative_captions"], long["negative_captions"]] == [
        [made[name][place] for name in SHUFFLES] for place in (0, 1)
    ]
    assert all({",", "'s"} <= set(negative.split()) for negative in row["negative_captions"])
    assert ["half-pipe" in negative.split() for negative in row["negative_captions"]] == [False, False, True, True]
    assert {len(negative.split()) for negative in long["negative_captions"]} == {30}


def test_with_the_identity_every_row_of_order_has_four_permutations_and_some_have_their_caption_among_them(small):
    rows = small.rows(allow_identity=True, with_images=False)
    assert all(row["perturbations"] == list(SHUFFLES) for row in rows)
    drawn = [row for row in rows if row["caption"] in row["negative_captions"]]
    assert 1 < len(drawn) < len(rows)
    assert rows[24]["negative_captions"] == ["zebras"] * 4
    assert [row["testable"] for row in rows] == [set(row["negative_captions"]) != {row["caption"]} for row in rows]


def test_memory_does_not_grow_with_the_number_of_images(small):
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "JPEG")

    def peak(images):
        entries = [(f"val2014/{n}.jpg", ["a red dog", "a blue cat"]) for n in range(images)]
        for path, _ in entries:
            (small.folder / path).write_bytes(file.getvalue().ljust(100_000, b"\0"))
        sources_retrieval.write(small.folder / FILE, entries)
        builder = small.builder()
        [split] = builder._split_generators(None)  # without a download manager: nothing is downloaded
        tracemalloc.start()
        try:
            rows = builder._generate_examples(**split.gen_kwargs)
            assert sum(len(row["image"]["bytes"]) for _, row in rows) == images * 2 * 100_000
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(5)  # what is imported on the way
    few, many = peak(20), peak(120)
    assert many - few < 5_000_000  # the rows between them hold 20,000,000 bytes; a chunk of them is in memory at once


@BOTH
def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_rows(name, config, either, tmp_path):
    def files(out, **options):
        options = {"verify": False, "tagger": "textblob", **options}
        built = build_repository(name, tmp_path / out, configs=[config], data_dir=either.folder, options=options)
        return {path.name: path.read_bytes() for path in built.rglob("*.parquet")}

    one = files("one")
    assert files("two") == one
    assert files("other", seed=1) != one
    rows, others = either.rows(), either.rows(seed=1)
    assert {row["seed"] for row in others} == {1}
    assert [row["filename"] for row in rows] == [row["filename"] for row in others]
    if name == "aro":
        assert [row["caption"] for row in rows] == [row["caption"] for row in others]
        negatives = ([row["negative_captions"] for row in each] for each in (rows, others))
        assert sum(a != b for a, b in zip(*negatives, strict=True)) >= 20


@BOTH
def test_a_row_does_not_depend_on_the_rows_around_it(either, name):
    rows = {(row["filename"], row.get("text_index")): row for row in either.rows()}
    sources_retrieval.write(either.folder / FILE, ENTRIES[::-1][1:4])
    others = either.rows()
    assert len(others) == (15 if name == "aro" else 3)
    for row in others:
        assert row == rows[row["filename"], row.get("text_index")] | {"id": row["id"]}


@BOTH
def test_options_without_meaning_are_refused(either, name):
    either.error(UnknownNameError, "tagger", tagger="nltk")
    either.error(UnknownNameError, "unknown kind of units 'letters'; known: words, tokens", units="letters")
    for seed in ("1", 1.0, True, 2**63):
        either.error(DataError, r"seed is .*; pass a whole number", seed=seed)
    either.error(DataError, "allow_identity is 'no'; pass True or False", allow_identity="no")
    if name == "retrieval":
        either.error(DataError, "black_edges is 1; pass True or False", black_edges=1)
