"""The Hard Positives builder: how hard positives are made, what a row holds, what is wrong with it, what is refused."""

from __future__ import annotations

import doctest
import io
import json
import re
from collections import Counter
from pathlib import Path

import datasets
import numpy as np
import pytest
import sources_hard_positives as sources
from huggingface_hub import DatasetCard
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vl_assay.hub_datasets import build as build_repository
from vl_assay.hub_datasets import get_benchmark, judge
from vl_assay.hub_datasets.hard_positives import builder as module
from vl_assay.hub_datasets.hard_positives import construct, defects
from vl_assay.hub_datasets.hard_positives.builder import CONFIG_NAMES, RELEASED_ROWS, HardPositives
from vl_assay.hub_datasets.hard_positives.construct import (
    COMPOUNDS,
    KINDS,
    LEXICON,
    hard_positive,
    swap_phrases,
    vg_attribution_triples,
    vl_checklist_triples,
)
from vl_assay.hub_datasets.hard_positives.defects import DEFECTS, find_defects, find_origin, find_repetitions
from vl_assay.metrics.errors import DataError
from vl_assay.model_wrappers import score

FOLDER = Path(module.__file__).parent
PARTS = tuple(RELEASED_ROWS)


# REPLACE


@pytest.mark.parametrize(
    ("kind", "caption", "negative", "expected"),
    [
        ("relation_spatial", "road by building", "road far from building", "road near building"),
        ("relation_action", "man wears jeans", "man cutting jeans", "man in jeans"),
        # The longest phrase that starts there: not "riding" alone, which would give "traveling on on".
        ("relation_action", "man riding on horse", "man opening horse", "man traveling on horse"),
        ("relation_action", "man riding horse", "man opening horse", "man traveling on horse"),
        ("relation_spatial", "dishes on top of table", "dishes below table", "dishes on table"),
        # Only where caption and negative differ.
        ("attribute_color", "white dog by white car", "white dog by red car", "white dog by ivory car"),
        ("attribute_color", "red hat and red shirt", "blue hat and red shirt", "crimson hat and red shirt"),
        # Once, though the difference holds two.
        ("relation_spatial", "window in building in scene", "window nearby scene", "window within building in scene"),
        # Whole words only.
        ("attribute_color", "covered red bed", "blue bed", "covered crimson bed"),
        ("attribute_color", "covered bed", "blue bed", None),
        ("attribute_color", "red-haired man", "bald man", None),
        ("attribute_color", "reds", "blues", None),
        # "in front of" is not "in".
        ("relation_spatial", "chair in front of desk", "chair behind desk", None),
        (
            "relation_spatial",
            "chair in the sun in front of desk",
            "chair at desk",
            "chair within the sun in front of desk",
        ),
        # The word is elsewhere, or of another kind.
        ("attribute_color", "red dog by car", "red dog by bus", None),
        ("attribute_size", "red dog", "blue dog", None),
        ("relation_spatial", "sitting on top of bed", "sitting below bed", "sitting on bed"),
        # Negatives may drop articles, captions may have stray blanks and capitals.
        ("relation_spatial", "window in a house", "window nearby house", "window within a house"),
        ("attribute_state", "woman walking wet  sand", "woman walking sunny sand", "woman walking damp  sand"),
        ("attribute_state", " old clock", "young clock", " aged clock"),
        ("attribute_color", "White wall", "Red wall", "Ivory wall"),
        ("relation_spatial", "clouds IN sky", "clouds OUT OF sky", "clouds WITHIN sky"),
        ("relation_spatial", "pan next  to cup", "pan far from cup", "pan near cup"),
        # Nothing changed, or only added or taken away.
        ("attribute_color", "red dog", "red dog", None),
        ("attribute_color", "red dog", "big red dog", None),
        ("attribute_color", "red dog", "dog", "crimson dog"),
        ("attribute_color", "white white cat", "white cat", "white ivory cat"),
        ("attribute_color", "", "red dog", None),
        ("attribute_color", "red dog", "", "crimson dog"),
    ],
)
def test_one_word_or_phrase_is_replaced_where_the_negative_differs(kind, caption, negative, expected):
    made = hard_positive(caption, negative, kind)
    assert (made and made.positive_caption) == expected


