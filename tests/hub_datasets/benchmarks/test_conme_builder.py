"""The ConMe builder: the right answer by its letter, lists in text, and how it names what is wrong."""

from __future__ import annotations

import pytest
import sources_conme as sources
from builder_support import Small

from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path):
    return Small("conme", tmp_path)


def test_the_caption_is_the_option_that_the_letter_names(small):
    first, second = small.rows("replace_rel", with_images=False)
    assert first == {
        "id": "replace_rel/0",
        "category": "replace_rel",
        "filename": "000000000001.jpg",
        "question": "What is it?",
        "caption": "a red cup",
        "negative_caption": "a cup that isn't red",
    }
    assert (second["caption"], second["negative_caption"]) == ("a dog", "a cat, running")


def changed(**fields):
    return [tuple(fields.get(name, value) for name, value in zip(sources.HEADER, sources.ROWS[0], strict=True))]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (changed(correct="C"), "row 0: correct is 'C', not the letter"),
        (changed(correct="a red cup"), "row 0: correct is 'a red cup', not the letter"),
        (changed(text_options="['a' 'b']"), "], not a list of two texts"),
        (changed(text_options="['a', 'b', 'c']"), "], not a list of two texts"),
        (changed(text_options="[" * 5_000), "text_options: [str]"),
        (changed(text_options=f"['a', '{'b' * 20_000}']"), ", not a list of two texts"),
        (changed(text_options="[print('evaluated'), 'b']"), "text_options: [str]"),
        (changed(image="../../etc/hosts"), "does not lead to a file in a folder"),
    ],
)
def test_damaged_rows_are_an_error_and_nothing_is_evaluated(small, rows, found, capsys):
    sources.write_rows(small.folder, "replace_att", rows)
    assert found in small.error(DataError, "replace-att_HUMAN_FILTER.csv")
    assert "evaluated" not in capsys.readouterr().out
