"""The released SugarCrepe annotations, with made-up images under the right names, from file to results."""

import json

import numpy as np
import pytest
from builder_support import card_lines
from noise import write_noise
from PIL import Image

from vl_assay.hub_datasets import build, report
from vl_assay.hub_datasets.core.repository import read_build
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict


@pytest.fixture(scope="module")
def stand_in(shared_data, tmp_path_factory):
    """The released annotations and 1,560 small JPEGs, no two alike, under the names of COCO's photographs."""
    folder = tmp_path_factory.mktemp("coco")
    (folder / "data").symlink_to(shared_data / "data" / "sugarcrepe" / "data")
    records = [r for path in (folder / "data").iterdir() for r in json.loads(path.read_text("utf-8")).values()]
    write_noise([folder / "val2017" / name for name in sorted({record["filename"] for record in records})], 16, 20)
    return folder


@pytest.mark.slow
def test_all_of_sugarcrepe_is_scored_each_image_and_caption_once(stand_in, tmp_path, capfd):
    [path] = predict("mock:bag-of-words", ["sugarcrepe"], out=tmp_path, data_dir=stand_in)
    assert "7,511 examples: 1,560 images and 11,844 captions to encode" in capfd.readouterr().err
    predictions = read_predictions(path)
    assert len(predictions.rows) == 7511
    assert (predictions.metadata["run"]["images"], predictions.metadata["run"]["captions"]) == (1560, 11844)
    result, part = report([path], resamples=500)
    assert (part.benchmark["task"], part.scores["n"]) == ("v2", 1516)
    assert {name: s["n"] for name, s in result.scores["per_category"].items()} == {
        "add_att": 692, "add_obj": 2062, "replace_att": 788, "replace_obj": 1652, "replace_rel": 1406,
        "swap_att": 666, "swap_obj": 245,
    }  # fmt: skip
    # Swaps are the same words in another order more often than not, and a bag of words cannot tell those apart.
    ties = {name: s["tie_rate"] for name, s in result.scores["per_category"].items()}
    assert min(ties["swap_att"], ties["swap_obj"]) > 0.25
    assert max(ties["replace_att"], ties["replace_obj"], ties["add_att"], ties["add_obj"]) == 0


@pytest.mark.parametrize("name", ["sugarcrepe", "cola", "tricd"])
def test_the_cards_counts_are_those_of_the_released_files(name, shared_data, tmp_path):
    options = {"with_images": False}
    out = build(name, tmp_path / name, data_dir=shared_data / "data" / name, options=options)
    shown = {(config, split): (rows, captions) for config, split, rows, _, captions in card_lines(name, "counts")}
    built = read_build(out)["configs"]
    found = {(config, split): n for config, splits in built.items() for split, n in splits.items()}
    assert shown == {key: (f"{n['rows']:,}", f"{n['captions']:,}") for key, n in found.items()}


@pytest.mark.slow
def test_the_released_tricd_is_scored_by_a_detector_on_stand_in_images(shared_data, tmp_path):
    source = shared_data / "data" / "tricd"
    (tmp_path / "copy" / "val2017").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("TRICD_grounding_val.json", "TRICD_VQA_val.json"):
        (tmp_path / "copy" / name).symlink_to(source / name)
    for image in json.loads((source / "TRICD_grounding_val.json").read_text("utf-8"))["images"]:
        pixels = rng.integers(0, 256, (image["height"] // 8, image["width"] // 8, 3), dtype=np.uint8)
        name = image["file_name"].rsplit("/")[-1]
        Image.fromarray(pixels).resize((image["width"], image["height"])).save(tmp_path / "copy" / "val2017" / name)
    predictions = predict(
        "demo-owlvit", ["tricd"], out=tmp_path / "predictions", data_dir=tmp_path / "copy", progress=False
    )
    results = {result.metric: result.scores for result in report(predictions, resamples=100)}
    assert list(results) == ["cpd_ap", "grounding_recall", "group_recall_at_1"]
    assert (results["cpd_ap"]["n"], results["cpd_ap"]["n_positive"], results["cpd_ap"]["n_boxes"]) == (204, 102, 315)
    # Phrases with boxes on the positive rows; noise shows none of them.
    assert results["grounding_recall"]["n"] == results["group_recall_at_1"]["n"] > 102
    assert 0 <= results["cpd_ap"]["ap"] < 0.2
    answers = predict("mock:shuffled", ["tricd/vqa"], out=tmp_path / "vqa", data_dir=tmp_path / "copy", progress=False)
    [answered] = report(answers, resamples=100)
    assert answered.scores["n"] == 204
    assert answered.scores["accuracy"] == pytest.approx(0.5, abs=0.15)
