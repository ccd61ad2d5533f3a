"""`sugarcrepe/v2`: its ids are of the release, and it is reported with every SugarCrepe run."""

import json
from collections import Counter

import numpy as np
import pytest
from builder_support import Small, card_table
from report_support import write
from sources_sugarcrepe import CATEGORIES, make_sugarcrepe

from vl_assay.hub_datasets import compare, report
from vl_assay.hub_datasets.core.benchmarks import get_card, get_task
from vl_assay.hub_datasets.sugarcrepe.v2 import IDS, TEXTS, texts_hash
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.metrics.records.schema import MatchingRow
from vl_assay.metrics.results.compare import compare as compare_files
from vl_assay.model_wrappers import predict


@pytest.fixture
def released(shared_data):
    return shared_data / "data" / "sugarcrepe"


def rows_of(small, config, **options):
    return small.rows(config, with_images=False, **options)


def test_the_rows_are_those_of_the_release_and_the_cards_counts_theirs(tmp_path, released):
    small = Small("sugarcrepe", tmp_path)
    rows = rows_of(small, "v2", data_dir=released, verify=True)
    assert {row["id"] for row in rows} == IDS
    assert texts_hash((row["id"], row["caption"], row["negative_caption"]) for row in rows) == TEXTS
    counts = Counter(row["category"] for row in rows)
    shown = card_table("sugarcrepe", "v2")
    assert {name: shown[name][1] for name in CATEGORIES} == {name: f"{counts[name]:,}" for name in CATEGORIES}
    assert f"subset of {len(rows):,} pairs" in " ".join(get_card("sugarcrepe").split())


def test_another_release_is_told(tmp_path):
    small = Small("sugarcrepe", tmp_path)
    small.error(DataError, "as released has .* of another release", "v2", verify=True)
    with pytest.warns(UserWarning, match=r"another release of SugarCrepe: this one lacks 1,\d+ of 1,516 rows"):
        rows = rows_of(small, "v2")
    assert {row["id"] for row in rows} <= IDS
    for path in (small.folder / "data").iterdir():
        path.write_text(json.dumps({"none": json.loads(path.read_text())["0"]}), encoding="utf-8")
    small.error(DataError, "lacks 1,516 of 1,516 rows .* Use the release at", "v2")


def test_other_captions_under_the_same_ids_are_told(tmp_path):
    small = Small("sugarcrepe", tmp_path)
    row = {"filename": "000000000000.jpg", "caption": "a", "negative_caption": "b"}
    for name in CATEGORIES:
        keys = [id.removeprefix(f"{name}/") for id in IDS if id.startswith(f"{name}/")] or ["0"]
        (small.folder / "data" / f"{name}.json").write_text(json.dumps(dict.fromkeys(keys, row)), encoding="utf-8")
    with pytest.warns(UserWarning, match="has other captions in the 1,516 rows of v2"):
        assert {each["id"] for each in rows_of(small, "v2")} == IDS


def itm_rows(rng, ids):
    return [
        MatchingRow(id, id.split("/")[0], id.split("/")[0], [f"i{n // 3}"], [0], [rng.normal(size=2).tolist()])
        for n, id in enumerate(ids)
    ]


def write_itm(path, rows, **facts):
    facts = {"configs": list(get_task("sugarcrepe", "itm").configs), "metrics": {"sugarcrepe_itm": {}}} | facts
    return write(path, rows, "sugarcrepe", "itm", **facts)


def test_a_report_shows_both_from_the_same_predictions(tmp_path):
    rng = np.random.default_rng(0)
    others = [f"{name}/{10_000 + n}" for name in CATEGORIES for n in range(40)]
    rows = itm_rows(rng, [*sorted(IDS), *others])
    blind = {"sugarcrepe_itm": {"accuracy": 0.51, "per_category": {}}}
    run = {"truncated_captions": 1_597}
    path = write_itm(tmp_path / "sugarcrepe.itm.parquet", rows, blind={}, blind_parts={"v2": blind}, run=run)
    whole, part = found = report(path, resamples=100)
    assert [each.benchmark["task"] for each in found] == ["itm", "v2"]
    assert (whole.scores["n"], part.scores["n"]) == (len(rows), len(IDS))
    mine = [row.scores[0][0] > row.scores[0][1] for row in rows if row.id in IDS]
    assert part.scores["accuracy"] == pytest.approx(np.mean(mine))
    assert set(part.scores["per_category"]) == {id.split("/")[0] for id in IDS}
    assert part.predictions == whole.predictions
    assert (part.blind, whole.blind) == (blind["sugarcrepe_itm"], {})
    # How many captions of the part were cut is not known.
    assert (whole.run, part.run) == (run, {})
    assert ["1,597" in text for text in found.to_markdown().split("### a on sugarcrepe (")[1:]] == [True, False]
    other = write_itm(tmp_path / "b.parquet", itm_rows(rng, [row.id for row in rows]), model="b")
    assert [table.title for table in report([path, other], resamples=100).overview][-1].startswith("sugarcrepe (v2)")
    assert len(found.per_example()) == len(rows)
    compared = compare(path, other, resamples=100, permutations=100)
    assert {each.task for each in compared.differences} == {"itm", "v2"}
    assert [len(files) for files in compared.files.values()] == [1, 1]
    # The part changes nothing in the verdict on the whole.
    assert compared.verdicts[0] == compare_files(path, other, resamples=100, permutations=100).verdict


def test_of_some_configurations_or_examples_the_part_is_theirs(tmp_path):
    rng = np.random.default_rng(0)
    ids = sorted(id for id in IDS if id.startswith("swap_obj/"))
    swaps = write_itm(tmp_path / "a.parquet", itm_rows(rng, ids), configs=["swap_obj"])
    assert [each.scores["n"] for each in report(swaps, resamples=100)] == [len(ids), len(ids)]
    limited = write_itm(tmp_path / "b.parquet", itm_rows(rng, [*ids[:9], "swap_obj/10000"]), limit=10)
    results = report(limited, resamples=100)
    assert [each.scores["n"] for each in results] == [10, 9]
    assert "Partial: 9 examples" in results.to_markdown()


def test_a_run_writes_the_blind_levels_of_the_part_and_v2_alone_gives_the_same_score(tmp_path):
    folder = make_sugarcrepe(tmp_path / "sources", rows=40, images=5, categories=CATEGORIES)
    own = {id for id in IDS if id.split("/")[0] in CATEGORIES}
    options = {"data_dir": folder, "options": {"verify": False}, "progress": False, "cache": False}
    [whole] = predict("mock:bag-of-words", "sugarcrepe", out=tmp_path / "whole", limit=210, **options)
    [alone] = predict("mock:bag-of-words", "sugarcrepe/v2", out=tmp_path / "alone", **options)
    results = report(whole, resamples=100)
    [same] = report(alone, resamples=100)
    told = read_predictions(whole).metadata["benchmark"]["blind_parts"]["v2"]["sugarcrepe_itm"]
    mine = {row.id: row.scores for row in read_predictions(whole).rows if row.id in own}
    shared = {row.id: row.scores for row in read_predictions(alone).rows}
    assert mine
    assert all(shared[id] == scores for id, scores in mine.items())
    assert results[1].scores["n"] == len(mine)
    assert 0 <= told["accuracy"] <= 1
    assert same.benchmark["task"] == "v2"