def test_a_replacement_tells_its_words_and_place():
    made = hard_positive("cat on top of box", "cat below box", "relation_spatial")
    assert made == ("cat on box", "on top of", "on", 4)


def test_compounds_can_be_taken_apart_as_in_the_release():
    made = hard_positive("chair in front of desk", "chair behind desk", "relation_spatial", compounds=())
    assert made.positive_caption == "chair within front of desk"


def test_an_unknown_kind_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown kind 'colour'; known: relation_spatial, .*attribute_color"):
        hard_positive("red dog", "blue dog", "colour")


WORDS = sorted({word for entry in LEXICON for phrase in (*entry.originals, entry.synonym) for word in phrase.split()})
CAPTIONS = st.lists(
    st.tuples(
        st.sampled_from([*WORDS, "dog", "covered", "front", "between", "a", "Red", "IN"]), st.sampled_from(" \t")
    ),
    max_size=8,
).map(lambda parts: "".join(word + blank for word, blank in parts))


@given(CAPTIONS, CAPTIONS, st.sampled_from(KINDS))
def test_a_hard_positive_changes_nothing_else_in_the_caption(caption, negative, kind):
    made = hard_positive(caption, negative, kind)
    if made is None:
        return
    end = made.start + len(made.replaced)
    assert caption[made.start : end] == made.replaced
    assert made.positive_caption == caption[: made.start] + made.replacement + caption[end:]
    # Whole words: what is before and after is white space or an end.
    assert caption[: made.start][-1:].strip() == caption[end:][:1].strip() == ""
    entry = next(e for e in LEXICON if e.kind == kind and " ".join(made.replaced.lower().split()) in e.originals)
    assert made.replacement.lower() == entry.synonym
    for compound in COMPOUNDS:
        assert caption.lower().count(compound) == made.positive_caption.lower().count(compound)


@given(CAPTIONS, CAPTIONS, st.sampled_from(KINDS))
def test_what_is_replaced_lies_where_caption_and_negative_differ(caption, negative, kind):
    made = hard_positive(caption, negative, kind)
    if made is not None:
        ours, theirs = caption.lower().split(), negative.lower().split()
        first = len(caption[: made.start].split())
        last = first + len(made.replaced.split())
        # The negative does not begin with all words up to the replaced ones and these.
        assert theirs[:last] != ours[:last]


# SWAP


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("the crouched cat and the open door", "the open door and the crouched cat"),
        ("the black and white cat and the open door", "the open door and the black and white cat"),
        ("The old man and the red hat.", "The red hat and the old man."),
        ("the old  man and the red hat ", "the red hat and the old  man "),
        ("the old man and a red hat", None),
        ("an old man and the red hat", None),
        ("the old man and the red hat and the dog", None),
        ("the and the", None),
        ("the old man", None),
        ("the bandana and theatre", None),
        ("", None),
    ],
)
def test_things_change_places_with_their_attributes(caption, expected):
    assert swap_phrases(caption) == expected


PHRASES = st.lists(st.sampled_from(["red", "old", "black", "and", "sand", "theatre", "man"]), min_size=1, max_size=4)


@given(PHRASES, PHRASES)
def test_a_swap_keeps_the_bag_of_words_and_undoes_itself(first, second):
    caption = f"the {' '.join(first)} and the {' '.join(second)}"
    swapped = swap_phrases(caption)
    assert swapped == f"the {' '.join(second)} and the {' '.join(first)}"
    assert Counter(swapped.split()) == Counter(caption.split())
    assert swap_phrases(swapped) == caption


# From the source benchmarks


def test_vl_checklist_gives_triples_of_what_the_lexicon_knows():
    entries = [
        ["VG_100K/1.jpg", {"POS": ["red glove", "not read"], "NEG": ["blue glove"]}],
        ["VG_100K/2.jpg", {"POS": ["pink glove"], "NEG": ["blue glove"]}],  # no synonym: discarded
        ("VG_100K_2/3.jpg", {"POS": ["lady wearing blue shirt"], "NEG": ["lady wearing yellow shirt"]}),
    ]
    assert vl_checklist_triples(entries, "attribute_color") == [
        ("VG_100K/1.jpg", "attribute_color", "red glove", "crimson glove", "blue glove"),
        (
            "VG_100K_2/3.jpg",
            "attribute_color",
            "lady wearing blue shirt",
            "lady wearing sapphire shirt",
            "lady wearing yellow shirt",
        ),
    ]
    assert len(entries) == 3


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        ["a.jpg"],
        ["a.jpg", {"POS": []}],
        ["a.jpg", {"POS": ["x"]}],
        ["a.jpg", {"POS": [1], "NEG": ["x"]}],
        ["a.jpg", "text"],
        [7, {"POS": ["x"], "NEG": ["y"]}],
    ],
)
def test_an_entry_of_another_form_is_named_by_its_number(entry):
    good = ["a.jpg", {"POS": ["red"], "NEG": ["blue"]}]
    with pytest.raises(ValueError, match=r"entry 1 must be \[image path"):
        vl_checklist_triples([good, entry], "attribute_color")


