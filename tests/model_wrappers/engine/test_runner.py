"""The runner: what it encodes, what predictions and reports contain, and that nothing changes a decision."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from support import UNVERIFIED, Recorder, all_scores, run_quietly, scores_of

from vl_assay.hub_datasets import build, compare, errors, load_examples, report, write_model_card
from vl_assay.hub_datasets.authoring.audit.blind import blind_levels
from vl_assay.metrics.common.errors import DataError, ModelError, PredictionsError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import RunConfig, predict, run


def test_every_different_image_and_caption_is_encoded_once(coco, tmp_path):
    folder = coco(rows=30, images=5)
    twin = folder / "val2017" / "000000000004.jpg"
    twin.write_bytes((folder / "val2017" / "000000000000.jpg").read_bytes())
    model = Recorder()
    [one, two] = run_quietly(model, folder, tmp_path / "out")
    records = [row for path in (folder / "data").iterdir() for row in json.loads(path.read_text()).values()]
    captions = {row[name] for row in records for name in ("caption", "negative_caption")}
    assert (model.images, model.captions) == (4, len(captions))
    assert len(read_predictions(one).rows) + len(read_predictions(two).rows) == 60


def test_batch_size_changes_no_score_beyond_1e_6_and_no_decision(tiny_clip, coco, tmp_path):
    folder = coco(rows=20)
    one, many = (all_scores(run_quietly(str(tiny_clip), folder, tmp_path / str(n), batch_size=n)) for n in (1, 64))
    assert np.abs(one - many).max() <= 1e-6
    assert (np.sign(one[::2] - one[1::2]) == np.sign(many[::2] - many[1::2])).all()


def test_metadata_identify_model_data_and_code(tiny_clip, coco, tmp_path):
    folder = coco()
    [path, _] = run_quietly(str(tiny_clip), folder, tmp_path / "out")
    metadata = read_predictions(path).metadata
    assert metadata["model"]["name"] == "clip"
    assert metadata["model"]["revision"].startswith("sha256:")
    assert metadata["model"]["dtype"] == "float32"
    assert metadata["model"]["preprocessing"]["backend"] == "pil"
    [data] = load_examples("sugarcrepe/add_att", data_dir=folder, options=UNVERIFIED)
    assert metadata["benchmark"]["fingerprint"] == data.fingerprint
    assert metadata["run"]["code"]
    assert metadata["run"]["libraries"]["torch"]
    assert metadata["run"]["seconds"].keys() == {"data", "model", "scores"}
    assert pq.read_schema(path).names == [
        "id", "config", "category", "images", "correct", "scores", "tags", "cluster", "caption_key",
    ]  # fmt: skip


# What may lie in place of an image.
DAMAGED = {
    "a copy that was interrupted": lambda content: content[: len(content) // 3],
    "its last byte": lambda content: content[:-9],
    "a page": lambda content: b"<!DOCTYPE html><title>404</title>",
    "a pointer": lambda content: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n",
    "zeros": lambda content: bytes(len(content)),
    "half a PNG": lambda content: drawn("PNG", (50, 40))[:-40],
    "a strip": lambda content: drawn("PNG", (1, 500)),
    "nothing": lambda content: b"",
}


def drawn(kind, size):
    file = io.BytesIO()
    Image.effect_noise(size, 99).save(file, kind)
    return file.getvalue()


def test_all_damaged_images_are_named_at_once_or_left_out_and_counted(coco, tmp_path):
    folder = coco(rows=24, images=24)
    files = [folder / "val2017" / f"{number:012d}.jpg" for number in range(1, 1 + len(DAMAGED))]
    whole = [file.read_bytes() for file in files]
    for file, content, damage in zip(files, whole, DAMAGED.values(), strict=True):
        file.write_bytes(damage(content))
    with pytest.raises(DataError, match=f"1 of 24 images are missing .*{files[-1].name}"):
        run_quietly("mock:shuffled", folder, tmp_path / "out")
    files[-1].write_bytes(whole[-1])
    with pytest.raises(DataError, match="7 images are damaged") as error:
        run_quietly("mock:shuffled", folder, tmp_path / "out")
    assert all(f"{file.name} (for " in str(error.value) for file in files[:-1])
    options = {**UNVERIFIED, "allow_missing": True}
    [path] = predict(
        "mock:shuffled", ["sugarcrepe/swap_obj"], out=tmp_path / "out", data_dir=folder, options=options, progress=False
    )
    unscored = [row.id for row in read_predictions(path).rows if row.scores is None]
    assert unscored == read_predictions(path).metadata["benchmark"]["missing"]
    assert len(unscored) == len(DAMAGED) - 1
    for file, content in zip(files, whole, strict=True):
        file.write_bytes(content)
    assert len(run_quietly("mock:shuffled", folder, tmp_path / "out2")) == 2


def test_a_folder_that_build_wrote_can_be_scored(coco, tmp_path):
    folder = coco()
    repository = build("sugarcrepe", tmp_path / "sc", configs=["swap_obj"], data_dir=folder, options=UNVERIFIED)
    [direct] = run_quietly("mock:bag-of-words", folder, tmp_path / "a", ["sugarcrepe/swap_obj"])
    [built] = predict("mock:bag-of-words", [str(repository)], out=tmp_path / "b", progress=False)
    assert scores_of(direct) == scores_of(built)
    assert read_predictions(direct).metadata["benchmark"] == read_predictions(built).metadata["benchmark"]
    snapshot = tmp_path / "hub" / "datasets--me--sugarcrepe" / "snapshots" / ("c" * 40)  # as `hf download` keeps it
    snapshot.parent.mkdir(parents=True)
    repository.rename(snapshot)
    [downloaded] = predict("mock:bag-of-words", [str(snapshot)], out=tmp_path / "c", progress=False)
    assert read_predictions(downloaded).metadata["benchmark"]["hub"] == {"repo": "me/sugarcrepe", "revision": "c" * 40}


def test_tf32_is_off_in_a_run_and_the_users_settings_come_back(tiny_clip, coco, tmp_path, monkeypatch):
    import torch

    from vl_assay.model_wrappers.clip import Clip

    operations = [torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.mkldnn.matmul]
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    was, during, folder = torch.get_float32_matmul_precision(), [], coco()
    see = Clip.see

    def watched(*arguments):
        during.extend([*(each.fp32_precision for each in operations), torch.backends.cudnn.benchmark])
        return see(*arguments)

    monkeypatch.setattr(Clip, "see", watched)
    try:
        torch.set_float32_matmul_precision("high")
        before = [each.fp32_precision for each in operations]
        [file] = run_quietly(str(tiny_clip), folder, tmp_path / "out", ["sugarcrepe/add_att"], cache=False)
        assert read_predictions(file).metadata["run"]["tf32_switched_off"]["cuda.matmul"] == "tf32"
        assert [each.fp32_precision for each in operations] == before
    finally:
        torch.set_float32_matmul_precision(was)
    assert set(during) == {"ieee", True}


QUIET = {"progress": False}


def test_a_second_run_into_a_folder_keeps_what_is_there_and_reports_all_of_it(toy, tmp_path):
    for task in ("vqa", "groups"):
        run("mock:bag-of-words", f"toy_scenes/{task}", out=tmp_path, limit=8, **QUIET)
    files = ["toy_scenes.groups.parquet", "toy_scenes.vqa.parquet"]
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == files
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["results"]
    assert sorted({result["predictions"]["file"] for result in results}) == files
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "toy_scenes (vqa)" in markdown
    assert "toy_scenes (groups)" in markdown
    (tmp_path / "other.parquet").write_bytes(b"")  # what is no file of predictions is told of, not passed over
    with pytest.raises(Exception, match=r"other\.parquet is not a readable Parquet file"):
        run("mock:bag-of-words", "toy_scenes/vqa", out=tmp_path, limit=8, **QUIET)


def test_predictions_say_how_they_are_to_be_evaluated_and_what_is_reached_without_seeing(toy):
    described = read_predictions(toy.path("vqa")).metadata
    assert described["benchmark"]["metrics"] == {"yes_no_f1": {}}
    assert described["benchmark"]["options"] == {"seed": 0, "train_scenes": 0}
    # Always yes, on as many questions of each kind: F1 of yes 2/3, of no 0.
    assert described["benchmark"]["blind"]["yes_no_f1"]["macro_f1"] == pytest.approx(1 / 3)
    assert described["model"]["is_baseline"]


def test_seeds_have_files_of_their_own_and_a_mean_with_its_deviation(toy, tmp_path):
    assert len(run("mock:constant", "toy_scenes/vqa", out=tmp_path, seeds=[0, 1], limit=8, **QUIET)) == 2
    files = [tmp_path / f"toy_scenes.vqa.seed-{seed}.parquet" for seed in (0, 1)]
    assert [read_predictions(path).metadata["benchmark"]["options"]["seed"] for path in files] == [0, 1]
    assert "±" in (tmp_path / "report.md").read_text(encoding="utf-8")
    with pytest.raises(DataError, match="tricd has no seed to choose; give seeds for benchmarks that are drawn at ran"):
        predict("mock:constant", "tricd", out=tmp_path, seeds=[0], **QUIET)


def test_a_limit_takes_the_first_examples_and_everything_says_that_they_are_partial(toy, tmp_path):
    task = ["toy_scenes/detection", "toy_scenes/itm"]
    [some, captions] = predict("mock:oracle", task, out=tmp_path / "some", limit=5, **QUIET)
    [every, _] = predict("mock:oracle", task, out=tmp_path / "every", **QUIET)
    part, whole = read_predictions(some), read_predictions(every)
    assert [row.id for row in part.rows] == [row.id for row in whole.rows[:6]]  # boxes are scored in pairs
    assert {result.metric for result in report(some, resamples=100)} == {
        "cpd_ap",
        "grounding_recall",
        "group_recall_at_1",
    }
    assert part.metadata["benchmark"]["limit"] == 5
    assert "limit" not in whole.metadata["benchmark"]
    with pytest.raises(PredictionsError, match="name another folder with --out"):
        predict("mock:oracle", task, out=tmp_path / "every", limit=5, **QUIET)
    sentence, found = "Partial: 5 examples of the task only (--limit).", report([captions], resamples=100)
    for text in (found.to_markdown().partition("\n\n###")[0], found.to_latex().replace("{}", "")):
        assert sentence.removesuffix(".") in text
    assert sentence in errors(captions, resamples=100).tables[0].note
    with pytest.raises(DataError, match=r"partial; predict without --limit for a model's card"):
        write_model_card(tmp_path / "README.md", found)
    other = predict("mock:constant", task[1], out=tmp_path / "other", limit=5, **QUIET)
    assert "Partial:" in compare(captions, other[0], resamples=100).to_markdown()
    with pytest.raises(ModelError, match="limit is 0; it must be 1 or more"):
        RunConfig(limit=0)
    with pytest.raises(ModelError, match="workers is -1; it must be 0 or more"):
        RunConfig(workers=-1)


def test_blind_levels_are_computed_once_and_again_for_other_captions(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path))
    [task] = load_examples("toy_scenes/vqa", options={"train_scenes": 0}, limit=6)
    levels = blind_levels(task)
    [kept] = (tmp_path / "blind").iterdir()
    written = kept.stat().st_mtime_ns
    assert blind_levels(task) == levels
    assert kept.stat().st_mtime_ns == written
    kept.write_bytes(kept.read_bytes()[:-1])  # damaged: computed again
    assert blind_levels(task) == levels
    assert kept.stat().st_mtime_ns != written
    task.examples[0] = replace(task.examples[0], answer=not task.examples[0].answer)
    assert blind_levels(task) != levels
    assert len(list((tmp_path / "blind").iterdir())) == 2


def test_a_config_and_keywords_make_the_same_run(toy, tmp_path):
    config = RunConfig(batch_size=2, progress=False, limit=4, options={"seed": 3})
    [one] = predict("mock:constant", "toy_scenes/vqa", out=tmp_path / "a", config=config)
    [two] = predict("mock:constant", "toy_scenes/vqa", out=tmp_path / "b", config=config, batch_size=5)
    facts = [read_predictions(path).metadata for path in (one, two)]
    assert [fact["run"]["batch_size"] for fact in facts] == [2, 5]
    assert [fact["benchmark"]["options"]["seed"] for fact in facts] == [3, 3]
    with pytest.raises(TypeError, match="batchsize"):
        predict("mock:constant", "toy_scenes/vqa", batchsize=2)
    with pytest.raises(ModelError, match="batch_size is 0"):
        RunConfig(batch_size=0)
