"""Order perturbations and image shuffles: the paper's examples, an enumeration written out, and laws."""

import hashlib
import itertools
import json

import numpy as np
import pytest
from PIL import Image

from vl_assay.hub_datasets.authoring.text import perturb
from vl_assay.hub_datasets.authoring.text.perturb import SHUFFLES, TEXT_SHUFFLES, clean_caption, shuffle_image
from vl_assay.metrics.common.errors import DataError, ScoresError, UnknownNameError

NOUNS_AND_ADJECTIVES, OTHERS, WITHIN_TRIGRAMS, TRIGRAMS, ALL_WORDS = TEXT_SHUFFLES
# SHA-256 of what all text shuffles make of these captions with seed 0; another digest is another published set.
CAPTIONS = [
    "A child holding a flowered umbrella and petting a yak.",
    'Two dogs, a "big" cat and a red half-pipe: the girl\'s.',
    "Zebras",
    "",
]
PUBLISHED = "bf0421a08a902f8635d4af47aeaa648e02e40d4375dcd643d7f5c2ed705d729f"


def perturb_all(captions, name, seed=0, **options):
    return perturb.perturb(captions, [name], seed, tagger="textblob", **options).perturbed[name]


def every_result(name, words, kinds):
    """All that a perturbation can make of words of these kinds, the words themselves included."""
    if name == TRIGRAMS:
        runs = [words[start : start + 3] for start in range(0, len(words), 3)]
        return {" ".join(itertools.chain(*order)) for order in itertools.permutations(runs)}
    places = range(len(words))
    groups = {
        NOUNS_AND_ADJECTIVES: [[p for p in places if kinds[p] == kind] for kind in ("noun", "adjective")],
        OTHERS: [[p for p in places if kinds[p] == "other"]],
        WITHIN_TRIGRAMS: [[p for p in places if p // 3 == run] for run in range(len(words))],
        ALL_WORDS: [list(places)],
    }[name]
    results = {tuple(words)}
    for group in groups:
        fillings = set(itertools.permutations([words[place] for place in group]))
        results = {
            tuple(dict(zip(group, filling, strict=True)).get(place, word) for place, word in enumerate(result))
            for result in results
            for filling in fillings
        }
    return {" ".join(result) for result in results}


FIGURE_1 = {
    "caption": "a brown cat is looking at a gray dog and sitting in a white bathtub",
    "nouns": ["cat", "dog", "bathtub"],
    "adjectives": ["brown", "gray", "white"],
    NOUNS_AND_ADJECTIVES: "a gray bathtub is looking at a white cat and sitting in a brown dog",
    OTHERS: "at brown cat a in looking a gray dog sitting is and a white bathtub",
    WITHIN_TRIGRAMS: "cat brown a at is looking a gray dog in and sitting bathtub a white",
    TRIGRAMS: "a brown cat a white bathtub is looking at a gray dog and sitting in",
}
TABLE_1 = {
    "caption": "remarkable scene with a blue ball behind a green chair",
    "nouns": ["scene", "ball", "chair"],
    "adjectives": ["remarkable", "blue", "green"],
    NOUNS_AND_ADJECTIVES: "green ball with a remarkable chair behind a blue scene",
    OTHERS: "remarkable scene behind a blue ball with a green chair",
    WITHIN_TRIGRAMS: "scene with remarkable a ball blue a green behind chair",
}


def results_of(example, name):
    words = example["caption"].split()
    names = dict.fromkeys(example["nouns"], "noun") | dict.fromkeys(example["adjectives"], "adjective")
    return every_result(name, words, [names.get(word, "other") for word in words])


@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize("example", [FIGURE_1, TABLE_1], ids=["figure 1", "table 1"])
def test_the_paper_s_results_are_possible_and_ours_are_too(example, name):
    possible = results_of(example, name)
    assert example.get(name) in (None, *possible)
    ours = {perturb_all([example["caption"]], name, seed)[0] for seed in range(40)}
    assert ours <= possible - {example["caption"]}
    assert len(ours) > 10


def test_results_are_the_published_ones_whatever_the_hash_seed_of_the_process():
    results = perturb.perturb(CAPTIONS, TEXT_SHUFFLES, tagger="textblob").perturbed
    assert hashlib.sha256(json.dumps(results).encode()).hexdigest() == PUBLISHED


@pytest.mark.parametrize(
    ("caption", "words", "tokens"),
    [
        ("A man, a dog.", "a man a dog", "a man, a dog"),
        ('The "BIG" (red) bus #5; half-pipe', "the big red bus 5 half-pipe", "the big red bus 5 half-pipe"),
        ("It's 3.5 m -- it’s ok?", "it's 3.5 m it’s ok", "it's 3 5 m -- it’s ok?"),
        ("A dog.A cat\n", "a dog a cat", "a dog a cat"),
        ("...", "", ""),
        ("", "", ""),
        ("'quoted' men's dogs' tails-", "quoted men's dogs tails", "'quoted' men's dogs' tails-"),
    ],
)
def test_cleaning_by_hand(caption, words, tokens):
    assert clean_caption(caption) == words
    assert clean_caption(caption, "tokens") == tokens


def test_the_authors_tokens_leave_marks_that_whole_words_do_not():
    caption = "A man's dog, a cat, and a half-pipe in the sun."
    cleaned, perturbed, _ = perturb.perturb([caption], TEXT_SHUFFLES, tagger="textblob", units="tokens")
    assert cleaned == ["a man's dog, a cat, and a half-pipe in the sun"]
    # Parts of speech are those of spaCy's tokens, trigrams those of NLTK's.
    for name, half_pipe in zip(SHUFFLES, ("half - pipe", "half - pipe", "half-pipe", "half-pipe"), strict=True):
        parts = f"a man 's dog , a cat , and a {half_pipe} in the sun"
        assert sorted(perturbed[name][0].split()) == sorted(parts.split())
    # All words are those between spaces, with the marks that stick to them; the full stop goes afterwards.
    assert sorted(perturbed[ALL_WORDS][0].split()) == sorted(cleaned[0].split())
    assert perturb_all(["Zebras."], TRIGRAMS, units="tokens") == [None]
    # Six tokens are two trigrams; with the hyphen apart they would be eight, and three.
    [exchanged] = perturb_all(["a half-pipe on a snow-covered hill"], TRIGRAMS, units="tokens")
    assert exchanged == "a snow-covered hill a half-pipe on"


@pytest.mark.parametrize(
    ("captions", "options", "error", "message"),
    [
        (["a dog"], {"perturbations": ["shuffle"]}, UnknownNameError, "unknown perturbation 'shuffle'; known: "),
        (["a dog"], {"units": "letters"}, UnknownNameError, "unknown kind of units 'letters'; known: words, tokens"),
        (["a dog"], {"tagger": "nltk"}, UnknownNameError, "unknown tagger 'nltk'; known: auto, spacy, textblob"),
        (["a dog"], {"max_words": 0}, ScoresError, "max_words is 0; pass how many words to keep, at least 1"),
        ("a dog", {}, DataError, "one text came, 'a dog'; pass a list of captions"),
        (["a dog", None], {}, DataError, r"a caption is None in row 1 \(1 of 2 rows"),
    ],
)
def test_wrong_arguments_are_named(captions, options, error, message):
    with pytest.raises(error, match=message):
        perturb.perturb(captions, **options)


def picture(columns, rows, cell=(5, 4), rest=(0, 0), mode="RGB"):
    """A grid of cells of one colour each; what does not fill the grid is white."""
    grid = np.kron(np.arange(rows * columns).reshape(rows, columns) * 20, np.ones(cell[::-1]))
    pixels = np.pad(grid, ((0, rest[1]), (0, rest[0])), constant_values=255)
    return Image.fromarray(pixels.astype(np.uint8)).convert("RGB").convert(mode)


def cells(image, columns, rows, cell=(5, 4)):
    pixels = np.asarray(image.convert("RGB"))[: rows * cell[1], : columns * cell[0], 0]
    blocks = pixels.reshape(rows, cell[1], columns, cell[0]).swapaxes(1, 2).reshape(rows * columns, -1)
    assert (blocks == blocks[:, :1]).all()
    return (blocks[:, 0] // 20).tolist()


@pytest.mark.parametrize(("name", "columns", "rows"), [("rows_4", 1, 4), ("columns_4", 4, 1), ("patches_9", 3, 3)])
def test_cells_of_an_image_change_places_and_nothing_else_does(name, columns, rows):
    image = picture(columns, rows, rest=(columns - 1, rows - 1))
    orders = set()
    for seed, key in itertools.product(range(12), "ab"):
        shuffled = shuffle_image(image, f"shuffle_{name}", key, seed)
        order = cells(shuffled, columns, rows)
        orders.add(tuple(order))
        assert sorted(order) == list(range(columns * rows)) == cells(image, columns, rows) != order
        pixels = np.asarray(shuffled)
        assert (pixels[rows * 4 :] == 255).all()
        assert (pixels[:, columns * 5 :] == 255).all()
    assert len(orders) > 10
    # The order depends on the key and the seed, not on pixels.
    small, large = picture(columns, rows), picture(columns, rows, cell=(15, 12))
    shuffled = [shuffle_image(each, f"shuffle_{name}", "a", 7) for each in (small, large)]
    assert cells(shuffled[0], columns, rows) == cells(shuffled[1], columns, rows, (15, 12))
    with_identity = [shuffle_image(image, f"shuffle_{name}", "a", seed, allow_identity=True) for seed in range(300)]
    # 24 orders of four cells: of 300 draws 12.5 are the identity on average, standard deviation 3.5.
    stayed = sum(cells(each, columns, rows) == list(range(columns * rows)) for each in with_identity)
    assert 1 <= stayed <= 27 if columns * rows == 4 else stayed <= 1


@pytest.mark.parametrize("mode", ["RGB", "P"])
def test_modes_and_colours_stay_and_what_does_not_fill_the_grid_is_black_in_the_authors_way(mode):
    image = picture(3, 3, rest=(2, 1), mode=mode)
    plain, black = (shuffle_image(image, "shuffle_patches_9", "a", black_edges=edges) for edges in (False, True))
    assert (plain.mode, plain.size) == (black.mode, black.size) == (mode, image.size)
    before, after, blackened = (np.asarray(one.convert("RGB")) for one in (image, plain, black))
    assert sorted(after.reshape(-1, 3).tolist()) == sorted(before.reshape(-1, 3).tolist())
    assert not blackened[12:].any()
    assert not blackened[:, 15:].any()
    assert (blackened[:12, :15] == after[:12, :15]).all()


def test_images_that_cannot_be_shuffled_are_named():
    with pytest.raises(DataError, match=r"the image 'x\.png' has 3 × 2 pixels, too few for 1 columns and 4 rows"):
        shuffle_image(Image.new("L", (3, 2)), "shuffle_rows_4", "x.png")
    with pytest.raises(UnknownNameError, match="unknown image shuffle 'rows'; known: shuffle_rows_4, "):
        shuffle_image(Image.new("L", (9, 9)), "rows", "x.png")
