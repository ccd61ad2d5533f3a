"""Blind levels: what rules and cross-fitted probes reach for the decision that a task's score makes."""

import numpy as np
import pytest

from vl_assay.hub_datasets import Example, Task, TaskData, load_examples
from vl_assay.hub_datasets.authoring.audit.blind import blind_levels, measure_levels, shipped_levels

GROUP = ("a red cat and a blue dog", "a blue cat and a red dog")


def task_data(examples, metrics, images=("image",), **columns):
    captions = tuple(
        f"{'negative_' * (n > 0 and len(images) == 1)}caption_{n}" for n in range(len(examples[0].captions))
    )
    task = Task("t", metrics, images=images, captions=captions, **columns)
    return TaskData("bench", task, ("c",), "test", examples=examples)


def of_five(*, true_word, n=60):
    """Examples with five captions of equal length and form; the true one has a word that the false ones lack."""
    rng = np.random.default_rng(0)
    nouns = ["cat", "dog", "cow", "hen", "pig", "fox", "owl", "bat", "ant", "bee"]
    texts = [
        [f"{true_word if k == 0 else 'zzz'} {' '.join(rng.permutation(nouns)[:3])}" for k in range(5)] for _ in range(n)
    ]
    return [Example(f"e{i}", "c", "c", (f"i{i}",), tuple(captions)) for i, captions in enumerate(texts)]


def test_probes_choose_among_all_captions_of_an_example_as_the_score_does():
    given_away = measure_levels(task_data(of_five(true_word="qqq"), {"aro_itm": {"task": "order"}}))["aro_itm"]
    assert (given_away["kind"], given_away["accuracy"]) == ("probe", 1.0)
    assert given_away["by"].startswith("probe: ")
    # Without a word that gives it away, a choice among five is right by chance.
    hidden = measure_levels(task_data(of_five(true_word="zzz"), {"aro_itm": {"task": "order"}}))["aro_itm"]
    low, high = hidden["accuracy_interval"]
    assert low < 0.2 < high


def test_rules_alone_are_a_lower_bound_and_are_called_rules():
    data = task_data(of_five(true_word="qqq"), {"aro_itm": {"task": "order"}})
    levels = measure_levels(data, probes=False)["aro_itm"]
    assert (levels["kind"], levels["accuracy"], levels["by"]) == ("rule", pytest.approx(0.2), "rule: formatting")


def test_each_category_has_its_own_best_scorer():
    pairs = [("a cat", "a long cat"), ("a long dog", "a dog")] * 10
    examples = [Example(f"e{n}", "c", ("add_obj", "swap_obj")[n % 2], (f"i{n}",), pair) for n, pair in enumerate(pairs)]
    levels = measure_levels(task_data(examples, {"sugarcrepe_itm": {}}), probes=False)["sugarcrepe_itm"]
    assert levels["accuracy"] == 0.5
    assert {name: (part["accuracy"], part["by"]) for name, part in levels["per_category"].items()} == {
        "add_obj": (1.0, "rule: length"),
        "swap_obj": (1.0, "rule: length, reversed"),
    }


@pytest.mark.parametrize("captions", [GROUP, ("a cat.", "a much longer caption"), ("same", "same")])
def test_no_scorer_without_the_image_is_right_in_a_group(captions):
    example = Example("a", "c", "c", ("x", "y"), captions)
    levels = measure_levels(task_data([example], {"group_match": {}}, images=("image_0", "image_1")))["group_match"]
    assert [levels[f"{kind}_score"] for kind in ("text", "image", "group")] == [0, 0, 0]
    assert levels["kind"] == "exact"


def test_half_of_the_answers_are_right_and_no_question_or_group_is():
    captions = ("is it a? yes", "is it b? yes", "is it a? no", "is it b? no")
    examples = [Example(f"e{n}", "c", "c", ("x", "y"), captions) for n in range(3)]
    data = task_data(examples, {"paired_question_accuracy": {}}, images=("image_0", "image_1"))
    levels = measure_levels(data)["paired_question_accuracy"]
    assert (levels["accuracy"], levels["question_accuracy"], levels["group_accuracy"]) == (1 / 2, 0, 0)
    assert levels["image_accuracy"] <= 1 / 2


def test_one_caption_for_a_set_is_right_once_and_in_no_pair():
    texts, categories = ("a left", "a right", "a on", "a under"), ("left", "right", "on", "under")
    examples = [
        Example(f"e{n}", "c", category, (f"i{n}",), (texts[n], *texts[:n], *texts[n + 1 :]), cluster="a")
        for n, category in enumerate(categories)
    ]
    metrics = {"set_accuracy": {"pairs": [["left", "right"], ["on", "under"]]}}
    data = task_data(examples, metrics, category="category", cluster="objects")
    levels = measure_levels(data, probes=False)["set_accuracy"]
    assert [levels[name] for name in ("accuracy", "pair_accuracy", "set_accuracy")] == [1 / 4, 0, 0]


def test_the_levels_of_the_first_examples_are_those_of_the_whole_task():
    [few] = load_examples("toy_scenes/order", needs_images=False, limit=20)
    assert blind_levels(few) == shipped_levels("toy_scenes")["order"]["metrics"]
