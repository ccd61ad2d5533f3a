"""The audit: what stands in its record, predictions, degenerate pairs, the limit for CI, report, page, card."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from audit_support import clean_pairs, leaking_pairs, write_blind_predictions
from console import invoke

from vl_assay import hub_datasets
from vl_assay.hub_datasets import benchmark_names, load_examples
from vl_assay.hub_datasets.authoring.audit.audit import (
    MEANINGS,
    audit,
    blind_predictions,
    failures,
    find_degenerate,
)
from vl_assay.hub_datasets.authoring.audit.blind import blind_levels, measure_levels
from vl_assay.hub_datasets.authoring.audit.probes import FOLDS
from vl_assay.hub_datasets.authoring.audit.report import to_markdown, to_summary, write_audit, write_card
from vl_assay.hub_datasets.authoring.audit.summaries import read_audit, read_summary, verdict
from vl_assay.hub_datasets.authoring.data.pairs import Pair, read_pairs, write_pairs
from vl_assay.metrics.common.errors import DataError, PredictionsError, VLAssayError
from vl_assay.metrics.records.predictions import Predictions, read_predictions, write_predictions
from vl_assay.metrics.records.schema import MatchingRow

CARDS = Path(hub_datasets.__file__).parent


@pytest.fixture(scope="module")
def leaking():
    return audit(leaking_pairs("formatting", 60, 0.6, seed=0), "made/up")


def test_a_rule_is_right_as_often_as_counted_by_hand():
    texts = [("a cat ", "a dog."), ("a cat", "a dog."), ("a  cat.", "a dog"), ("a cat.", "a dog."), ("A cat.", "a cow")]
    pairs = [Pair(f"{n}", f"{n}", *texts[n % 5], "x") for n in range(25)]
    rule = audit(pairs, "x")["scorers"]["formatting_rule"]
    # Of five: right by white space, by the stop, by white space again; a tie; wrong by the stop.
    assert rule["accuracy"] == pytest.approx((3 + 0.5 + 0) / 5)
    assert rule["tie_rate"] == pytest.approx(1 / 5)


def test_intervals_of_probes_are_wider_than_those_of_rules_by_what_folds_share():
    pairs = leaking_pairs("formatting", 60, 1, seed=0)
    scorers = audit(pairs, "x")["scorers"]
    # Both are right in every pair, and so have the same interval but for the factor.
    rule, probe = scorers["formatting_rule"], scorers["formatting"]
    assert rule["accuracy"] == probe["accuracy"] == 1
    width = [1 - scorer["accuracy_interval"][0] for scorer in (rule, probe)]
    assert width[1] == pytest.approx(width[0] * (1 + FOLDS / (FOLDS - 1)) ** 0.5)


def test_degenerate_pairs_are_counted_by_kind():
    pairs = [
        Pair("same", "1", "a cat", "a cat", "x"),
        Pair("typed", "2", "A dog.", "a dog", "x"),
        Pair("bag", "3", "a man eats a fish", "a fish eats a man", "y"),
        Pair("twice", "3", "a man eats a fish", "a fish eats a man", "y"),
        Pair("other image", "4", "a red car", "a dog", "x"),
        Pair("turned", "5", "a dog", "a cow", "x"),
        Pair("plain", "6", "a tree", "a bush", "x"),
    ]
    found = find_degenerate(pairs)
    assert {kind: (of_kind["pairs"], of_kind["examples"]) for kind, of_kind in found.items()} == {
        "identical": (1, ["same"]),
        "identical_normalised": (2, ["same", "typed"]),
        "same_bag_of_words": (4, ["same", "typed", "bag", "twice"]),
        "duplicate": (1, ["twice"]),
        "negative_under_several_images": (2, ["typed", "other image"]),
        "positive_is_a_negative": (1, ["turned"]),
    }
    assert list(found) == list(MEANINGS)
    assert found["same_bag_of_words"]["per_category"] == {"x": 2, "y": 2}


def test_a_blind_predictions_is_matched_by_id_and_judged(tmp_path):
    pairs = clean_pairs(200, 0)
    predictions = write_blind_predictions(tmp_path / "vera.parquet", pairs)
    found = audit(pairs[:100][::-1], "x", predictions=[predictions])["scorers"]["vera:vera"]
    said = {row.id: row.scores[0] for row in read_predictions(predictions).rows}
    right = np.mean([said[pair.id][0] > said[pair.id][1] for pair in pairs[:100]])
    assert (found["kind"], found["accuracy"]) == ("predictions", pytest.approx(right))
    assert {"auc", "asymmetry", "accuracy_interval"} <= set(found)


def test_predictions_that_do_not_fit_are_refused(tmp_path):
    pairs = clean_pairs(60, 0)
    vera = write_blind_predictions(tmp_path / "vera.parquet", pairs)
    clip = write_blind_predictions(tmp_path / "clip.parquet", pairs, "clip:x", "clip")
    other = write_blind_predictions(tmp_path / "other.parquet", pairs, task="other")
    for message, files, asked in (
        ("no scores for 1 of 60 pairs, such as 'another'", [vera], [*pairs[:59], pairs[59]._replace(id="another")]),
        ("which is there already", [vera, vera], pairs),
        ("family 'clip', which sees the image as far as its predictions say", [clip], pairs),
        ("unknown task of sugarcrepe 'other'", [other], pairs),
    ):
        with pytest.raises(PredictionsError, match=message):
            audit(asked, "x", predictions=files)


def test_scores_of_a_row_with_several_negatives_go_to_its_pairs(tmp_path):
    pairs = read_pairs("toy_scenes/order")[:400]
    rng = np.random.default_rng(0)
    scores = {f"test-{scene:06d}": rng.random(5).tolist() for scene in range(100)}
    rows = [MatchingRow(id, "order", "order", ["1" * 32], [0], [said]) for id, said in scores.items()]
    metadata = {
        "model": {"name": "lm", "family": "causal_lm", "sees_images": False},
        "benchmark": {"name": "toy_scenes", "task": "order", "rows": 100, "missing": []},
        "run": {},
    }
    write_predictions(tmp_path / "lm.parquet", Predictions(rows, metadata))
    expected = [[said[0], said[negative]] for said in scores.values() for negative in range(1, 5)]
    for chosen in (pairs, [pair._replace(id=f"order/{pair.id}") for pair in pairs]):
        found = blind_predictions([tmp_path / "lm.parquet"], chosen)["lm"]
        np.testing.assert_array_equal(found, expected)


def part(accuracy, low):
    return {"accuracy": accuracy, "accuracy_interval": [low, 1.0]}


@pytest.mark.parametrize(
    ("whole", "category", "expected"),
    [
        (part(0.55, 0.5), part(0.7, 0.55), []),  # the limit itself is allowed
        (part(0.56, 0.5), part(0.7, 0.5), ["56.0% of all pairs"]),
        (part(0.52, 0.5), part(0.7, 0.56), ["70.0% of a (at least 56.0%)"]),
        (part(0.56, 0.5), part(0.7, 0.56), ["56.0% of all pairs", "70.0% of a (at least 56.0%)"]),
    ],
)
def test_all_pairs_fail_by_their_accuracy_and_categories_by_the_lower_end(whole, category, expected):
    scorer = {"kind": "probe", **whole, "per_category": {"a": category, "b": part(0.4, 0.3)}, "telling": []}
    found = failures({"scorers": {"words": scorer}, "categories": {"a": 10, "b": 10}}, 0.55)
    assert len(found) == bool(expected)
    assert all(sentence in "".join(found) for sentence in expected)
    assert all(sentence.startswith("the probe 'words' is right without the image in ") for sentence in found)


def test_the_command_writes_its_files_and_leaves_with_1_naming_the_probe(tmp_path):
    write_pairs(leaking_pairs("formatting", 80, 0.8, seed=0), tmp_path / "leaky.jsonl")
    command = "audit leaky.jsonl --out report --max-blind-accuracy 0.55"
    result = invoke(*command.split(), folder=tmp_path)
    assert result.exit_code == 1
    assert "fails: the probe 'formatting' is right without the image in " in result.output.replace("\n", " ")
    assert "'full stop at the end'; 55.0% is allowed" in result.output.replace("\n", " ")
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["audit.json", "audit.md"]
    assert json.loads((tmp_path / "report" / "audit.json").read_text("utf-8"))["dataset"] == "leaky.jsonl"


CARD = "---\nlicence: mit\n---\n\n# Mine\n\nText.\r\n\n## Licence\n\nMine.\n"


def test_the_card_gets_a_section_and_is_not_changed_by_a_second_run(leaking, tmp_path):
    card = tmp_path / "README.md"
    card.write_bytes(CARD.encode())
    assert {path.name for path in write_card(card, leaking)} == {"README.md", "audit.json"}
    text = card.read_bytes().decode()
    head, _, rest = text.partition("\n\n## Audit\n\n<!-- audit made/up -->\n")
    assert head == "---\nlicence: mit\n---\n\n# Mine\n\nText."
    assert rest.endswith("<!-- /audit made/up -->\n\n## Licence\n\nMine.\n")
    assert write_card(card, leaking) == []
    other = {**leaking, "dataset": "made/other"}
    write_card(card, other)
    assert card.read_text("utf-8").count("## Audit") == 1
    assert card.read_text("utf-8").index("<!-- /audit made/up -->") < card.read_text("utf-8").index("<!-- audit made/o")
    assert list(read_summary(tmp_path / "audit.json")) == ["made/other", "made/up"]
    assert write_card(card, leaking) == []


def test_a_card_with_half_a_section_is_refused_and_left_alone(leaking, tmp_path):
    card, text = tmp_path / "README.md", "<!-- /audit made/up --><!-- audit made/up -->"
    card.write_text(text)
    with pytest.raises(DataError, match="correct or remove them"):
        write_card(card, leaking)
    assert [path.read_text() for path in tmp_path.iterdir()] == [text]


def test_a_damaged_summary_is_an_error(tmp_path):
    (tmp_path / "audit.json").write_text('{"schema": "another", "version": 1}')
    with pytest.raises(DataError, match="says schema and version"):
        read_summary(tmp_path / "audit.json")
    assert read_summary(tmp_path / "nothing.json") is None


def test_every_card_has_its_audit_or_says_why_not():
    for name in benchmark_names():
        card = (CARDS / name / "README.md").read_text("utf-8")
        assert "\n## Audit\n" in card, name
        audits = read_audit(name)
        marks = sorted(re.findall(r"<!-- audit (\S+) -->\n###", card))
        assert marks == sorted(audits or {}), name
        assert audits or "vl-assay audit" in card or "no pairs" in card, name
    with pytest.raises(VLAssayError, match="unknown benchmark"):
        read_audit("nothing")


@pytest.mark.parametrize(
    ("accuracies", "text", "is_warning"),
    [
        (
            {"a": [0.95, 0.92], "b_c": [0.997, 0.99], "d": [0.91, 0.9]},
            "b_c (99.7 %) and a (95.0 %) can be solved without the image. "
            "d (91.0 %) can be guessed without it more often than by chance.",
            True,
        ),
        (
            {"a": [0.55, 0.48], "b": [0.5, 0.45]},
            "No category is given away by its captions: without the image at most 55.0 % of a are right (bag of words)",
            False,
        ),
        (
            {f"c{number}": [1 - number / 100, 0.91] for number in range(9)},
            "c5 (95.0 %), c6 (94.0 %) and 2 more categories can be solved",
            True,
        ),
    ],
)
def test_the_verdict_on_audits_names_what_can_be_solved_without_the_image(accuracies, text, is_warning):
    best = {name: {"accuracy": value, "interval": [low, 1.0]} for name, (value, low) in accuracies.items()}
    worse = {name: {"accuracy": 0.5, "interval": [0.44, 0.6]} for name in accuracies}
    weak, strong = (
        {"categories": dict.fromkeys(accuracies, 9), "scorers": {name: {"per_category": parts}}}
        for name, parts in (("rule", worse), ("bag_of_words", best))
    )
    for audits in ([weak, strong], [strong, weak]):
        found, warns = verdict(*audits)
        assert text in found
        assert warns is is_warning


def check_against_the_card(name, reference, record):
    card = (CARDS / name / "README.md").read_text("utf-8")
    inside = card.split(f"<!-- audit {reference} -->\n")[1].split(f"<!-- /audit {reference} -->")[0]
    assert inside == to_markdown(record)
    assert read_audit(name)[reference] == json.loads(json.dumps(to_summary(record)))


@pytest.mark.parametrize("reference", ["toy_scenes/order", pytest.param("toy_order", marks=pytest.mark.slow)])
def test_the_audit_on_the_card_and_the_blind_levels_of_generated_data_are_those_of_the_data(reference):
    name = reference.partition("/")[0]
    [data] = load_examples(f"{name}/order", needs_images=False)
    check_against_the_card(name, reference, audit(read_pairs(f"{name}/order"), reference))
    assert blind_levels(data) == measure_levels(data)


@pytest.mark.slow
def test_the_audit_on_the_card_of_sugarcrepe_is_that_of_the_release(shared_data):
    pairs = read_pairs("sugarcrepe", data_dir=shared_data / "data" / "sugarcrepe")
    check_against_the_card("sugarcrepe", "sugarcrepe", audit(pairs, "sugarcrepe"))


def test_reports_escape_names_and_cut_long_captions(tmp_path):
    odd = "a|b &lt; <i>c</i>"
    pairs = [
        pair._replace(
            negative=pair.negative.replace("field", "<script>alert(1)</script>") + " so" * 300,
            category=odd if row % 2 else "d",
        )
        for row, pair in enumerate(clean_pairs(60, 0))
    ]
    result = audit(pairs, "<b>x</b>")
    result["scorers"]["rarity"]["telling"][0]["feature"] = "a|b`c<!-- /audit made/up -->"
    write_audit(result, tmp_path)
    text = (tmp_path / "audit.md").read_text("utf-8")
    assert "a\\|b &lt; &lt;i>c&lt;/i>" in text
    assert not re.search("<script>|<b>x</b>|<!--", text)
    assert "a¦b´c" in text
    assert " so" * 200 not in text
    assert " so" * 300 in result["scorers"]["words"]["telling"][0]["examples"][0]["negative"]
