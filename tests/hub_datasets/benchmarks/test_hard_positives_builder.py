"""Hard Positives: defects of its rows, what is refused, and the lexicon, which is that of the paper's tables."""

import json

import pytest
import sources_hard_positives as sources
from builder_support import Small, hard_positives_tables, paper_text
from hypothesis import given, settings
from hypothesis import strategies as st

from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.hard_positives.builder import RELEASED_ROWS, swap_phrases
from vl_assay.hub_datasets.hard_positives.defects import find_defects, find_origin
from vl_assay.hub_datasets.hard_positives.lexicon import LEXICON
from vl_assay.metrics.common.errors import DataError

PARTS = tuple(RELEASED_ROWS)


@pytest.fixture
def small(tmp_path):
    return Small("hard_positives", tmp_path, "swap")


def test_a_crop_has_the_box_in_its_name(small):
    assert small.rows()[1]["image"]["path"] == "91_4_2_20_30.png"


def test_the_same_captions_of_another_image_or_box_are_no_duplicate(small):
    sources.write(
        small.folder, "vl_checklist_attributes.json", [(sources.plain(n), "red a", "crimson a", "a") for n in (0, 1, 0)]
    )
    assert small.build("replace_attributes")["defect"][:] == ["", "", "duplicate"]
    swap = sources.SWAPS[0]
    boxes = [sources.boxed(0, swap[0]) | {"bbox_w": width} for width in (5, 6, 5)]
    sources.write(small.folder, "visual_genome_attribution.json", [(box, *swap) for box in boxes])
    assert small.build()["defect"][:] == ["", "", "duplicate"]


def test_negatives_that_differ_are_flagged_and_the_originals_is_kept(small):
    path = small.folder / "swapped_data" / "visual_genome_attribution.json"
    records = json.loads(path.read_text())
    records[1]["false_caption"] = "another"
    path.write_text(json.dumps(records))
    row = small.build()[1]
    assert row["defect"] == "negatives differ"
    assert row["negative_caption"] == sources.SWAPS[1][2]


@pytest.mark.parametrize("part", PARTS)
def test_clean_is_the_rows_without_a_defect(small, part):
    whole = small.build(part)
    clean = small.build(f"{part}_clean")
    assert list(clean) == [row for row in whole if not row["defect"]]
    assert 0 < len(clean) < len(whole)


def test_a_missing_file_of_swap_has_a_way_round(small):
    whole = list(small.build())
    (small.folder / "swapped_data" / "visual_genome_attribution.json").unlink()
    small.error(MissingSourceError, r"13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw.*rebuild_swap=True", crop=False)
    assert list(small.build(rebuild_swap=True)) == whole


def test_a_caption_that_cannot_be_swapped_is_named(small):
    rows = [(sources.boxed(0, sources.SWAPS[0][0]), "a man and a hat", "a hat and a man", "x")]
    sources.write(small.folder, "visual_genome_attribution.json", rows)
    small.error(DataError, r"record 0: 'a man and a hat' is not of the form.*rebuild_swap=False", rebuild_swap=True)


def test_files_that_do_not_belong_together_are_refused(small):
    path = small.folder / "swapped_data" / "vl_checklist_relations.json"
    records = json.loads(path.read_text())
    path.write_text(json.dumps(records[:-1]))
    small.error(DataError, r"have 6 and 5 rows. Take both from the same commit", "replace_relations")
    path.write_text(json.dumps(records[1:] + records[:1]))
    small.error(DataError, r"differ in record 0: images '0.jpg' and '1.jpg'", "replace_relations")


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("the crouched cat and the open door", "the open door and the crouched cat"),
        ("the black and white cat and the open door", "the open door and the black and white cat"),
        ("The old man and the red hat.", "The red hat and the old man."),
        ("the old  man and the red hat ", "the red hat and the old  man "),
        ("an old man and the red hat", None),
        ("the old man and the red hat and the dog", None),
        ("the bandana and theatre", None),
        ("the old man", None),
        ("", None),
    ],
)
def test_things_change_places_with_their_attributes(caption, expected):
    assert swap_phrases(caption) == expected


@settings(max_examples=30)
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
    ("caption", "positive"),
    [("gray cat", "grey cat"), ("red cat", "crimson dog"), ("big red cat", "large crimson cat"), ("", "")],
)
def test_a_positive_that_no_single_line_of_the_lexicon_gives_has_no_origin(caption, positive):
    assert find_origin(caption, positive) is None


@pytest.mark.parametrize(
    ("captions", "expected"),
    [
        (("cat in box", "cat within box", "cat out of box"), []),
        (("chair in front of desk", "chair within front of desk", "chair behind desk"), ["broken phrase"]),
        (("a in b in front of c", "a within b in front of c", "x"), []),
        (("covered bed", "covecrimson bed", "blue bed"), ["substring replacement"]),
        (("red, wet", "crimson, wet", "blue, wet"), []),
        (("red dog", "crimson dog", "red dog "), ["caption equals negative"]),
        (("red dog", "crimson dog", "crimson dog"), ["positive equals negative"]),
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


@pytest.fixture(scope="module")
def printed(shared_data):
    return hard_positives_tables(shared_data)


def test_the_lexicon_is_that_of_the_tables(printed):
    # "riding on" stands alone in the table; its example replaces "riding".
    ours = [
        (("riding on",) if "riding" in entry.originals else entry.originals, entry.synonym, entry.frequency)
        for entry in LEXICON
    ]
    assert ours == [row[:3] for row in printed]


def test_the_tables_examples_are_traced_to_their_lines(printed):
    for entry, (_, _, _, (caption, positive, negative)) in zip(LEXICON, printed, strict=True):
        group = entry.kind.split("_")[0]
        origin = find_origin(caption, positive, [line for line in LEXICON if line.kind.startswith(group)])
        assert origin.entry == entry
        assert find_defects(caption, positive, negative, origin) == []


def test_numbers_of_the_paper_and_of_its_tables_are_as_the_card_says(shared_data):
    text = " ".join(paper_text(shared_data, "003").split())
    relations, attributes, swaps = RELEASED_ROWS.values()
    assert f"{relations:,} hard positives targeting relations, and {attributes:,} hard positives targeting" in text
    assert f"resulting in a benchmark of {swaps:,} examples" in text
    assert "we replace 14 relations and 24 attributes" in text
    numbers = [[each.frequency for each in LEXICON if each.kind.startswith(kind)] for kind in ("relation", "attrib")]
    assert [(len(each), sum(each)) for each in numbers] == [(14, relations), (23, attributes - 3)]
