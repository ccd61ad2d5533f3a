"""People compare two sets of negatives: what is drawn, what a page may know, what is counted."""

from __future__ import annotations

import json

import pytest
from console import invoke
from review_support import served

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


def view_of(desk, index, annotator="ana"):
    return desk.open_item({"annotator": annotator, "index": index})


def answer(desk, index, question, decision, annotator="ana"):
    request = {"annotator": annotator, "id": desk.items[index].id, "question": question, "decision": decision}
    return desk.decide(request)


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
    assert prepare(None, NAMES, folder, sample=99, seed=9) == folder / "COMPARISONS.jsonl"
    assert read_comparisons(folder) == before
    with pytest.raises(DataError, match="compares mine and theirs, not mine and others"):
        prepare(None, ("mine", "others"), folder, sample=3, seed=1)


def test_a_view_does_not_tell_the_sets_and_both_questions_make_an_item_done(folder):
    desk = open_review(folder, page="compare")
    view = view_of(desk, 0)
    assert not any(name in json.dumps(view) for name in NAMES)
    assert answer(desk, 0, 0, "A")["index"] == 0
    assert view_of(desk, 0)["answers"] == ["A", ""]
    after = answer(desk, 0, 1, "tie")
    assert (after["index"], after["done"]) == (1, 1)
    assert desk.undo({"annotator": "ana"})["answers"] == ["A", ""]


def test_answers_outside_the_choices_are_refused(folder):
    desk = open_review(folder, page="compare")
    with pytest.raises(UnknownNameError, match="A, B, tie"):
        answer(desk, 0, 0, "C")
    for question in (2, -1, True, "0", None):
        with pytest.raises(DataError, match="questions 0 to 1"):
            answer(desk, 0, question, "A")


def test_shares_count_sets_and_not_sides_and_tell_what_is_unanswered(folder, tmp_path):
    desk = open_review(folder, page="compare")
    replaced = [n for n, item in enumerate(desk.items) if item.kind == "replace"]
    for place, decision in zip(replaced, ["mine", "mine", "tie"], strict=True):
        answer(desk, place, 0, "tie" if decision == "tie" else side_of(desk.items[place], decision))
        answer(desk, place, 0, side_of(desk.items[place], "theirs"), "ben")
    table = desk.agreement()[1]
    rows = {(str(row.name), *[cell.value for cell in row.cells][:1]): row for row in table.rows}
    texts = [cell.value for cell in rows["makes more sense", "replace"].cells]
    assert texts[1:3] == ["6", "3"]
    assert texts[-1] == "0"
    assert [text.split(" [")[0] for text in texts[3:6]] == ["33.3", "16.7", "50.0"]
    assert [cell.value for cell in rows["makes more sense", "negate / add"].cells][1:] == ["0", "0", "–", "–", "–", "3"]
    assert desk.export(tmp_path / "answers.jsonl").startswith("6 answers")
    chosen = [json.loads(line)["chosen"] for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert sorted(chosen) == ["mine"] * 2 + ["theirs"] * 3 + ["tie"]
    agreement = desk.agreement()[3]
    assert [cell.value for cell in agreement.rows[0].cells][:2] == ["3", "0.0 %"]


def test_the_command_draws_from_two_datasets_and_prints_the_shares(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, word in (("mine", "red"), ("theirs", "blue")):
        rows = [f"a ball {n},a {word} ball {n},replace" for n in range(5)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["caption,negative_caption,category", *rows]), encoding="utf-8")
    arguments = ["review", "mine.csv", "--compare", "theirs.csv", "--out", "out", "--sample", "4", "--summary"]
    result = invoke(*arguments, width=160)
    assert result.exit_code == 0, result.output
    assert "2 for each of 4 captions" in result.output
    assert len(read_comparisons(tmp_path / "out")) == 4


def test_two_negatives_are_compared_by_keyboard(new_page, folder):
    page = new_page(390)
    with served(folder, page="compare") as (desk, address):
        page.goto(f"{address}&annotator=ana", wait_until="domcontentloaded")
        page.get_by_text("Which one makes more sense?").wait_for()
        for key, text in (("a", "1 / 6"), ("t", "2 / 6"), ("b", "2 / 6"), ("b", "3 / 6")):
            page.keyboard.press(key)
            page.wait_for_function(
                "text => { const root = document.querySelector('.assay-review'); return root !== null && "
                "!root.hasAttribute('aria-busy') && root.innerText.includes(text); }",
                arg=text,
            )
        content = page.content()
        assert not any(name in content for name in NAMES)
        assert [view_of(desk, n)["answers"] for n in range(3)] == [["A", "tie"], ["B", "B"], ["", ""]]
