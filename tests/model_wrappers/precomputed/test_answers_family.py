"""Answers from a file: judged as the model that gave them, in every format."""

from __future__ import annotations

import itertools
import json

import answers_support
import numpy as np
import pytest
from answers_support import WRITERS, flat, lines, results_of, rounded, swap_obj, table, task_of
from support import UNVERIFIED
from typer.testing import CliRunner

from vl_assay.hub_datasets import build, load_examples, report
from vl_assay.metrics.common.command_line import build_app
from vl_assay.metrics.common.errors import ModelError, UnknownNameError, VLAssayError
from vl_assay.metrics.records.predictions import file_hash, read_predictions
from vl_assay.model_wrappers import LoadOptions, load_model, score
from vl_assay.model_wrappers.engine.protocol import PredictionsSource, abilities
from vl_assay.model_wrappers.engine.runner import plan

run, sources = answers_support.run, answers_support.sources  # fixtures


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("reference", ["sugarcrepe/swap_obj", "cola", "aro/coco_order", "retrieval/coco"])
def test_scores_come_back_as_they_were_given(reference, ending, run):
    original = run("mock:shuffled", reference)
    predictions = read_predictions(original)
    rows = [{"id": row.id, "scores": np.asarray(row.scores).tolist()} for row in predictions.rows]
    again = run(WRITERS[ending](rows[::-1]), reference, out="again", ending=ending)
    assert [row.id for row in read_predictions(again).rows] == [row.id for row in predictions.rows]
    for ours, theirs in zip(read_predictions(again).rows, predictions.rows, strict=True):
        assert np.array_equal(ours.scores, theirs.scores)
        assert ours.correct == theirs.correct
    assert results_of(again) == results_of(original)


@pytest.mark.parametrize("ending", WRITERS)
def test_answers_and_yes_no_scores_come_back_too(ending, run):
    original = run("mock:shuffled", "tricd/vqa")
    rows = read_predictions(original).rows
    said = WRITERS[ending]([{"id": row.id, "answer": "Yes." if row.score > 0 else "no"} for row in rows])
    assert results_of(run(said, "tricd/vqa", out="words", ending=ending)) == results_of(original)
    said = WRITERS[ending]([{"id": row.id, "score": row.score + 0.5} for row in rows])
    assert results_of(run(said, "tricd/vqa", out="numbers", ending=ending, threshold="0.5")) == results_of(original)


FORMS = ("a box a record", "all boxes of a phrase", "all boxes of an example")


@pytest.mark.parametrize(
    ("form", "ending"),
    [*itertools.product(FORMS, (".csv", ".jsonl", ".json")), ("all boxes of an example", ".txt")],
)
def test_boxes_come_back_too(form, ending, run, sources):
    original = run("mock:shuffled", "tricd/val")
    numbers = {
        example.id: [phrase.number for phrase in example.phrases] for example in task_of("tricd/val", sources).examples
    }
    records = []
    for row in read_predictions(original).rows:
        phrases = zip(numbers[row.id], row.phrases, row.boxes, row.scores, strict=True)
        if form == "all boxes of an example":
            ids = [number for number, found in zip(numbers[row.id], row.boxes, strict=True) for _ in found]
            drawn, sure = flat(row.boxes), flat(row.scores)
            records.append({"id": row.id, "phrase_ids": ids, "boxes": drawn, "scores": sure})
            continue
        for number, phrase, found, sure in phrases:
            if form == "all boxes of a phrase":
                records.append({"id": row.id, "phrase": phrase["text"], "boxes": found, "scores": sure})
            else:
                records += [
                    {"image_id": int(row.id[4:]), "phrase_id": number, "bbox": [x, y, x2 - x, y2 - y], "score": s}
                    for (x, y, x2, y2), s in zip(found, sure, strict=True)
                ]
    again = run(WRITERS[ending](records), "tricd/val", out="again", ending=ending)
    for ours, theirs in zip(read_predictions(again).rows, read_predictions(original).rows, strict=True):
        assert ours.scores == theirs.scores
        assert np.allclose(flat(ours.boxes), flat(theirs.boxes), atol=1e-9)
    assert rounded(results_of(again)) == rounded(results_of(original))


def test_columns_of_numbers_are_scores_of_one_image(run, sources):
    ids = [example.id for example in task_of("sugarcrepe/swap_obj", sources).examples]
    path = run(table([{"id": i, "score_0": n, "score_1": 2.5} for n, i in enumerate(ids)]), "sugarcrepe/swap_obj")
    assert [row.scores for row in read_predictions(path).rows] == [[[float(n), 2.5]] for n in range(len(ids))]