def test_vg_attribution_gives_one_triple_a_record_or_names_the_record():
    good = {"image_path": "1.jpg", "true_caption": "the old man and the red hat", "false_caption": "x", "bbox_x": 1}
    triple = ("1.jpg", "swap", "the old man and the red hat", "the red hat and the old man", "x")
    assert vg_attribution_triples([good, good]) == [triple, triple]
    with pytest.raises(ValueError, match="record 1: 'a man' is not of the form"):
        vg_attribution_triples([good, {**good, "true_caption": "a man"}])
    with pytest.raises(ValueError, match="record 0 must have the text fields image_path"):
        vg_attribution_triples([{**good, "image_path": None}])


# How a released positive came about, and what is wrong with it


@pytest.mark.parametrize(
    ("caption", "positive", "expected"),
    [
        ("cat in box", "cat within box", ("relation_spatial", "in", (4,))),
        ("window in building in scene", "window within building within scene", ("relation_spatial", "in", (7, 19))),
        ("window in building in scene", "window in building within scene", ("relation_spatial", "in", (19,))),
        ("man riding on horse", "man traveling on horse", ("relation_action", "riding on", (4,))),
        ("man riding horse", "man traveling on horse", ("relation_action", "riding", (4,))),
        ("covered red bed", "covecrimson crimson bed", ("attribute_color", "red", (4, 8))),
        ("red bed", "crimson bed", ("attribute_color", "red", (0,))),
        ("gray cat", "grey cat", None),
        ("red cat", "red cat", None),
        ("red cat", "crimson dog", None),
        ("big red cat", "large crimson cat", None),
        ("", "", None),
    ],
)
def test_the_line_of_the_lexicon_behind_a_positive_is_found(caption, positive, expected):
    origin = find_origin(caption, positive)
    assert (origin and (origin.entry.kind, origin.replaced, origin.starts)) == expected


@given(st.sampled_from(LEXICON), st.data())
def test_every_way_to_replace_an_entry_is_found_with_places_that_give_the_positive(entry, data):
    original = data.draw(st.sampled_from(entry.originals))
    filler = st.sampled_from(["dog ", " ", "x", "front of ", "the "])
    parts = data.draw(st.lists(st.tuples(filler, st.booleans()), min_size=1, max_size=5))
    if not any(replaced for _, replaced in parts):
        return
    caption = "".join(text + original for text, _ in parts) + " end"
    positive = "".join(text + (entry.synonym if replaced else original) for text, replaced in parts) + " end"
    origin = find_origin(caption, positive, [entry])
    again, last = "", 0
    for start in origin.starts:
        again += caption[last:start] + entry.synonym
        last = start + len(origin.replaced)
    assert again + caption[last:] == positive


@pytest.mark.parametrize(
    ("captions", "expected"),
    [
        (("cat in box", "cat within box", "cat out of box"), []),
        (("chair in front of desk", "chair within front of desk", "chair behind desk"), ["broken phrase"]),
        (("a in b in front of c", "a within b in front of c", "x"), []),
        (("covered bed", "covecrimson bed", "blue bed"), ["substring replacement"]),
        (("reds", "crimsons", "blues"), ["substring replacement"]),
        (("red, wet", "crimson, wet", "blue, wet"), []),
        (("red dog", "crimson dog", "red dog "), ["caption equals negative"]),
        (("red dog", "crimson dog", "crimson dog"), ["positive equals negative"]),
        (("red dog", "red dog", "blue dog"), ["positive equals caption"]),
        (
            ("red dog", "red dog", "red dog"),
            ["caption equals negative", "positive equals negative", "positive equals caption"],
        ),
    ],
)
def test_defects_of_a_row_are_named(captions, expected):
    caption, positive, _ = captions
    found = find_defects(*captions, find_origin(caption, positive))
    assert found == expected
    assert set(found) <= set(DEFECTS)


