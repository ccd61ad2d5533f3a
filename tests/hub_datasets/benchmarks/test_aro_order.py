"""ARO's order configurations: what a row holds, that seed and caption alone decide it, where its files come from."""

from __future__ import annotations

import hashlib
import importlib
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
import sources_retrieval
from builder_support import Small

from vl_assay.hub_datasets import build as build_repository
from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.aro.order import order_rows
from vl_assay.hub_datasets.authoring.text.perturb import SHUFFLES, clean_caption, perturb
from vl_assay.hub_datasets.retrieval import karpathy
from vl_assay.metrics.common.errors import ModelError, UnknownNameError
from vl_assay.model_wrappers import score

FILE = "coco_karpathy_test.json"
ENTRIES = sources_retrieval.ENTRIES[FILE]
IMAGE, SHORT_IMAGE = ENTRIES[0][0], ENTRIES[4][0]
HAS_SPACY = importlib.util.find_spec("spacy") is not None


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small("aro", tmp_path, "coco_order", tagger="plain")


@pytest.fixture
def remote(small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder that stands in for the server of the captions."""
    folder = tmp_path / "remote"
    folder.mkdir()
    for name, source in karpathy.SOURCES.items():
        (small.folder / source.file.name).rename(folder / source.file.name)
        payload = (folder / source.file.name).read_bytes()
        checksum = f"md5:{hashlib.md5(payload).hexdigest()}"
        file = replace(source.file, url=str(folder / source.file.name), checksum=checksum)
        monkeypatch.setitem(karpathy.SOURCES, name, source._replace(file=file))
    return folder


def entries_of(captions: list[str]) -> list[dict[str, Any]]:
    return [{"place": n, "filename": f"{n}.jpg", "captions": [text]} for n, text in enumerate(captions)]


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
        assert (row["seed"], row["tagger"]) == (0, "plain 1")


def test_the_negatives_are_the_perturbations_in_their_order(small):
    row = small.build(with_images=False)[1]
    assert row["perturbations"] == list(SHUFFLES)
    made = perturb([row["released_text"]], SHUFFLES, tagger="plain").perturbed
    assert row["negative_captions"] == [made[name][0] for name in SHUFFLES]
    # Nouns: men, shirts, horses, fence; adjectives: blue, wooden. The other words keep their places.
    words = row["negative_captions"][0].split()
    assert [words[place] for place in (0, 2, 5, 7, 8)] == ["two", "in", "ride", "near", "a"]


def test_captions_are_cut_to_thirty_words_after_they_were_permuted(small):
    sources_retrieval.write(small.folder / FILE, [(IMAGE, [" ".join(f"w{n}" for n in range(40))])])
    row = small.build()[0]
    texts = [row["caption"], *row["negative_captions"]]
    assert {len(text.split()) for text in texts} == {30}
    assert not Counter(row["negative_captions"][3].split()) <= Counter(row["caption"].split())


def test_a_perturbation_that_changes_nothing_is_left_out_and_the_others_fill_the_row(small):
    row = small.build(with_images=False)[25]
    assert row["released_text"] == "He is running and jumping very fast."  # no noun, no adjective
    assert row["perturbations"] == list(SHUFFLES[1:])
    assert row["testable"]
    assert row["negative_captions"][3] == row["negative_captions"][0]
    assert len(set(row["negative_captions"][:3])) == 3


def test_a_caption_without_any_other_order_is_kept_flagged_and_tied(small):
    row = small.build(with_images=False)[24]
    assert (row["released_text"], row["perturbations"], row["testable"]) == ("Zebras", [], False)
    assert row["negative_captions"] == ["zebras"] * 4 == [row["caption"]] * 4


def test_a_caption_of_no_word_at_all_is_a_row_too():
    [row] = order_rows("coco_order", entries_of(["..."]), 0, "plain")
    assert (row["caption"], row["negative_captions"], row["testable"]) == ("", [""] * 4, False)


def test_a_row_does_not_depend_on_the_rows_around_it():
    captions = [text for _, texts in ENTRIES for text in texts]
    together = {
        row["released_text"]: row["negative_captions"] for row in order_rows("c", entries_of(captions), 3, "plain")
    }
    for text in reversed(captions):
        [row] = order_rows("c", entries_of([text]), 3, "plain")
        assert row["negative_captions"] == together[text]


def test_more_images_than_are_tagged_together_keep_their_captions():
    captions = [f"a red dog and a blue cat number {number}" for number in range(120)]
    rows = list(order_rows("c", entries_of(captions), 0, "plain"))
    assert [row["caption"] for row in rows] == captions
    assert all(
        Counter(negative.split()) == Counter(row["caption"].split())
        for row in rows
        for negative in row["negative_captions"]
    )


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_negatives(small, tmp_path):
    def files(name, **options):
        options = {"verify": False, "tagger": "plain", **options}
        out = build_repository("aro", tmp_path / name, configs=["coco_order"], data_dir=small.folder, options=options)
        return {path.name: path.read_bytes() for path in out.rglob("*.parquet")}, out

    (one, out), (two, _), (other, out_of_other) = files("one"), files("two"), files("other", seed=1)
    assert one == two
    assert one != other
    rows = datasets.load_dataset(str(out), "coco_order", split="test")
    others = datasets.load_dataset(str(out_of_other), "coco_order", split="test")
    assert rows["caption"][:] == others["caption"][:]
    assert set(others["seed"][:]) == {1}
    pairs = zip(rows["negative_captions"], others["negative_captions"], strict=True)
    assert sum(a != b for a, b in pairs) >= 20


@pytest.mark.skipif(not HAS_SPACY, reason="spaCy is not installed")
def test_the_row_says_that_spacy_tagged_it(small):
    assert small.build(tagger="spacy", with_images=False)["tagger"][0].startswith("spacy ")


@pytest.mark.skipif(HAS_SPACY, reason="spaCy is installed")
def test_spacy_is_missed_before_anything_is_written(small):
    small.error(ModelError, "pip install spacy", tagger="spacy")


def test_an_unknown_tagger_and_a_seed_that_is_no_number_are_refused(small):
    small.error(UnknownNameError, "tagger", tagger="nltk")
    for seed in ("1", 1.0, True, 2**63):
        small.error(ValueError, r"seed is .*; pass a whole number", seed=seed)


def test_without_the_package_the_error_says_how_to_get_it_and_other_configurations_need_none(small, monkeypatch):
    def missing(name, *arguments, found=importlib.import_module):
        if "authoring" in name:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return found(name, *arguments)

    monkeypatch.setattr(importlib, "import_module", missing)
    small.error(ImportError, r"pip install vl-assay\. Or load .* Parquet")
    assert len(small.build("vg_relation")) == 12


def test_text_only_needs_no_data_dir_and_no_images(small, remote):
    dataset = small.build(data_dir=None, with_images=False)
    assert dataset.column_names == [name for name in small.builder().info.features if name != "image"]
    assert len(dataset) == 26


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[{"image": "a.jpg"}]', "entry 0: caption is None"),
        ('[{"image": "../a.jpg", "caption": ["a"]}]', "entry 0: .*does not lead to a file"),
        ('[{"image": "a.jpg", "caption": "a dog"}]', "entry 0: caption is 'a dog'"),
        ('[{"image": "a.jpg", "caption": []}]', "entry 0: caption is an empty list"),
        (
            '[{"image": "x/a.jpg", "caption": ["a"]}, {"image": "y/a.jpg", "caption": ["b"]}]',
            "entry 1: image 'y/a.jpg' occurs twice",
        ),
    ],
)
def test_a_damaged_file_is_named_with_the_entry(small, text, found):
    (small.folder / FILE).write_text(text, encoding="utf-8")
    small.error(ValueError, rf"{FILE}.*{found}.*Expected")


def test_another_checksum_and_other_numbers_than_the_released_are_refused(small):
    small.error(ValueError, rf"{FILE} has MD5 [0-9a-f]{{32}}, but .* has 3ff34b0e.*verify=False", verify=True)
    small.error(
        ValueError,
        r"has 4 rows, but the release has 1,000\..*verify=False",
        "flickr30k_order",
        verify=True,
    )


@pytest.mark.parametrize("config", ["coco_order", "flickr30k_order"])
@pytest.mark.parametrize("mock", ["constant", "shuffled"])
def test_the_order_tasks_are_scored_and_judged(small, config, mock, tmp_path):
    predictions = score(
        f"mock:{mock}",
        [f"aro/{config}"],
        data_dir=small.folder,
        options={"verify": False},
        out=tmp_path,
        progress=False,
    )
    [result] = report(predictions, resamples=100)
    assert result.metric == "aro_itm"
    assert result.scores["n"] == {"coco_order": 26, "flickr30k_order": 20}[config]
    untestable = 1 / 26 if config == "coco_order" else 0.0
    assert result.scores["tie_rate"] == pytest.approx({"constant": 1.0, "shuffled": 0.0}[mock] or 0.0, abs=untestable)
    if mock == "constant":
        assert result.scores["accuracy"] == 0.0


def test_memory_does_not_grow_with_the_number_of_images(small):
    def peak(images):
        entries = [(f"val2014/{n}.jpg", ["a red dog", "a blue cat"]) for n in range(images)]
        for path, _ in entries:
            (small.folder / path).write_bytes(bytes(100_000))
        sources_retrieval.write(small.folder / FILE, entries)
        builder = small.builder()
        [split] = builder._split_generators(None)  # type: ignore[arg-type]  (nothing is downloaded)
        tracemalloc.start()
        try:
            rows = builder._generate_examples(**split.gen_kwargs)
            assert sum(len(row["image"]["bytes"]) for _, row in rows) == images * 2 * 100_000
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(5)  # what is imported on the way
    few, many = peak(20), peak(120)
    assert many - few < 1_000_000  # the images between them hold 10,000,000 bytes
