"""ARO's shuffles as its authors' code makes them: tokens, the identity and black edges, as options of the builders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sources_retrieval
from audit_support import negclip_rows
from builder_support import Small
from PIL import Image

from vl_assay.hub_datasets.authoring.text.perturb import (
    IMAGE_SHUFFLES,
    SHUFFLES,
    TEXT_SHUFFLES,
    clean_caption,
    perturb,
    shuffle_image,
)
from vl_assay.hub_datasets.core.benchmarks import get_card
from vl_assay.metrics.common.errors import UnknownNameError

FILE = "coco_karpathy_test.json"
ENTRIES = sources_retrieval.ENTRIES[FILE]
IMAGE = ENTRIES[0][0]
CAPTIONS = ["A man's (old) dog, a cat. A half-pipe", " ".join(["the dogs' tails,"] * 20)]


@pytest.fixture
def order(tmp_path: Path) -> Small:
    return Small("aro", tmp_path, "coco_order", tagger="plain", with_images=False)


@pytest.fixture
def retrieval(tmp_path: Path) -> Small:
    return Small("retrieval", tmp_path, tagger="plain")


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("RGB"))


def test_order_permutes_the_authors_tokens_where_they_are_asked_for(order):
    sources_retrieval.write(order.folder / FILE, [(IMAGE, CAPTIONS)])
    row, long = order.rows(units="tokens")
    assert row["caption"] == clean_caption(CAPTIONS[0], "tokens") == "a man's old dog, a cat a half-pipe"
    made = perturb(CAPTIONS, SHUFFLES, tagger="plain", units="tokens").perturbed
    assert [row["negative_captions"], long["negative_captions"]] == [
        [made[name][place] for name in SHUFFLES] for place in (0, 1)
    ]
    assert all({",", "'s"} <= set(negative.split()) for negative in row["negative_captions"])
    assert ["half-pipe" in negative.split() for negative in row["negative_captions"]] == [False, False, True, True]
    assert {len(negative.split()) for negative in long["negative_captions"]} == {30}


def test_with_the_identity_every_row_of_order_has_four_permutations_and_some_have_their_caption_among_them(order):
    rows = order.rows(allow_identity=True)
    assert all(row["perturbations"] == list(SHUFFLES) for row in rows)
    drawn = [row for row in rows if row["caption"] in row["negative_captions"]]
    assert 1 < len(drawn) < len(rows)
    assert rows[24]["negative_captions"] == ["zebras"] * 4
    assert [row["testable"] for row in rows] == [set(row["negative_captions"]) != {row["caption"]} for row in rows]


@pytest.mark.parametrize("shuffle", TEXT_SHUFFLES)
def test_retrieval_permutes_the_authors_tokens_of_captions_that_are_cleaned_and_cut_already(retrieval, shuffle):
    sources_retrieval.write(retrieval.folder / FILE, [(IMAGE, CAPTIONS)])
    cleaned = [clean_caption(text, "tokens") for text in CAPTIONS]
    assert retrieval.build("coco_cleaned", units="tokens")[0]["captions"] == cleaned
    [row] = retrieval.rows(f"coco_{shuffle}", units="tokens")
    assert (
        row["captions"]
        == perturb(cleaned, [shuffle], tagger="plain", units="tokens", max_words=None).perturbed[shuffle]
    )
    # 30 words are more tokens than that, none of which is cut.
    assert sorted("".join(row["captions"][1].split())) == sorted("".join(cleaned[1].split()))


def test_with_the_identity_retrieval_tells_which_captions_came_out_as_they_were(retrieval):
    rows = retrieval.rows("coco_shuffle_nouns_and_adjectives", allow_identity=True)
    cleaned = retrieval.rows("coco_cleaned")
    for row, plain in zip(rows, cleaned, strict=True):
        same = [index for index, text in enumerate(row["captions"]) if text == plain["captions"][index]]
        assert row["unchanged"] == same
    assert 2 < sum(len(row["unchanged"]) for row in rows) < 26


@pytest.mark.parametrize("shuffle", IMAGE_SHUFFLES)
def test_pixels_beyond_the_grid_are_black_where_that_is_asked_for(retrieval, shuffle):
    columns, rows = IMAGE_SHUFFLES[shuffle]
    width, height = 34 // columns * columns, 25 // rows * rows
    black, plain = (
        pixels(retrieval.build(f"coco_{shuffle}", black_edges=is_black)[0]["image"]) for is_black in (True, False)
    )
    assert not black[height:].any()
    assert not black[:, width:].any()
    assert np.array_equal(black[:height, :width], plain[:height, :width])


def test_with_the_identity_an_image_may_stay_as_it_is(retrieval):
    image = Image.open(retrieval.folder / IMAGE)

    def shuffled(seed):
        return shuffle_image(image, "shuffle_rows_4", Path(IMAGE).name, seed, allow_identity=True)

    seed = next(seed for seed in range(300) if np.array_equal(pixels(shuffled(seed)), pixels(image)))
    kept, other = (
        retrieval.build("coco_shuffle_rows_4", seed=seed, allow_identity=allowed)[0]["image"]
        for allowed in (True, False)
    )
    assert np.array_equal(pixels(kept), pixels(image))
    assert not np.array_equal(pixels(other), pixels(image))


@pytest.mark.parametrize(("name", "config"), [("aro", "coco_order"), ("retrieval", "coco_shuffle_trigrams")])
def test_unknown_units_and_switches_that_are_neither_true_nor_false_are_refused(tmp_path, name, config):
    small = Small(name, tmp_path, config, tagger="plain")
    small.error(UnknownNameError, "unknown kind of units 'letters'; known: words, tokens", units="letters")
    small.error(ValueError, "allow_identity is 'no'; pass True or False", allow_identity="no")
    if name == "retrieval":
        small.error(ValueError, "black_edges is 1; pass True or False", black_edges=1)


def test_the_card_counts_the_captions_that_the_authors_way_leaves_among_their_negatives(shared_data):
    captions = [row["title"] for row in negclip_rows(shared_data)]
    made = perturb(captions, SHUFFLES, tagger="plain", units="tokens", allow_identity=True)
    same = sum(caption in own for caption, *own in zip(made.captions, *made.perturbed.values(), strict=True))
    assert f"tagger) {same} then have themselves among their negatives" in " ".join(get_card("aro").split())
    assert f"Of {len(captions):,} captions of COCO" in get_card("aro")