@given(CAPTIONS, CAPTIONS, st.sampled_from(KINDS))
def test_what_we_construct_cuts_no_word_and_no_compound(caption, negative, kind):
    caption, negative = caption.lower(), negative.lower()
    made = hard_positive(caption, negative, kind)
    if made is not None:
        entry = next(e for e in LEXICON if e.kind == kind and " ".join(made.replaced.split()) in e.originals)
        origin = defects.Origin(entry, made.replaced, (made.start,))
        assert not {"substring replacement", "broken phrase"} & set(
            find_defects(caption, made.positive_caption, negative, origin)
        )


@given(st.lists(st.integers(0, 3)))
def test_a_repetition_is_a_row_that_came_before(rows):
    assert find_repetitions(rows) == [row in rows[:number] for number, row in enumerate(rows)]


# The lexicon and the paper


@pytest.fixture(scope="module")
def paper(shared_data):
    found = sorted((shared_data / "papers").glob("003_*.txt"))
    if not found:
        pytest.skip("the paper's text is not there")
    return found[0].read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def printed(paper):
    """The rows of Tables 4-6: words, synonym, number, and the example's three captions."""
    rows = []
    for line in paper.splitlines():
        cells = line.split("\t")
        example = re.fullmatch(r"O: (.+) HP: (.+) HN: (.+)", cells[-1])
        if len(cells) == 4 and example:
            rows.append((tuple(cells[0].split(", ")), cells[1], int(cells[2]), example.groups()))
    return rows


def test_the_lexicon_is_that_of_the_tables(printed):
    # "riding on" stands alone in the table; its example replaces "riding".
    ours = [
        (("riding on",) if "riding" in entry.originals else entry.originals, entry.synonym, entry.frequency)
        for entry in LEXICON
    ]
    assert ours == [row[:3] for row in printed]


def test_the_tables_examples_are_constructed(printed):
    for entry, (_, _, _, (caption, positive, negative)) in zip(LEXICON, printed, strict=True):
        assert hard_positive(caption, negative, entry.kind).positive_caption == positive


def test_the_tables_examples_are_traced_to_their_lines(printed):
    for entry, (_, _, _, (caption, positive, negative)) in zip(LEXICON, printed, strict=True):
        group = entry.kind.split("_")[0]
        origin = find_origin(caption, positive, [line for line in LEXICON if line.kind.startswith(group)])
        assert origin.entry == entry
        assert find_defects(caption, positive, negative, origin) == []


def test_numbers_of_the_tables_are_as_the_card_says(paper):
    assert "we replace 14 relations and 24 attributes" in " ".join(paper.split())
    groups = {
        group: [entry.frequency for entry in LEXICON if entry.kind.startswith(group)]
        for group in ("relation", "attrib")
    }
    assert {group: (len(numbers), sum(numbers)) for group, numbers in groups.items()} == {
        "relation": (14, 16_868),
        "attrib": (23, 10_572),
    }
    assert RELEASED_ROWS["replace_relations"] == 16_868
    assert RELEASED_ROWS["replace_attributes"] == 10_572 + 3


def test_swap_makes_the_papers_example(paper):
    text = " ".join(paper.split())
    for caption in ("the crouched cat and the open door", swap_phrases("the crouched cat and the open door")):
        assert f"“{caption}”" in text


# What a row holds


@pytest.fixture
def release(tmp_path):
    sources.make(tmp_path / "release")
    return tmp_path / "release"


@pytest.fixture
def make(tmp_path):
    def make(data_dir, config="swap", **options):
        return HardPositives(
            cache_dir=str(tmp_path / "cache"),
            dataset_name="hard_positives",
            config_name=config,
            data_dir=None if data_dir is None else str(data_dir),
            **{"verify": False, **options},
        )

    return make


@pytest.fixture
def build(make):
    def build(*args, **options):
        builder = make(*args, **options)
        builder.download_and_prepare()
        return builder.as_dataset(split="test")

    return build


