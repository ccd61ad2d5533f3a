"""Refinement in rounds of learned probes, what is written of a refinement, and the command."""

import json

import numpy as np
import pytest
from audit_support import write_blind_predictions
from console import invoke

from vl_assay.hub_datasets.authoring.data.pairs import Pair, read_pairs, write_pairs
from vl_assay.hub_datasets.authoring.refine.refine import WATCHING, refine
from vl_assay.hub_datasets.authoring.refine.report import write_refinement
from vl_assay.metrics.common.errors import DataError, VLAssayError

WORDS = [f"{first}{second}" for first in ("ba", "lo", "mi", "tu", "se") for second in ("na", "ro", "ti", "ku", "pe")]


def make_pairs(n=400, leak=0.8, images=100):
    """Captions of random words; so many of the negatives end in a full stop, and so many of the true ones do not."""
    rng = np.random.default_rng(0)

    def caption(stop):
        return " ".join(rng.choice(WORDS, 5)) + ("." if rng.random() < stop else "")

    return [
        Pair(f"p/{k}", f"{k % images}.jpg", caption(1 - leak), caption(leak), ("swap", "<i>add")[k % 2])
        for k in range(n)
    ]


@pytest.fixture(scope="module")
def learned():
    pairs = make_pairs()
    noise = np.random.default_rng(1).normal(0.1, 0.3, len(pairs)).clip(-1, 1)
    return pairs, *refine(pairs, {"noise": np.column_stack([noise, np.zeros(len(pairs))])}, learned=3, grid=10)


def test_rounds_end_when_probes_that_never_refined_find_no_more(learned):
    _, kept, record = learned
    told = record["learned"]
    first, last = told["rounds"][0]["probes"], told["rounds"][-1]["probes"]
    # A stop in one of two captions: right in 0.8², wrong in 0.2², and a tie otherwise.
    assert first["formatting"]["accuracy"] == pytest.approx(0.8**2 + 0.32 / 2, abs=0.06)
    assert first["characters"]["accuracy_interval"][0] > 0.6
    assert told["ended"] == "no probe that watches is better than chance"
    assert [found["refined_on"] for found in told["rounds"]] == [["noise"], ["probe formatting"], []]
    assert all(last[name]["accuracy_interval"][0] <= 0.5 for name in WATCHING)
    stops = [(pair.positive.endswith("."), pair.negative.endswith(".")) for pair in kept]
    assert stops.count((True, False)) == stops.count((False, True))


def test_scorers_stay_at_half_through_the_rounds_and_pairs_in_their_order(learned):
    pairs, kept, record = learned
    assert {part["accuracy"] for part in record["scorers"]["noise"]["after"]["per_category"].values()} == {0.5}
    sizes = [found["pairs"] for found in record["learned"]["rounds"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == len(kept) == record["kept"]
    assert kept == [pair for pair in pairs if pair in kept]


def test_too_few_images_for_probes_are_refused():
    with pytest.raises(DataError, match=r"too few pairs for another round of probes.*fewer rounds"):
        refine(make_pairs(20, images=3), {}, learned=1)


def test_a_report_holds_the_pairs_and_the_same_figures_in_each_form(learned, tmp_path):
    _, kept, record = learned
    files = write_refinement(kept, record, tmp_path, "a <b>|set")
    assert [file.name for file in files] == ["pairs.jsonl", "report.json", "report.md"]
    assert read_pairs(tmp_path / "pairs.jsonl") == kept
    assert json.loads((tmp_path / "report.json").read_text()) == json.loads(
        json.dumps({"dataset": "a <b>|set", **record})
    )
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("# Refinement of a &lt;b>\\|set\n")
    assert "<i>add" not in text
    for part in ("| swap | 200 |", f"{record['kept']} of 400 pairs", "50.0 (", "formatting (refines)"):
        assert part in text


def test_the_command_refines_a_file_on_language_models_and_says_so(tmp_path):
    write_pairs(make_pairs(200), tmp_path / "mine.jsonl")
    found = invoke("refine", tmp_path / "mine.jsonl", "--out", tmp_path / "out", "--seed", 5)
    assert found.exit_code == 0, found.output
    record = json.loads((tmp_path / "out" / "report.json").read_text())
    assert list(record["scorers"]) == ["words", "characters"]
    assert record["settings"] | {"seed": 5, "grid": 100} == record["settings"]
    assert f"{record['kept']} of 200 pairs are kept" in found.output
    assert len(read_pairs(tmp_path / "out" / "pairs.jsonl")) == record["kept"]


def test_the_command_takes_predictions_of_blind_models(coco, tmp_path):
    folder, out = coco(rows=40), tmp_path / "out"
    options = ("sugarcrepe/swap_obj", "--data-dir", folder, "-o", "verify=false", "--out", out, "--grid", 10)
    pairs = read_pairs("sugarcrepe/swap_obj", data_dir=folder, options={"verify": False})
    found = invoke("refine", *options, "--predictions", write_blind_predictions(tmp_path / "vera.parquet", pairs))
    assert found.exit_code == 0, found.output
    figures = json.loads((out / "report.json").read_text())["scorers"]
    assert list(figures) == ["vera:vera"]
    assert figures["vera:vera"]["after"]["accuracy"] == 0.5
    alike = write_blind_predictions(tmp_path / "words.parquet", pairs, "words")
    with pytest.raises(VLAssayError, match="is of words, which is there already"):
        raise invoke("refine", *options, "--scorer", "words", "--predictions", alike).exception


@pytest.mark.parametrize("dataset", ["pairs.jsonl", ""])
@pytest.mark.parametrize("command", ["refine", "audit"])
def test_results_do_not_take_the_place_of_the_dataset(dataset, command, tmp_path):
    write_pairs(make_pairs(20), tmp_path / "pairs.jsonl")
    before = (tmp_path / "pairs.jsonl").read_bytes()
    with pytest.raises(VLAssayError, match="give another --out"):
        raise invoke(command, tmp_path / dataset, "--out", tmp_path).exception
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]
