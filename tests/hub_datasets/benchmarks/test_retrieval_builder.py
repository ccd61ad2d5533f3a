"""The retrieval builder: what each condition holds, that seed and content alone decide it, that its card is true."""

import io
from pathlib import Path

import datasets
import numpy as np
import pytest
import sources_retrieval
from builder_support import Small
from PIL import Image

from vl_assay.hub_datasets.authoring.text import perturb
from vl_assay.hub_datasets.authoring.text.shuffles import IMAGE_SHUFFLES, TEXT_SHUFFLES, UNSHUFFLED
from vl_assay.hub_datasets.authoring.text.tagging import tagger_name
from vl_assay.hub_datasets.core.benchmarks import get_benchmark
from vl_assay.hub_datasets.retrieval import karpathy
from vl_assay.hub_datasets.retrieval.builder import CONFIG_NAMES, PARTS
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict

FILE = "coco_karpathy_test.json"
VALIDATION = "coco_validation"
CAPTIONS = ["A man's (old) dog, a cat. A half-pipe", " ".join(["the dogs' tails,"] * 20)]
ENTRIES = sources_retrieval.ENTRIES[FILE]
IMAGE = ENTRIES[0][0]


@pytest.fixture
def small(tmp_path):
    return Small("retrieval", tmp_path, tagger="textblob")


@pytest.mark.parametrize("config", [name for name in CONFIG_NAMES if "flickr30k_" not in name])
def test_every_image_is_a_row_with_all_its_captions(small, config):
    rows = small.rows(config)
    name, condition = PARTS[config]
    entries = sources_retrieval.ENTRIES[karpathy.SOURCES[name].file.name]
    assert [row["id"] for row in rows] == [f"{config}/{place}" for place in range(len(entries))]
    assert [row["filename"] for row in rows] == [Path(path).name for path, _ in entries]
    assert [len(row["captions"]) for row in rows] == [len(captions) for _, captions in entries]
    if condition == UNSHUFFLED:
        assert [(row["captions"], row["unchanged"]) for row in rows] == [(captions, []) for _, captions in entries]
    needs_tags = condition in ("shuffle_nouns_and_adjectives", "shuffle_all_but_nouns_and_adjectives")
    tagger = tagger_name("textblob") if needs_tags else None
    assert {(row["condition"], row["seed"], row["tagger"]) for row in rows} == {(condition, 0, tagger)}


def test_captions_are_those_of_the_perturbations(small):
    captions = [text for _, texts in ENTRIES for text in texts]
    for shuffle in TEXT_SHUFFLES:
        made = perturb.perturb(captions, [shuffle], 5, tagger="textblob")
        expected = [text or kept for text, kept in zip(made.perturbed[shuffle], made.captions, strict=True)]
        rows = small.build(f"coco_{shuffle}", seed=5, with_images=False)
        assert [text for texts in rows["captions"] for text in texts] == expected


@pytest.mark.parametrize("shuffle", IMAGE_SHUFFLES)
@pytest.mark.parametrize("option", ["black_edges", "allow_identity"])
def test_a_shuffle_of_images_is_that_of_the_shuffler_as_png_and_keeps_the_captions(small, shuffle, option):
    def shuffled(path, seed, **options):
        image = Image.open(small.folder / path).convert("RGB")
        return np.asarray(perturb.shuffle_image(image, shuffle, Path(path).name, seed, **options))

    # A seed with which the option makes a difference to the first image; of nine patches the identity is rare.
    options = {option: True}
    differs = (n for n in range(100) if not np.array_equal(shuffled(IMAGE, n), shuffled(IMAGE, n, **options)))
    seed = next(differs, 2)
    assert seed != 2 or option != "black_edges"
    for row, (path, captions) in zip(small.rows(f"coco_{shuffle}", seed=seed, **options), ENTRIES, strict=True):
        image = Image.open(io.BytesIO(row["image"]["bytes"]))
        assert image.format == "PNG"
        assert np.array_equal(np.asarray(image), shuffled(path, seed, **options))
        assert row["captions"] == captions


def test_a_damaged_image_is_named_whether_it_is_shuffled_or_not(small):
    (small.folder / IMAGE).write_bytes((small.folder / IMAGE).read_bytes()[:300])
    for config in ("coco_shuffle_rows_4", "coco"):
        with pytest.raises(datasets.exceptions.DatasetGenerationError) as caught:
            small.builder(config).download_and_prepare()
        assert "1 images are damaged: COCO_val2014_000000000000.jpg (for " in str(caught.value.__cause__)


@pytest.mark.parametrize("shuffle", ["shuffle_nouns_and_adjectives", "shuffle_trigrams"])
def test_retrieval_permutes_the_authors_tokens_of_captions_that_are_cleaned_and_cut_already(small, shuffle):
    sources_retrieval.write(small.folder / FILE, [(IMAGE, CAPTIONS)])
    cleaned = [perturb.clean_caption(text, "tokens") for text in CAPTIONS]
    assert small.build("coco_cleaned", units="tokens")[0]["captions"] == cleaned
    [row] = small.rows(f"coco_{shuffle}", units="tokens")
    assert (
        row["captions"]
        == perturb.perturb(cleaned, [shuffle], tagger="textblob", units="tokens", max_words=None).perturbed[shuffle]
    )
    # 30 words are more tokens than that, none of which is cut.
    assert sorted("".join(row["captions"][1].split())) == sorted("".join(cleaned[1].split()))


def test_with_the_identity_retrieval_tells_which_captions_came_out_as_they_were(small):
    rows = small.rows("coco_shuffle_nouns_and_adjectives", allow_identity=True)
    cleaned = small.rows("coco_cleaned")
    for row, plain in zip(rows, cleaned, strict=True):
        same = [index for index, text in enumerate(row["captions"]) if text == plain["captions"][index]]
        assert row["unchanged"] == same
    assert 2 < sum(len(row["unchanged"]) for row in rows) < 26


def test_validation_has_other_captions_than_test_and_is_scored_as_validation(small, tmp_path):
    tested, validated = (
        {text for row in small.rows(name) for text in row["captions"]} for name in ("coco", VALIDATION)
    )
    assert tested.isdisjoint(validated)
    options = {"data_dir": small.folder, "options": {"verify": False}, "progress": False}
    [file] = predict("mock:shuffled", [f"retrieval/{VALIDATION}"], out=tmp_path, **options)
    read = read_predictions(file)
    assert read.metadata["benchmark"]["split"] == "validation"
    assert len(read.rows) == 3
    [task] = [each for each in get_benchmark("retrieval").tasks if each.name == VALIDATION]
    assert not task.by_default