def captions(rows):
    names = ("caption", "positive_caption", "negative_caption")
    return [tuple(row[name] for name in names) for row in rows.remove_columns("image")]


def test_columns_and_types_are_the_documented_ones(build, release):
    text = datasets.Value("string")
    start = {"id": text, "category": text, "image": datasets.Image(), "filename": text}
    start |= {"caption": text, "positive_caption": text, "negative_caption": text}
    replace = start | {"replaced": text, "replacement": text, "defect": text}
    swap = datasets.Features(start | {"attributes": [text], "bbox": [datasets.Value("int32")], "defect": text})
    for config, features in (("replace_relations", replace), ("replace_attributes_clean", replace), ("swap", swap)):
        found = build(release, config).features
        assert list(found) == list(features)
        assert found == datasets.Features(features)


@pytest.mark.parametrize(
    ("config", "rows"),
    [(p, getattr(sources, n)) for p, n in zip(PARTS, ("RELATIONS", "ATTRIBUTES", "SWAPS"), strict=True)],
)
def test_text_is_kept_exactly_as_released(build, release, config, rows):
    dataset = build(release, config)
    assert captions(dataset) == rows
    assert dataset["id"][:] == [f"{config}/{number}" for number in range(len(rows))]


def test_relations_have_their_category_words_and_defects(build, release):
    dataset = build(release, "replace_relations").remove_columns("image")
    found = [(row["category"], row["replaced"], row["replacement"], row["defect"]) for row in dataset]
    assert found == [
        ("relation_spatial", "in", "within", ""),
        ("relation_spatial", "behind", "to the rear of", ""),
        ("relation_action", "wearing", "in", ""),
        ("relation_action", "riding", "traveling on", ""),
        ("relation_spatial", "in", "within", "duplicate"),
        ("relation_spatial", "in", "within", "broken phrase"),
    ]


def test_attributes_have_their_category_words_and_defects(build, release):
    dataset = build(release, "replace_attributes").remove_columns("image")
    found = [(row["category"], row["replaced"], row["replacement"], row["defect"]) for row in dataset]
    assert found == [
        ("attribute_color", "red", "crimson", ""),
        ("attribute_size", "small", "tiny", ""),
        ("attribute_color", "red", "crimson", "substring replacement"),
        ("attribute_action", "standing", "upright", "caption equals negative"),
        ("attribute_state", "clear", "unclouded", ""),
        ("attribute_other", "", "", ""),
    ]


def test_swaps_have_their_attributes_box_and_defects(build, release):
    rows = list(build(release).remove_columns("image"))
    assert {row["category"] for row in rows} == {"swap"}
    assert rows[1]["attributes"] == ["big", "wet"]
    assert rows[1]["bbox"] == [4, 2, 20, 30]
    assert [row["defect"] for row in rows] == ["", "", "caption equals negative", ""]


def test_several_defects_stand_together(build, release):
    row = (sources.plain(0), "covered bed", "covecrimson bed", "covered bed ")
    sources.write(release, "vl_checklist_attributes.json", [row, row])
    found = build(release, "replace_attributes")["defect"][:]
    assert found[0] == "caption equals negative; substring replacement"
    assert found[1] == "duplicate; " + found[0]


def test_the_same_captions_of_another_image_or_box_are_no_duplicate(build, release):
    sources.write(
        release, "vl_checklist_attributes.json", [(sources.plain(n), "red a", "crimson a", "a") for n in (0, 1, 0)]
    )
    assert build(release, "replace_attributes")["defect"][:] == ["", "", "duplicate"]
    swap = sources.SWAPS[0]
    boxes = [sources.boxed(0, swap[0]) | {"bbox_w": width} for width in (5, 6, 5)]
    sources.write(release, "visual_genome_attribution.json", [(box, *swap) for box in boxes])
    assert build(release)["defect"][:] == ["", "", "duplicate"]


def test_negatives_that_differ_are_flagged_and_the_originals_is_kept(build, release):
    path = release / "swapped_data" / "visual_genome_attribution.json"
    records = json.loads(path.read_text())
    records[1]["false_caption"] = "another"
    path.write_text(json.dumps(records))
    row = build(release)[1]
    assert row["defect"] == "negatives differ"
    assert row["negative_caption"] == sources.SWAPS[1][2]


