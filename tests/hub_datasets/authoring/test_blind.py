"""Blind levels where several choices must be right together: no text-only scorer gets those of a group or pair."""

import pytest

from vl_assay.hub_datasets import Example, Task, TaskData
from vl_assay.hub_datasets.authoring.audit.blind import blind_levels

GROUP = ("a red cat and a blue dog", "a blue cat and a red dog")


def levels(examples, images, metrics):
    captions = tuple(f"caption_{n}" for n in range(len(examples[0].captions)))
    task = Task("t", metrics, images=tuple(f"image_{n}" for n in range(images)), captions=captions)
    return blind_levels(TaskData("bench", task, ("c",), "test", examples=examples))


@pytest.mark.parametrize("captions", [GROUP, ("a cat.", "a much longer caption"), ("same", "same")])
def test_a_group_is_0_whether_the_captions_tie_by_every_rule_or_not(captions):
    found = levels([Example("a", "c", "c", ("x", "y"), captions)], 2, {"group_match": {}})["group_match"]
    assert [found[f"{kind}_score"] for kind in ("text", "image", "group")] == [0, 0, 0]
    assert found["per_category"]["c"]["group_score"] == 0


def test_half_of_the_answers_are_right_and_no_question_or_group_is():
    captions = ("is it a? yes", "is it b? yes", "is it a? no", "is it b? no")
    examples = [Example(f"e{n}", "c", "c", ("x", "y"), captions) for n in range(3)]
    found = levels(examples, 2, {"paired_question_accuracy": {}})["paired_question_accuracy"]
    assert (found["accuracy"], found["question_accuracy"], found["group_accuracy"]) == (1 / 2, 0, 0)
    assert found["image_accuracy"] <= 1 / 2


def test_one_caption_for_a_set_is_right_once_and_in_no_pair():
    texts, categories = ("a left", "a right", "a on", "a under"), ("left", "right", "on", "under")
    examples = [
        Example(f"e{n}", "c", category, (f"i{n}",), (texts[n], *texts[:n], *texts[n + 1 :]), cluster="a")
        for n, category in enumerate(categories)
    ]
    metrics = {"set_accuracy": {"pairs": [["left", "right"], ["on", "under"]]}}
    task = Task("t", metrics, captions=tuple("abcd"), category="category", cluster="objects")
    found = blind_levels(TaskData("bench", task, ("c",), "test", examples=examples))["set_accuracy"]
    assert [found[name] for name in ("accuracy", "pair_accuracy", "set_accuracy")] == [1 / 4, 0, 0]


def test_a_guess_among_the_captions_of_one_image_counts_half():
    # Equally long, and alike in form.
    found = levels([Example("a", "c", "c", ("x",), ("a red cat", "a red dog"))], 1, {"aro_itm": {"task": "order"}})
    assert found["aro_itm"]["accuracy"] == 1 / 2
