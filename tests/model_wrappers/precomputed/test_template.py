"""Templates of files of predictions: filled in, they are scored; as they are, nothing is."""

from __future__ import annotations

import json

import pytest
from console import invoke

from vl_assay.hub_datasets import load_examples, report
from vl_assay.hub_datasets.reports.predictions_template import write_template
from vl_assay.metrics.common.errors import DataError, ModelError
from vl_assay.model_wrappers import predict

pytestmark = pytest.mark.usefixtures("toy")


def fill(text, predict):
    """The template with the fields that `predict` returns for each of its records."""
    lines = text.splitlines()
    records = [json.loads(line) for line in lines if not line.startswith("#")]
    return "\n".join([*(line for line in lines if line[0] == "#"), *(json.dumps(r | predict(r)) for r in records)])


def score(path, reference, out, limit=None):
    files = predict(f"precomputed:{path}", reference, out=out, limit=limit, progress=False)
    return report(files, resamples=100)[0].scores


@pytest.fixture
def template(tmp_path):
    """A function that writes the template of a part of toy_scenes, and returns its path."""

    def write(part):
        path = tmp_path / f"{part}.jsonl"
        write_template(f"toy_scenes/{part}", path, data_dir=None, options={})
        return path

    return write


@pytest.mark.parametrize(
    ("part", "name", "predict"),
    [
        ("vqa", "accuracy", lambda r: {"scores": 1}),  # half of the questions are true of their image
        ("groups", "group_score", lambda r: {"scores": [[int(i == j) for j in range(2)] for i in range(2)]}),
    ],
)
def test_filled_templates_of_other_tasks_are_scored(part, name, predict, template, tmp_path):
    path = template(part)
    path.write_text(fill(path.read_text(encoding="utf-8"), predict), encoding="utf-8")
    scores = score(path, f"toy_scenes/{part}", tmp_path / "out", limit=40)
    assert scores[name] == pytest.approx(0.5 if part == "vqa" else 1), scores


def test_a_template_of_retrieval_lists_the_captions_in_the_order_of_the_scores(template, tmp_path):
    path = template("retrieval")
    text = path.read_text(encoding="utf-8")
    captions = [json.loads(line.partition(": ")[2]) for line in text.splitlines() if line[:3].strip("# ").isdigit()]
    [task] = load_examples("toy_scenes/retrieval", needs_images=False)
    own = {f"toy_scenes/{example.id}": example.captions for example in task.examples}

    def filled(record):
        return {"scores": [float(caption in own[record["id"]]) for caption in captions]}

    path.write_text(fill(text, filled), encoding="utf-8")
    scores = score(path, "toy_scenes/retrieval", tmp_path / "out")
    assert scores["text_recall_at_1"] == 1, scores


@pytest.mark.parametrize("part", ["itm", "detection"])
def test_a_template_that_is_not_filled_is_refused(part, template, tmp_path):
    with pytest.raises(ModelError, match=r"line \d+: (None is not a|a record has an id and scores)"):
        score(template(part), f"toy_scenes/{part}", tmp_path / "out")


def test_the_command_says_what_to_do_next_and_overwrites_no_file(tmp_path):
    output = invoke("precomputed", "--template", "toy_scenes/vqa", folder=tmp_path).output
    assert "records with null to replace; then: vl-assay run precomputed:predictions.jsonl toy_scenes/vqa" in output
    (tmp_path / "predictions.jsonl").write_text("filled in")
    again = invoke("precomputed", "--template", "toy_scenes/vqa", folder=tmp_path).exception
    assert isinstance(again, DataError)
    assert "predictions.jsonl exists, and may be filled in; name another" in str(again)
    assert (tmp_path / "predictions.jsonl").read_text() == "filled in"