@pytest.mark.parametrize("part", PARTS)
def test_clean_is_the_rows_without_a_defect(build, release, part):
    whole = build(release, part)
    clean = build(release, f"{part}_clean")
    assert list(clean) == [row for row in whole if not row["defect"]]
    assert 0 < len(clean) < len(whole)


def test_streaming_gives_the_rows_of_the_prepared_dataset(build, make, release):
    for config in ("replace_relations", "swap", "swap_clean"):
        assert list(make(release, config).as_streaming_dataset(split="test")) == list(build(release, config))


# Images


def raw(dataset):
    return dataset.cast_column("image", datasets.Image(decode=False))


def test_images_of_replace_are_whole_files(build, release):
    for number, row in enumerate(raw(build(release, "replace_relations"))):
        name = sources.path_of(number % sources.IMAGES)
        assert row["filename"] == row["image"]["path"] == Path(name).name
        assert row["image"]["bytes"] == (release / name).read_bytes()


def test_images_of_swap_are_the_box_to_the_pixel(build, release):
    for row in raw(build(release)):
        x, y, w, h = row["bbox"]
        with Image.open(release / "data" / "images" / row["filename"]) as image:
            expected = np.asarray(image.convert("RGB"))[y : y + h, x : x + w]
        assert row["image"]["path"] == f"{Path(row['filename']).stem}_{x}_{y}_{w}_{h}.png"
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(row["image"]["bytes"]))), expected)


def test_a_box_that_overruns_its_image_is_black_outside(build, release):
    box = sources.boxed(0, sources.SWAPS[0][0]) | {"bbox_x": 40, "bbox_y": 35, "bbox_w": 20, "bbox_h": 10}
    sources.write(release, "visual_genome_attribution.json", [(box, *sources.SWAPS[0])])
    pixels = np.asarray(build(release)[0]["image"])
    assert pixels.shape == (10, 20, 3)
    assert pixels[:5, :8].any()
    assert not pixels[5:].any()
    assert not pixels[:, 8:].any()


def test_without_crop_images_of_swap_are_whole_files(build, release):
    for row in raw(build(release, crop=False)):
        assert row["image"]["bytes"] == (release / "data" / "images" / row["filename"]).read_bytes()


@pytest.mark.parametrize("place", ["data/VG_100K_2", "VG_100K", "images", "."])
def test_images_are_found_in_the_documented_places(build, release, place):
    (release / place).mkdir(exist_ok=True)
    for path in list((release / "data").rglob("*.jpg")):
        if path.parent != release / place:
            path.rename(release / place / path.name)
    assert all(build(release, "replace_attributes")["image"])


def test_missing_images_are_named_with_their_rows_and_the_cure(make, release):
    (release / sources.path_of(0)).unlink()
    (release / sources.path_of(1)).write_bytes(b"")
    with pytest.raises(FileNotFoundError) as caught:
        make(release, "replace_relations").download_and_prepare()
    message = str(caught.value)
    assert "2 of 4 images are missing" in message
    assert "0.jpg (for replace_relations/0, replace_relations/4), 1.jpg (for " in message
    for cure in ("Visual Genome", "VG_100K_2", "allow_missing=True", "with_images=False"):
        assert cure in message


@pytest.mark.parametrize("config", ["replace_relations", "swap"])
def test_allowed_missing_images_keep_their_rows(build, release, config):
    for path in list((release / "data").rglob("*0.jpg")):
        path.unlink()
    dataset = build(release, config, allow_missing=True)
    assert [image is None for image in dataset["image"]] == [
        name in ("0.jpg", "90.jpg") for name in dataset["filename"]
    ]
    assert dataset["image"][0] is None


def test_text_alone_needs_no_images(build, release):
    for path in list((release / "data").rglob("*.jpg")):
        path.unlink()
    dataset = build(release, with_images=False)
    assert "image" not in dataset.features
    assert len(dataset) == len(sources.SWAPS)


def test_an_image_that_cannot_be_cropped_is_named(make, release):
    (release / "data" / "images" / "91.jpg").write_bytes(b"no image")
    with pytest.raises(datasets.exceptions.DatasetGenerationError) as caught:
        make(release).download_and_prepare()
    assert re.search(r"91\.jpg cannot be decoded .*crop=False", str(caught.value.__cause__))


# Sources that are missing or do not fit


