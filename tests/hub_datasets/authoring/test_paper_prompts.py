"""The prompts in the form of SugarCrepe and Hard Positives: what the papers print, and how plain answers are read."""

import re

import pytest

from vl_assay.hub_datasets.authoring.data.sources import Captioned
from vl_assay.hub_datasets.authoring.generate.checks import KINDS, NEGATIVE_KINDS
from vl_assay.hub_datasets.authoring.generate.formatting import accept
from vl_assay.hub_datasets.authoring.generate.generate import generate, plan
from vl_assay.hub_datasets.authoring.generate.paper_prompts import FACTS, PaperPrompts
from vl_assay.hub_datasets.authoring.generate.rejected import Rejected
from vl_assay.hub_datasets.chat.client import Completion

PROMPTS = PaperPrompts()
CAPTION = "A red cat near a blue dog."
JOINED = "a red boat and a blue ring"


class Plain:
    """A model that completes the papers' prompts about two captions, in the manner of chat models."""

    name = "plain"

    def __init__(self):
        self.asked = []

    def complete(self, messages, temperature, max_tokens, seed=None):
        [message] = messages
        self.asked.append((message["content"], temperature, max_tokens, seed))
        return Completion(self.answer(message["content"]))

    def answer(self, text):
        lines = text.splitlines()
        if text.startswith("Put a synonym"):
            changed = lines[-1].replace("near", "by").replace("boat", "ship")
            return f"Sure! Here is the changed sentence:\n\n{changed}"
        if text.startswith("Exchange"):
            return "Output: a blue ring and a red boat\n\nInput: more"
        if lines[-1].endswith("?"):
            parts = "cat, dog" if "noun phrases" in lines[-1] else "red, blue"
            first, second = parts.split(", ")
            swapped = CAPTION.replace(first, "*").replace(second, first).replace("*", second)
            label = "noun phrases" if "noun phrases" in lines[-1] else "attributes"
            return f"Yes\nSwappable {label}: {parts}\nOutput: {swapped}"
        located = {"Nouns:": "['cat', 'dog']", "Adjectives:": '["red", "blue"]', "Relationships:": "['near']"}
        if lines[-1] in (*located, "Objects:"):
            return located.get(lines[-1], "['cat', 'dog']")
        if lines[-1].startswith("New sentence"):
            label, new = lines[-2].split(": ")
            old = lines[-3].split(": ")[1]
            put = {"New object": f"{old} and a {new}", "New attribute": f"{new} {old}"}.get(label, new)
            return "New sentence: " + CAPTION.replace(old, put)
        words = {"New noun:": "horse", "New adjective:": "green", "New relationship:": "behind", "New object:": "bench"}
        return words.get(lines[-1], "spotted") + "\nNew sentence: and so on"


def test_a_run_asks_in_the_papers_steps_at_their_temperatures_and_makes_every_kind(tmp_path):
    model, captions = Plain(), [Captioned("0", "a.jpg", CAPTION), Captioned("1", "b.jpg", JOINED)]
    report = generate(captions[:1], model, tmp_path / "negatives", NEGATIVE_KINDS, prompts="paper", progress=False)
    made = {each.kind: each.candidate for each in report.candidates}
    assert set(made) == set(NEGATIVE_KINDS), report.rejected
    assert made["swap_att"] == "A blue cat near a red dog."
    assert made["replace_rel"] == "A red cat behind a blue dog."
    assert {(temperature, seed is None) for *_, temperature, _, seed in model.asked} == {(0.0, True), (1.5, False)}
    # SugarCrepe, C.2: five kinds of three steps and two of one.
    assert len(model.asked) == 5 * 3 + 2 == sum(plan(captions[:1], NEGATIVE_KINDS, prompts="paper").calls.values())
    composed = next(text for text, *_ in model.asked if "New noun: horse" in text)
    filled = r"Nouns: \['cat', 'dog'\]\nSelected noun: (cat|dog)\nNew noun: horse\nNew sentence:$"
    assert re.search(rf"Original sentence: {CAPTION}\n{filled}", composed)
    positive = Plain()
    kinds = ["positive_replace", "positive_swap"]
    report = generate(captions, positive, tmp_path / "positives", kinds, prompts="paper", progress=False)
    assert {each.id: each.candidate for each in report.candidates} == {
        "0/positive_replace": "A red cat by a blue dog.",
        "1/positive_replace": "a red ship and a blue ring",
        "1/positive_swap": "a blue ring and a red boat",
    }
    # Hard Positives, C.2: swaps of captions with "and" alone, of at most 20 tokens; replacements of at most 30.
    assert report.rejected["positive_swap"] == {"not asked for": 1}
    assert sorted(limit for *_, limit, _ in positive.asked) == [20, 30, 30]
    assert sum(plan(captions, kinds, prompts="paper").calls.values()) == 3


