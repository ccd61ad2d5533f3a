"""Hard positives are traced to the lexicon, their defects are found, and the lexicon is that of the paper's tables."""

import pytest
from builder_support import hard_positives_tables, paper_text
from hypothesis import given, settings
from hypothesis import strategies as st

from vl_assay.hub_datasets.hard_positives.builder import RELEASED_ROWS, swap_phrases
from vl_assay.hub_datasets.hard_positives.defects import find_defects, find_origin
from vl_assay.hub_datasets.hard_positives.lexicon import LEXICON


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


@pytest.mark.parametrize(
    ("caption", "positive", "expected"),
    [
        ("cat in box", "cat within box", ("relation_spatial", "in", (4,))),
        ("window in building in scene", "window within building within scene", ("relation_spatial", "in", (7, 19))),
        ("man riding on horse", "man traveling on horse", ("relation_action", "riding on", (4,))),
        ("man riding horse", "man traveling on horse", ("relation_action", "riding", (4,))),
        ("covered red bed", "covecrimson crimson bed", ("attribute_color", "red", (4, 8))),
        ("red bed", "crimson bed", ("attribute_color", "red", (0,))),
        ("gray cat", "grey cat", None),
        ("red cat", "crimson dog", None),
        ("big red cat", "large crimson cat", None),
        ("", "", None),
    ],
)
def test_the_line_of_the_lexicon_behind_a_positive_is_found(caption, positive, expected):
    origin = find_origin(caption, positive)
    assert (origin and (origin.entry.kind, origin.replaced, origin.starts)) == expected


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
