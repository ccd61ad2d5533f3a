"""ARO+CREPE: SugarCrepe's captions, each with a negative made by rule."""

import re

import pytest
from builder_support import Small, card_table

from vl_assay.hub_datasets.aro_crepe.builder import CONFIG_NAMES, make_negatives
from vl_assay.metrics.common.errors import DataError

CAPTIONS = ["A red cat on a big table.", "a dog next to a small blue car", "Green."]


@pytest.mark.parametrize("name", CONFIG_NAMES)
def test_a_negative_has_the_first_capital_and_the_full_stop_of_its_caption(name):
    for caption, made in zip(CAPTIONS, make_negatives(name, CAPTIONS, 0), strict=True):
        if made is not None:
            assert made[0] != caption
            assert made[0][:1].isupper() == caption[:1].isupper()
            assert made[0].endswith(".") == caption.endswith(".")


def test_each_kind_changes_what_it_should():
    words = [sorted(re.findall(r"\w+", caption.lower())) for caption in CAPTIONS[:2]]
    for name in ("swap", "shuffle"):
        made = [found[0] for found in make_negatives(name, CAPTIONS, 0)[:2] if found]
        assert [sorted(re.findall(r"\w+", text.lower())) for text in made] == words
    assert all(re.search(r"\b[Nn]ot?\b", found[0]) for found in make_negatives("negate", CAPTIONS, 0)[:2] if found)
    replaced = make_negatives("replace", CAPTIONS, 0)[0]
    assert replaced is not None
    assert replaced[1].startswith("replaced by another ")


def test_another_seed_draws_others_and_the_same_the_same(tmp_path):
    small = Small("aro_crepe", tmp_path, "shuffle")
    first, again, other = (small.rows(seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert [row["negative_caption"] for row in first] != [row["negative_caption"] for row in other]
    small.error(DataError, "seed is 'x'; pass a whole number", seed="x")


@pytest.mark.slow
def test_the_release_gives_the_numbers_of_the_card(shared_data, tmp_path):
    folder = shared_data / "data" / "sugarcrepe"
    small = Small("aro_crepe", tmp_path)
    card = card_table("aro_crepe", "counts")
    rows = small.rows("swap", data_dir=folder, with_images=False, verify=True)
    texts = {row[name] for row in rows for name in ("caption", "negative_caption")}
    found = (len(rows), len({row["filename"] for row in rows}), len(texts))
    assert card["swap"] == ["test", *(f"{number:,}" for number in found)]
