"""People compare two sets of negatives: what is drawn, what a page may know, what is counted."""

import json

import pytest
from console import invoke
from review_support import decide

from vl_assay.hub_datasets.authoring.data.pairs import Pair
from vl_assay.hub_datasets.authoring.review.comparing import draw_comparisons, prepare, read_comparisons
from vl_assay.hub_datasets.authoring.review.review import open_review
from vl_assay.metrics.common.errors import DataError, UnknownNameError

NAMES = ("mine", "theirs")


def pairs(word, kinds=("replace_obj", "add_att", "swap_obj"), n=4):
    return [
        Pair(f"{word}/{kind}/{i}", f"image {i}", f"caption {i}", f"{word} {kind} {i}", kind)
        for kind in kinds
        for i in range(n)
    ]


@pytest.fixture
def sets():
    return pairs("own"), pairs("other", ("replace", "negate", "shuffle"))


@pytest.fixture
def folder(sets, tmp_path):
    prepare(lambda: sets, NAMES, tmp_path, sample=3, seed=1)
    return tmp_path


def answer(desk, index, sense, english="tie", annotator="ana"):
    answers = {"makes more sense": sense, "is better English": english}
    return decide(desk, annotator, desk.items[index].id, **answers)


def side_of(item, name):
    return "A" if item.set_a == name else "B"


def test_negatives_of_the_same_caption_and_kind_are_drawn_on_random_sides(sets):
    found = draw_comparisons(*sets, NAMES, sample=3)
    assert sorted(item.kind for item in found) == ["negate / add"] * 3 + ["replace"] * 3
    for item in found:
        number = item.caption.split()[-1]
        assert {item.set_a: item.a.split()[0], item.set_b: item.b.split()[0]} == {"mine": "own", "theirs": "other"}
        assert item.a.endswith(number)
        assert item.b.endswith(number)
    many = draw_comparisons(pairs("own", n=60), pairs("other", ("replace",), n=60), NAMES, sample=60)
    assert 15 < sum(item.set_a == "mine" for item in many) < 45
    assert found == draw_comparisons(*sets, NAMES, sample=3) != draw_comparisons(*sets, NAMES, sample=3, seed=5)


def test_equal_negatives_are_not_drawn_and_sets_without_a_common_caption_are_refused(sets):
    with pytest.raises(DataError, match="no caption in common"):
        draw_comparisons(sets[0], [pair._replace(positive="?") for pair in sets[0]], NAMES)
    with pytest.raises(DataError, match="different negatives"):
        draw_comparisons(sets[0], sets[0], NAMES)
    for names, sample in ((("a", "a"), 1), (NAMES, 0)):
        with pytest.raises(DataError, match="expected two sets and a sample from 1"):
            draw_comparisons(*sets, names, sample=sample)


def test_the_sample_is_drawn_once_and_belongs_to_its_two_sets(folder):
    before = read_comparisons(folder)
    assert prepare(None, NAMES, folder, sample=99, seed=9) == folder / "comparisons.jsonl"
    assert read_comparisons(folder) == before
    with pytest.raises(DataError, match="compares mine and theirs, not mine and others"):
        prepare(None, ("mine", "others"), folder, sample=3, seed=1)


def test_a_view_does_not_tell_the_sets_and_an_answer_needs_both_questions(folder):
    desk = open_review(folder, page="compare")
    view = desk.open_item({"annotator": "ana"})
    assert not any(name in json.dumps(view) for name in NAMES)
    for sense, english in (("C", "A"), ("A", None)):
        with pytest.raises(UnknownNameError, match="A, B, tie"):
            answer(desk, 0, sense, english)
    after = answer(desk, 0, "A", "tie")
    assert (after["index"], after["done"]) == (1, 1)
    assert [each["value"] for each in desk.undo({"annotator": "ana"})["questions"]] == ["", ""]


def test_shares_count_sets_and_not_sides_and_tell_how_many_are_unanswered(folder, tmp_path):
    desk = open_review(folder, page="compare")
    replaced = [n for n, item in enumerate(desk.items) if item.kind == "replace"]
    for place, decision in zip(replaced, ["mine", "mine", "tie"], strict=True):
        answer(desk, place, "tie" if decision == "tie" else side_of(desk.items[place], decision))
        answer(desk, place, side_of(desk.items[place], "theirs"), annotator="ben")
    table, _, agreement, _ = desk.report()[2:]
    rows = {(str(row.name), row.cells[0].value): [cell.value for cell in row.cells][1:] for row in table.rows}
    texts = rows["makes more sense", "replace"]
    assert [*texts[:2], texts[-1]] == ["6", "3", "0"]
    assert [text.split(" [")[0] for text in texts[2:5]] == ["33.3", "16.7", "50.0"]
    assert rows["makes more sense", "negate / add"] == ["0", "0", "–", "–", "–", "3"]
    assert desk.export(tmp_path / "answers.jsonl").startswith("12 rows")
    lines = map(json.loads, (tmp_path / "answers.jsonl").read_text().splitlines())
    chosen = sorted(line["chosen"] for line in lines if line["question"] == "makes more sense")
    assert chosen == ["mine"] * 2 + ["theirs"] * 3 + ["tie"]
    assert [cell.value for cell in agreement.rows[0].cells][:2] == ["3", "0.0 %"]


def test_the_command_draws_from_two_datasets_and_prints_the_shares(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, word in (("mine", "red"), ("theirs", "blue")):
        rows = [f"a ball {n},a {word} ball {n},replace" for n in range(5)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["caption,negative_caption,category", *rows]), encoding="utf-8")
    arguments = ["review", "mine.csv", "--compare", "theirs.csv", "--out", "out", "--config", "c.yaml", "--summary"]
    (tmp_path / "c.yaml").write_text("sample: 4\n")
    result = invoke(*arguments, width=160)
    assert result.exit_code == 0, result.output
    assert "0 of 4 items are decided" in result.output
    assert len(read_comparisons(tmp_path / "out")) == 4
