"""Logs of other tools as predictions; tests/compatibility/check_other_tools.py reads those that the tools write."""

from __future__ import annotations

import json
import zipfile

import pytest

from vl_assay.hub_datasets import load_examples
from vl_assay.hub_datasets.hub.multiple_choice import questions
from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict
from vl_assay.model_wrappers.precomputed import other_tools
from vl_assay.model_wrappers.precomputed.records import read_records

LIMIT = 6


def inspect_samples(found, letters):
    return [
        {
            "id": number,
            "choices": row["choices"],
            "metadata": {"id": row["id"]},
            "scores": {"choice": {"value": "I", "answer": letter}},
        }
        for number, (row, letter) in enumerate(zip(found, letters, strict=True), 1)
    ]


def write_json(path, found, letters):
    path.write_text(json.dumps({"version": 2, "eval": {}, "samples": inspect_samples(found, letters)}))


def write_eval(path, found, letters):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        for sample in inspect_samples(found, letters):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))


def write_lm_eval(path, found, letters):
    lines = (
        {"doc": row, "resps": [[letter]], "filtered_resps": ["I"]} for row, letter in zip(found, letters, strict=True)
    )
    path.write_text("\n".join(map(json.dumps, lines)))


def write_lmms_eval(path, found, letters):
    lines = ({"vl_assay": row | {"answer": letter}} for row, letter in zip(found, letters, strict=True))
    path.write_text("\n".join(map(json.dumps, lines)))


WRITERS = {"a.json": write_json, "a.eval": write_eval, "samples_a.jsonl": write_lm_eval, "b.jsonl": write_lmms_eval}


@pytest.fixture(scope="module")
def exported(toy):
    """The exported rows of each task."""
    tasks = {name: load_examples(f"toy_scenes/{name}", limit=LIMIT)[0] for name in ("itm", "groups", "vqa")}
    return {name: [each.row for each in questions(task)] for name, task in tasks.items()}


@pytest.mark.parametrize(("file", "task"), zip(WRITERS, ("itm", "groups", "vqa", "groups"), strict=True))
def test_a_letter_is_the_choice_at_its_place_in_the_log(file, task, exported, tmp_path):
    found = exported[task]
    letters = [row["target"] for row in found]
    letters[-1] = "B" if letters[-1] == "A" else "A"
    WRITERS[file](tmp_path / file, reversed(found), reversed(letters))
    [path] = predict(f"precomputed:{tmp_path / file}", f"toy_scenes/{task}", out=tmp_path, limit=LIMIT, progress=False)
    read = read_predictions(path)
    if task == "vqa":
        right = [(row.score > 0) == row.correct for row in read.rows]
    else:
        right = [all(each[n] > each[1 - n] for n, each in enumerate(row.scores)) for row in read.rows]
    assert right == [True] * (LIMIT - 1) + [False]
    assert read.metadata["run"]["no_answer"] == 0


def test_what_is_no_letter_is_no_answer_and_a_sample_without_score_is_missing(exported, tmp_path):
    found = exported["itm"]
    write_json(tmp_path / "a.json", found, ["A, B", None, "", "7", "Z", "The answer is (A)."])
    assert [record.fields["answer"] is None for record in read_records(tmp_path / "a.json")] == [True] * 5 + [False]
    samples = inspect_samples(found, "A" * LIMIT)
    samples[2] |= {"scores": None, "error": {"message": "out of memory"}}
    (tmp_path / "b.json").write_text(json.dumps({"eval": {}, "samples": samples}))
    with pytest.raises(ModelError, match=f"no prediction for 1 of {LIMIT} examples: {found[2]['id']}"):
        predict(f"precomputed:{tmp_path}/b.json", "toy_scenes/itm", out=tmp_path, limit=LIMIT, progress=False)


def test_a_group_that_lacks_an_image_or_has_one_twice_is_refused(exported, tmp_path):
    found = exported["groups"]
    write_lm_eval(tmp_path / "a.jsonl", found[:-1], "A" * (len(found) - 1))
    with pytest.raises(ModelError, match=f"1 of its .* match no example.*{found[-2]['id']}"):
        predict(f"precomputed:{tmp_path}/a.jsonl", "toy_scenes/groups", out=tmp_path, limit=LIMIT, progress=False)
    write_lm_eval(tmp_path / "b.jsonl", [*found, found[0]], "A" * (len(found) + 1))
    with pytest.raises(ModelError, match=r"duplicate answer for .*#0, already at line 1"):
        list(read_records(tmp_path / "b.jsonl"))


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"scores": {"match": {"answer": "A"}}}, "sample 1: its scorers are match, not `choice`"),
        ({"scores": {"choice": {"answer": "A"}}}, "sample 1: it has no list of choices"),
        ({"scores": [1]}, "sample 1: the scores of a sample is not an object"),
    ],
)
def test_logs_of_something_else_are_refused(sample, message, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"eval": {}, "samples": [sample]}))
    with pytest.raises(ModelError, match=message):
        list(read_records(tmp_path / "a.json"))


def test_the_release_of_gpt4v_has_an_answer_a_key_and_a_summary(tmp_path):
    answers = {key: {"answer": {"multiple_choice_answer": text}} for key, text in (("7", "a cat"), ("8", None))}
    (tmp_path / "gpt4v-swap_obj.json").write_text(json.dumps(answers | {"accuracy": 0.5}))
    for path in (tmp_path, tmp_path / "gpt4v-swap_obj.json"):
        records = [record.fields for record in read_records(path)]
        assert records == [{"id": "swap_obj/7", "answer": "a cat"}, {"id": "swap_obj/8", "answer": None}]


def test_archives_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(other_tools, "_SAMPLE_LIMIT", 2**20)
    (tmp_path / "a.eval").write_bytes(b"PK")
    with pytest.raises(ModelError, match=r"a\.eval cannot be read: File is not a zip file"):
        list(read_records(tmp_path / "a.eval"))
    with zipfile.ZipFile(tmp_path / "b.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1.json", b" " * (2**20 + 1))
    assert (tmp_path / "b.eval").stat().st_size < 2**12
    with pytest.raises(ModelError, match=r"samples/1.json is larger than 1,048,576 bytes"):
        list(read_records(tmp_path / "b.eval"))
    content = bytearray((tmp_path / "b.eval").read_bytes())
    content[30 + len("samples/1.json")] = 0xFF  # the first byte of the compressed data
    (tmp_path / "b.eval").write_bytes(content)
    with pytest.raises(ModelError, match=r"b\.eval cannot be read: Error -3 while decompressing data"):
        list(read_records(tmp_path / "b.eval"))