@pytest.mark.parametrize("reference", ["sugarcrepe/swap_obj", "cola", "retrieval/coco"])
@pytest.mark.parametrize("named", ["file", "example and file", "example and number"])
def test_single_pairs_are_put_together(reference, named, run, sources):
    original = run("mock:shuffled", reference)
    rows, task = read_predictions(original).rows, task_of(reference, sources)
    pool = list(dict.fromkeys(caption for example in task.examples for caption in example.captions))
    pairs = {}
    for row, example in zip(rows, task.examples, strict=True):
        matrix_ = np.asarray(row.scores).reshape(len(row.images), -1)
        texts = pool if row.task_type == "retrieval" else example.captions
        for (i, j), value in np.ndenumerate(matrix_):
            name = task.image_names[example.images[i]]
            who = {
                "file": {"image": f"val2014/{name}"},
                "example and file": {"id": row.id, "image": name},
                "example and number": {"id": row.id, "image": i},
            }[named]
            pairs[(*who.values(), texts[j])] = {**who, "caption": texts[j], "score": float(value)}
    again = run(table(list(pairs.values())), reference, out="again")
    assert results_of(again) == results_of(original)
    assert all(np.array_equal(a.scores, b.scores) for a, b in zip(read_predictions(again).rows, rows, strict=True))


def test_short_ids_do_where_they_are_clear(sources, tmp_path):
    folder = sources("sugarcrepe")
    parts = ["sugarcrepe/swap_obj", "sugarcrepe/swap_att"]
    short = tmp_path / "short.jsonl"
    short.write_text(lines([{"id": n, "answer": 0} for n in range(6)]), encoding="utf-8")

    def score_on(references, file):
        return score(
            f"precomputed:{file}",
            references,
            out=tmp_path / file.stem,
            data_dir=folder,
            options=UNVERIFIED,
            progress=False,
        )

    score_on(parts[:1], short)
    with pytest.raises(ModelError, match=r"the id 0 may mean sugarcrepe/swap_obj/0 or sugarcrepe/swap_att/0; write it"):
        score_on(parts, short)
    whole = tmp_path / "whole.jsonl"
    ids = [*(f"swap_obj/{n}" for n in range(6)), *(f"sugarcrepe/swap_att/{n}" for n in range(6))]
    whole.write_text(lines([{"id": i, "answer": 0} for i in ids]), encoding="utf-8")
    assert len(score_on(parts, whole)) == 2


@pytest.mark.parametrize("name", [None, True, 0.5, ["swap_obj/0"]])
def test_an_id_is_a_text_or_a_whole_number(name, run):
    with pytest.raises(ModelError, match=r"line 1: (it has no id|the id .* is no text)"):
        run(json.dumps({"id": name, "answer": 0}), "sugarcrepe/swap_obj", ending=".jsonl")


def test_without_images_everything_but_their_keys_is_the_same(coco, tmp_path):
    folder = coco(rows=12, images=5)
    repository = build("sugarcrepe", tmp_path / "sc", configs=["swap_obj"], data_dir=folder, options=UNVERIFIED)
    said = tmp_path / "said.csv"
    ids = [example.id for example in load_examples(str(repository))[0].examples]
    said.write_text(table([{"id": i, "score_0": n % 3, "score_1": 1} for n, i in enumerate(ids)]), encoding="utf-8")
    [with_images] = score(f"precomputed:{said}", str(repository), out=tmp_path / "a", progress=False)
    for photograph in (folder / "val2017").iterdir():
        photograph.unlink()
    [without] = score(
        f"precomputed:{said}",
        "sugarcrepe/swap_obj",
        out=tmp_path / "b",
        data_dir=folder,
        options=UNVERIFIED,
        progress=False,
    )
    ours, theirs = read_predictions(without), read_predictions(with_images)
    assert ours.metadata["benchmark"] == theirs.metadata["benchmark"]
    assert [row.images for row in ours.rows][:2] == [["file:000000000000.jpg"], ["file:000000000001.jpg"]]
    assert all(len(row.images[0]) == 32 for row in theirs.rows)
    assert results_of(without) == results_of(with_images)


def test_a_build_whose_images_are_partly_missing_is_answered_whole(coco, tmp_path):
    folder = coco(rows=12, images=5)
    (folder / "val2017" / "000000000003.jpg").unlink()
    options = {**UNVERIFIED, "allow_missing": True}
    repository = build("sugarcrepe", tmp_path / "sc", configs=["swap_obj"], data_dir=folder, options=options)
    ids = [example.id for example in load_examples(str(repository))[0].examples]
    (tmp_path / "said.csv").write_text(table([{"id": i, "answer": 0} for i in ids]), encoding="utf-8")
    [path] = score(f"precomputed:{tmp_path}/said.csv", str(repository), out=tmp_path / "out", progress=False)
    predictions = read_predictions(path)
    assert (predictions.metadata["benchmark"]["missing"], predictions.rows[3].images) == ([], ["file:000000000003.jpg"])
    assert report(path, resamples=100)[0].scores["n"] == 12