@pytest.mark.parametrize(
    ("caption", "asked"),
    [
        ("a cat and a dog", True),
        ("a cat, a dog", False),
        ("a sandy beach", False),
        (" ".join(["and", *["word"] * 13]), True),
        (" ".join(["and", *["word"] * 14]), False),
    ],
)
def test_hard_positives_swaps_captions_with_and_of_fewer_than_15_words(caption, asked):
    if asked:
        return PROMPTS.check_caption("positive_swap", caption)
    with pytest.raises(Rejected, match="not asked for"):
        PROMPTS.check_caption("positive_swap", caption)
    return PROMPTS.check_caption("positive_replace", caption)


def test_examples_have_the_papers_numbers_and_pass_the_checks():
    for kind in KINDS:
        shots = FACTS["kinds"][kind]["shots"]
        wanted = FACTS["hard_positives"]["shots"].get(kind)
        assert len(shots) == wanted if wanted is not None else len(shots) >= FACTS["sugarcrepe"]["fewest_shots"] == 7
        assert FACTS["kinds"][kind]["source"].startswith(("SugarCrepe, Figure", "Hard Positives, C.1"))
        text = PROMPTS.write(PROMPTS.steps(kind)[0], CAPTION)[0]["content"]
        # A prompt has no half-filled line but the last, and no value that YAML took for something else.
        assert not re.search(r"True|False|None|: \n", text), text
        for caption, *middle, candidate in shots:
            if candidate:
                assert accept(kind, caption, candidate) == candidate
            if len(middle) == 3 and candidate:
                located, selected, new = middle
                assert selected in located
                assert accept(kind, caption, candidate, [selected], new) == candidate


@pytest.mark.parametrize(
    ("step", "text", "expected"),
    [
        ("replace_obj/locate", "Nouns: ['cat', \"dog\"]\nSelected noun: cat", {"concepts": ["cat", "dog"]}),
        ("replace_obj/locate", "cat, dog", "missing field"),
        ("replace_obj/locate", "[1, 2]", "missing field"),
        ("replace_obj/locate", "[" * 90_000, "missing field"),
        ("replace_obj/locate", "[open('x')]", "missing field"),
        ("replace_rel/think", "New relationship: far from\nNew sentence: x", {"concept": "far from"}),
        ("add_att/compose", '"A big cat."', {"caption": "A big cat."}),
        ("swap_obj", "No", "not possible"),
        ("swap_obj", "no, it is not", "not possible"),
        ("swap_obj", "Yes\nSwappable noun phrases: a, b, c\nOutput: x", "missing field"),
        ("swap_obj", "Perhaps", "missing field"),
        ("positive_swap", "", "missing field"),
        ("positive_swap", "Output: a dog\u202e", "control characters"),
        ("positive_replace", "a car", {"caption": "a car"}),
    ],
)
def test_plain_answers_are_read_and_others_rejected(step, text, expected):
    if isinstance(expected, dict):
        assert PROMPTS.read(step, text) == expected
    else:
        with pytest.raises(Rejected, match=expected):
            PROMPTS.read(step, text)