def test_without_data_dir_the_repository_is_named(make):
    with pytest.raises(
        FileNotFoundError, match=r"data_dir is needed.*git clone https://github.com/amitakamath/hard_pos"
    ):
        make(None).download_and_prepare()


def test_data_dir_that_is_not_a_folder_is_named(make, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere is not a folder.*git clone"):
        make(tmp_path / "nowhere").download_and_prepare()


@pytest.mark.parametrize("place", ["data", "swapped_data"])
def test_a_missing_file_is_named_with_where_to_get_it(make, release, place):
    (release / place / "vl_checklist_relations.json").unlink()
    with pytest.raises(
        FileNotFoundError, match=rf"{place}/vl_checklist_relations.json is not there.*git clone"
    ) as caught:
        make(release, "replace_relations").download_and_prepare()
    assert "rebuild_swap" not in str(caught.value)


def test_a_missing_file_of_swap_has_a_way_round(make, build, release):
    whole = list(build(release))
    (release / "swapped_data" / "visual_genome_attribution.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw.*rebuild_swap=True"):
        make(release, crop=False).download_and_prepare()
    assert list(build(release, rebuild_swap=True)) == whole


def test_a_caption_that_cannot_be_swapped_is_named(make, release):
    rows = [(sources.boxed(0, sources.SWAPS[0][0]), "a man and a hat", "a hat and a man", "x")]
    sources.write(release, "visual_genome_attribution.json", rows)
    with pytest.raises(ValueError, match=r"record 0: 'a man and a hat' is not of the form.*rebuild_swap=False"):
        make(release, rebuild_swap=True).download_and_prepare()


def test_a_release_of_another_size_is_refused_unless_told_otherwise(make, release):
    for part, rows in RELEASED_ROWS.items():
        with pytest.raises(ValueError, match=rf"has [46] rows, the release has {rows:,}.*verify=False"):
            make(release, part, verify=True).download_and_prepare()


def test_files_that_do_not_belong_together_are_refused(make, release):
    path = release / "swapped_data" / "vl_checklist_relations.json"
    records = json.loads(path.read_text())
    path.write_text(json.dumps(records[:-1]))
    with pytest.raises(ValueError, match=r"have 6 and 5 rows. Take both from the same commit"):
        make(release, "replace_relations").download_and_prepare()
    path.write_text(json.dumps(records[1:] + records[:1]))
    with pytest.raises(ValueError, match=r"differ in record 0: images '0.jpg' and '1.jpg'"):
        make(release, "replace_relations").download_and_prepare()


GOOD = {"image_path": "0.jpg", "true_caption": "a", "false_caption": "b"}
BOXED = GOOD | {"bbox_x": 0, "bbox_y": 0, "bbox_w": 5, "bbox_h": 5, "attributes": ["x", "y"]}


@pytest.mark.parametrize(
    ("part", "content", "found"),
    [
        ("replace_relations", b"", "is not valid JSON"),
        ("replace_relations", b"\xff", "is not valid JSON"),
        ("replace_relations", {"0": GOOD}, "holds dict at the top level"),
        ("replace_relations", [], "holds an empty list"),
        ("replace_relations", [GOOD, 7], "record 1: found int instead of a record"),
        ("replace_relations", [{}], "record 0: image_path is missing; true_caption is missing; false_caption is"),
        ("replace_relations", [GOOD | {"true_caption": None}], "true_caption is NoneType, not text"),
        ("replace_relations", [GOOD | {"image_path": "a/"}], "image_path 'a/' does not end in a file name"),
        ("replace_relations", [GOOD | {"image_path": "a/.."}], "image_path 'a/..' does not end in a file name"),
        ("swap", [GOOD], "record 0: bbox_x is missing"),
        ("swap", [BOXED | {"bbox_w": 0}], "[0, 0, 0, 5], not whole numbers with a size of at least 1"),
        ("swap", [BOXED | {"bbox_x": True}], "not whole numbers"),
        ("swap", [BOXED | {"bbox_x": "1"}], "not whole numbers"),
        ("swap", [BOXED | {"attributes": ["x"]}], "attributes is ['x'], not a list of two texts"),
        ("swap", [BOXED | {"attributes": "xy"}], "attributes is 'xy', not a list of two texts"),
    ],
)
def test_damaged_files_are_an_error_that_names_file_and_record(make, release, part, content, found):
    path = release / "data" / module._FILES[part]
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ValueError, match=r"Expected a list of records") as caught:
        make(release, part).download_and_prepare()
    assert str(path) in str(caught.value)
    assert found in str(caught.value)