def test_models_that_need_images_get_them_as_ever(coco, tmp_path):
    folder = coco(rows=12, images=5)
    [task] = load_examples("sugarcrepe/swap_obj", data_dir=folder, options=UNVERIFIED)
    [text] = load_examples("sugarcrepe/swap_obj", data_dir=folder, options=UNVERIFIED, needs_images=False)
    assert all(len(example.images[0]) == 32 for example in task.examples)
    assert task.fingerprint == text.fingerprint
    repository = build(
        "sugarcrepe",
        tmp_path / "sc",
        configs=["swap_obj"],
        data_dir=folder,
        options=UNVERIFIED | {"with_images": False},
    )
    with pytest.raises(VLAssayError, match=r"no column 'image'.*Was it built without images\?"):
        score("mock:shuffled", str(repository), out=tmp_path / "out", progress=False)


def test_the_model_says_which_file_it_is(tmp_path):
    path = tmp_path / "X-VLM 16M.csv"
    path.write_text("id,answer\na,0\n", encoding="utf-8")
    model = load_model(f"precomputed:{path}")
    assert isinstance(model, PredictionsSource)
    assert (model.info.name, model.info.family, model.info.checkpoint) == ("X-VLM 16M", "precomputed", "X-VLM 16M.csv")
    assert model.info.revision == f"sha256:{file_hash(path)}"
    named = load_model(f"precomputed:{path}", LoadOptions(settings={"name": "X-VLM"}))
    assert (named.info.name, named.info.settings["count_from"]) == ("X-VLM", "0")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ('{"id": 1, "boxes": []}', ("detection",)),
        ('{"id": 1, "answer": "A"}', ("matching", "vqa")),
        ('{"id": 1, "scores": [1, 2]}', ("matching", "retrieval")),
        ('{"image": "x", "caption": "y", "score": 1}', ("matching", "retrieval")),
        ('{"id": 1, "score": 1}', ("vqa",)),
    ],
)
def test_what_a_file_can_answer_follows_from_its_first_record(text, kinds, tmp_path):
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    assert abilities(load_model(f"precomputed:{tmp_path}/a.jsonl")) == kinds


def test_a_file_is_not_given_what_it_cannot_answer(run):
    with pytest.raises(ModelError, match="said does detection, but cola has no task of that type"):
        run('{"id": 1, "boxes": []}', "cola", ending=".jsonl")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"nam": "x"}, UnknownNameError, "unknown setting of answers 'nam'; known: name, count_from"),
        ({"allow_missing": "yes"}, UnknownNameError, "unknown allow_missing of answers 'yes'; known: false, true"),
        ({"count_from": "2"}, UnknownNameError, "unknown count_from of answers '2'; known: 0, 1"),
        ({"threshold": "half"}, ModelError, "the threshold 'half' is not a finite number"),
        ({"name": "a\nb"}, ModelError, "1 to 200 printable characters"),
    ],
)
def test_settings_that_do_not_exist_are_refused(settings, error, message, tmp_path):
    (tmp_path / "a.csv").write_text("id,answer\na,0\n", encoding="utf-8")
    with pytest.raises(error, match=message):
        load_model(f"precomputed:{tmp_path}/a.csv", LoadOptions(settings=settings))


def test_what_has_no_meaning_for_a_file_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("id,answer\na,0\n", encoding="utf-8")
    model = f"precomputed:{tmp_path}/a.csv"
    for options in (LoadOptions(dtype="bfloat16"), LoadOptions(revision="main")):
        with pytest.raises(ModelError, match="leave revision and dtype out"):
            load_model(model, options)
    with pytest.raises(ModelError, match="a has been computed elsewhere: there is nothing to predict"):
        plan(model, "toy_scenes/vqa")
    with pytest.raises(ModelError, match="a has been computed elsewhere: check_precision cannot"):
        score(model, "toy_scenes/vqa", check_precision=4, out=tmp_path)
    with pytest.raises(ModelError, match=r"there is no file nowhere\.csv"):
        load_model("precomputed:nowhere.csv")


def test_the_command_line_judges_a_file(sources, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = swap_obj(sources)
    (tmp_path / "people.csv").write_text(table([{"id": i, "answer": n % 2 + 1} for n, i in enumerate(ids)]))
    arguments = ["run", "precomputed:people.csv", "sugarcrepe/swap_obj", "--data-dir", str(sources("sugarcrepe"))]
    result = CliRunner().invoke(build_app(), [*arguments, "-o", "verify=false", "-s", "count_from=1"])
    assert result.exit_code == 0, result.output
    assert "people on sugarcrepe" in result.output
    assert "50.0 %" in result.output
    assert (tmp_path / "vl-assay-results" / "people" / "sugarcrepe.swap_obj.parquet").is_file()
    assert not (tmp_path / "vl-assay-results" / "people" / ".unfinished").exists()


def test_nothing_is_written_when_the_file_is_refused(run, tmp_path):
    with pytest.raises(ModelError):
        run("id,answer\nx,0\n", "sugarcrepe/swap_obj")
    assert not list(tmp_path.rglob("*.parquet"))
