"""The Submit page: templates for predictions of any other system, which can be filled in, converted and sent."""

from __future__ import annotations

import csv
import io
import json

import pytest

from vl_assay.hub_datasets import load_examples
from vl_assay.metrics.common.errors import DataError, ModelError, UnknownNameError
from vl_assay.model_wrappers import run
from vl_assay.space_app.pages.submit import template

pytestmark = pytest.mark.usefixtures("toy")


def right(example, line):
    """A line of a template, filled in with what is right of the example."""
    if "answer" in line:
        return line | {"answer": "yes" if example.answer else "no"}
    if "scores" in line:
        shape = json.loads(line["scores"])
        return line | {"scores": [[float(i == j) for j in range(len(row))] for i, row in enumerate(shape)]}
    return line | {name: 1 if name == "score_0" else 0 for name in line if name.startswith("score_")}


@pytest.mark.parametrize("task", ["itm", "order", "groups", "vqa"])
def test_a_template_that_is_filled_in_is_read_and_an_empty_one_is_refused(task, tmp_path):
    name, text = template(f"toy_scenes/{task}")
    assert name == f"toy_scenes-{task}.csv"
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    if task != "vqa":  # where no answer is a prediction: it counts as wrong
        with pytest.raises(ModelError):
            run(f"precomputed:{path}", f"toy_scenes/{task}", out=tmp_path / "empty")
    [data] = load_examples(f"toy_scenes/{task}", needs_images=False)
    lines = [*csv.DictReader(io.StringIO(text))]
    assert [line["id"] for line in lines] == [example.id for example in data.examples]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*lines[0]])
        writer.writeheader()
        writer.writerows(right(example, line) for example, line in zip(data.examples, lines, strict=True))
    for result in run(f"precomputed:{path}", f"toy_scenes/{task}", out=tmp_path / "filled"):
        assert result.scores[result.main_score] == 1


def test_a_template_for_boxes_names_every_phrase():
    _, text = template("toy_scenes/detection")
    head, *lines = csv.reader(io.StringIO(text))
    assert head == ["id", "phrase", "bbox", "score"]
    [data] = load_examples("toy_scenes/detection", needs_images=False)
    assert [line[:2] for line in lines] == [[each.id, phrase.text] for each in data.examples for phrase in each.phrases]


def test_there_is_no_template_for_what_is_too_large_or_unknown():
    with pytest.raises(DataError, match="too large for a table"):
        template("toy_scenes/retrieval")
    with pytest.raises(UnknownNameError):
        template("toy_scenes/nothing")
