"""Candidates made by rule: by hand, and laws over real and made-up captions."""

import json

import pytest
from cases import read_cases

from vl_assay.hub_datasets.authoring.data.candidates import read_candidates
from vl_assay.hub_datasets.authoring.data.sources import Captioned
from vl_assay.hub_datasets.authoring.generate.checks import KINDS, check
from vl_assay.hub_datasets.authoring.generate.generate import generate_by_rule
from vl_assay.hub_datasets.authoring.generate.rejected import Rejected
from vl_assay.hub_datasets.authoring.generate.rules import OBJECTS, RULE_KINDS, make_by_rule
from vl_assay.hub_datasets.authoring.text.articles import wrong_articles
from vl_assay.metrics.common.errors import DataError, ScoresError, UnknownNameError


def texts(kind, caption, **options):
    [found] = make_by_rule(kind, [caption], **options)
    return [each.reason if isinstance(each, Rejected) else each[0] for each in found]


@pytest.mark.parametrize(("kind", "caption", "expected"), read_cases("rules"))
def test_each_rule_makes_what_it_says(kind, caption, expected):
    [found] = texts(kind, caption)
    assert found == expected or (expected is None and "to the right of" in found)


def test_words_come_from_the_captions_at_hand_where_they_have_some():
    captions = ["a red cat", "a green dog", "a red horse", "a wet man"]
    made = [
        each[0]
        for own in make_by_rule("replace_att", captions, most=9)
        for each in own
        if not isinstance(each, Rejected)
    ]
    assert made == ["a green cat", "a red dog", "a green horse", "a dry man"]
    animals = {texts("replace_obj", "a cat", seed=seed)[0].split()[1] for seed in range(40)}
    assert len(animals) > 5
    assert animals <= set(OBJECTS["animal"])


def test_candidates_of_rules_pass_the_checks_and_depend_on_the_seed_alone(shared_data):
    rows = json.loads((shared_data / "data" / "sugarcrepe" / "data" / "replace_obj.json").read_text()).values()
    captions = list(dict.fromkeys(row["caption"] for row in rows))[:60]
    for kind in RULE_KINDS:
        made = make_by_rule(kind, captions, 1, most=2)
        assert repr(made) == repr(make_by_rule(kind, captions, 1, most=2))
        good = [
            (c, each) for c, own in zip(captions, made, strict=True) for each in own if not isinstance(each, Rejected)
        ]
        assert len(good) > 5
        for caption, (text, detail) in good:
            assert text[len(text.rstrip(" .")) :] == caption[len(caption.rstrip(" .")) :]
            assert text[: len(text) - len(text.lstrip())] == caption[: len(caption) - len(caption.lstrip())]
            if kind in KINDS:
                check(kind, caption, text, [detail["old"]] if "old" in detail else (), detail.get("new", ""))
                assert wrong_articles(text, caption) == []


def test_a_run_by_rule_writes_candidates_and_counts(tmp_path):
    texts = ("a red cat near a big dog", "a big cat near a red dog.")
    captions = [Captioned(str(n), "a.jpg", text) for n, text in enumerate(texts)]
    report = generate_by_rule(captions, tmp_path, ["swap_att", "replace_obj", "negate"], each=2)
    assert report.rejected["swap_att"] == {"a true caption": 2}
    assert report.usage is None
    assert read_candidates(tmp_path) == report.candidates
    assert {each.source for each in report.candidates} == {"rules"}
    ids = [each.id for each in report.candidates if each.kind == "negate"]
    assert ids == ["0/negate", "0/negate#1", "1/negate", "1/negate#1"]
    assert json.loads((tmp_path / "report.json").read_text())["kinds"] == ["swap_att", "replace_obj", "negate"]
    with pytest.raises(ScoresError, match="each is 0"):
        generate_by_rule(captions, tmp_path, each=0)
    with pytest.raises(UnknownNameError, match="shuffle"):
        generate_by_rule(captions, tmp_path, ["swap"])
    with pytest.raises(ScoresError, match="most is 0"):
        make_by_rule("swap_obj", ["a dog"], most=0)


@pytest.mark.parametrize("name", ["reviewed.jsonl", "pairs.jsonl"])
def test_results_of_earlier_candidates_are_neither_kept_in_force_nor_replaced(name, tmp_path):
    (tmp_path / name).write_text("kept")
    with pytest.raises(DataError, match=rf"has {name}, made of earlier candidates.*give another --out"):
        generate_by_rule([Captioned("0", "", "a red cat near a big dog")], tmp_path, ["swap_att"])
    assert [path.name for path in tmp_path.iterdir()] == [name]