def test_errors_come_before_anything_is_written(make, release):
    (release / sources.path_of(0)).unlink()
    builder = make(release, "replace_relations")
    with pytest.raises(FileNotFoundError):
        builder.download_and_prepare()
    assert not Path(builder.cache_dir).exists()


# From sources to results


def test_every_config_goes_through_a_repository(release, tmp_path):
    out = build_repository("hard_positives", tmp_path / "out", data_dir=release, options={"verify": False})
    for config in CONFIG_NAMES:
        plain = datasets.load_dataset(str(out), config, split="test")
        streamed = datasets.load_dataset(str(out), config, split="test", streaming=True)
        assert plain["id"][:] == [row["id"] for row in streamed]
    counts = re.findall(r"\| (\w+) \| test \| ([\d,]+) \|", (out / "README.md").read_text())
    assert counts == list(zip(CONFIG_NAMES, ["6", "6", "4", "4", "4", "3"], strict=True))


def test_a_missing_source_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match="data_dir is needed"):
        build_repository("hard_positives", tmp_path / "out")


def test_scores_are_judged_by_both_metrics_and_by_halves(release, tmp_path):
    sheets = score(
        "mock:shuffled",
        ["hard_positives", "hard_positives/replace_clean", "hard_positives/replace_kinds"],
        data_dir=release,
        options={"verify": False},
        out=tmp_path / "out",
        progress=False,
    )
    results = judge(sheets, resamples=100)
    assert [result.metric for result in results] == ["augmented_accuracy", "brittleness"] * 4
    replace, swap, clean, kinds = (result.scores for result in results[::2])
    assert (replace["n"], swap["n"], clean["n"]) == (12, 4, 8)
    assert set(replace["per_category"]) == {"replace_relations", "replace_attributes"}
    assert set(kinds["per_category"]) >= {"relation_spatial", "attribute_color", "attribute_other"}


def test_the_three_full_configs_are_scored_by_default():
    tasks = get_benchmark("hard_positives").tasks
    assert [config for task in tasks if task.by_default for config in task.configs] == list(PARTS)
    assert {config for task in tasks for config in task.configs} == set(CONFIG_NAMES)


# The card


def card_table(marker):
    """The rows of the table between two markers of the card, without its head."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    inside = text.split(f"<!-- {marker} -->")[1].split(f"<!-- /{marker} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.split("\n") if line][2:]


def test_card_is_valid_and_leaves_configs_to_the_build():
    card = DatasetCard.load(FOLDER / "README.md", ignore_metadata_errors=False)
    metadata = card.data.to_dict()
    assert metadata["license"] == "unknown"
    assert not {"configs", "dataset_info"} & set(metadata)


def test_card_counts_are_those_of_the_paper(paper):
    table = card_table("counts")
    assert [row[0] for row in table] == list(CONFIG_NAMES)
    assert [row[2] for row in table[:3]] == [f"{rows:,}" for rows in RELEASED_ROWS.values()]
    text = " ".join(paper.split())
    assert "16,868 hard positives targeting relations, and 10,575 hard positives targeting attributes" in text
    assert "resulting in a benchmark of 28,748 examples" in text


def test_card_prints_the_lexicon_and_the_defects():
    assert card_table("lexicon") == [
        [entry.kind, ", ".join(entry.originals), entry.synonym, f"{entry.frequency:,}"] for entry in LEXICON
    ]
    assert [row[0] for row in card_table("defects")] == list(DEFECTS)


def test_card_names_every_column_and_option(build, release):
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    columns = set(build(release).features) | set(build(release, "replace_relations").features)
    assert set(re.findall(r"^\| (\w+) \| (?:string|image|list)", text, re.MULTILINE)) == columns
    for option in ("with_images", "allow_missing", "verify", "crop", "rebuild_swap"):
        assert f"| `{option}=" in text


@pytest.mark.parametrize("checked", [construct, defects])
def test_docstrings_tell_the_truth(checked):
    result = doctest.testmod(checked)
    assert result.attempted > 1
    assert result.failed == 0
