"""How the records of releases become rows, and what else single benchmarks promise."""

import base64
import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import sources_colorswap as colorswap
import sources_imagecode as imagecode
import sources_mmvp_vlm as mmvp
from builder_support import Small, paper_text
from cases import read_cases
from console import invoke
from hub_server import serving_hub

from vl_assay.hub_datasets import build, report
from vl_assay.hub_datasets.aro import release
from vl_assay.hub_datasets.core.benchmarks import get_builder
from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.vismin.builder import VisMin
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.functional.groups import group_match
from vl_assay.model_wrappers import predict


@pytest.fixture
def small(tmp_path):
    """A function from a benchmark's name to its small copy."""
    return lambda name, *config: Small(name, tmp_path, *config)


def texts(row, *columns):
    return tuple(row[column] for column in columns)


ROWS = read_cases("rows")


@pytest.mark.parametrize("reference", ROWS)
def test_rows_hold_what_a_person_reads_in_the_sources(reference, small):
    name, config = reference.split("/")
    rows = {row["id"]: row for row in small(name, config).rows(with_images=False)}
    ids = [expected["id"] for expected in ROWS[reference]]
    assert [id for id in rows if id in ids] == ids
    for expected in ROWS[reference]:
        assert {column: rows[expected["id"]][column] for column in expected} == expected


@pytest.mark.parametrize("config", ["test", "train"])
def test_both_sources_of_colorswap_give_the_same_rows_and_images(config, small, tmp_path, monkeypatch):
    copy, tables = small("colorswap"), tmp_path / "hub" / "stanfordnlp" / "colorswap"
    colorswap.make_tables(tables, copy.folder)
    expected = copy.rows(config)
    assert [row["id"] for row in expected] == [f"{config}/{number}" for number in colorswap.IDS[config]]
    assert copy.rows(config, data_dir=tables) == expected
    with serving_hub(tables.parents[1], monkeypatch):
        assert copy.rows(config, data_dir=None) == expected


def test_the_images_of_imagecode_are_sorted_by_number_with_the_right_one_first(small):
    copy, video = small("imagecode"), imagecode.VIDEO
    rows = copy.rows()
    assert [texts(row, "category", "defect") for row in rows] == [
        *[("video", "")] * 2, ("static", ""), ("static", "too short"),
    ]  # fmt: skip
    assert texts(rows[0], "id", "caption") == (f"valid/{video}/7", "The hand is behind the bowl. ")
    numbers = [0, *range(4, 13)]
    order = [7, 0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert [rows[0][f"filename_{n}"] for n in range(10)] == [f"{video}_{place}.jpg" for place in order]
    files = [copy.folder / "image-sets" / video / f"img{numbers[place]}.jpg" for place in order]
    assert [rows[0][f"image_{n}"]["bytes"] for n in range(10)] == [file.read_bytes() for file in files]


def test_pairs_of_mmvp_are_found_by_number_and_have_no_prefix_if_none_is_wanted(small):
    copy = small("mmvp_vlm")
    rows = copy.rows(with_images=False)
    mmvp.write_questions(copy.folder, [mmvp.ROWS[place] for place in (1, 3, 0, 2, 5, 4)])
    assert copy.rows(with_images=False) == rows
    for row in copy.rows(prefix="", with_images=False):
        assert texts(row, "caption_0", "caption_1") == texts(row, "statement_0", "statement_1")


def test_of_a_set_of_imagecode_without_exactly_ten_images_none_is_taken(small):
    copy = small("imagecode")
    (copy.folder / "image-sets" / imagecode.VIDEO / "img0.jpg").unlink()
    copy.error(MissingSourceError, rf"10 of 20 images .*{imagecode.VIDEO}_")
    rows = copy.rows(allow_missing=True)
    assert [row["image_0"] is None and row["image_9"] is None for row in rows] == [True, True, False, False]


def test_the_image_score_is_the_pair_accuracy_of_mmvps_authors():
    """Of each statement the first image where its share in a softmax over both exceeds one half, else the second."""
    scores = np.random.default_rng(0).normal(size=(400, 2, 2))  # (pair, image, statement)
    share = np.exp(scores[:, 0]) / np.exp(scores).sum(axis=1)
    pairs = (share[:, 0] > 0.5) & ~(share[:, 1] > 0.5)
    assert group_match(scores)["image_score"] == pairs.mean()
    # A tie goes to the second image there, so that it is wrong for the first statement.
    assert group_match(np.ones((3, 2, 2)))["image_score"] == 0


def test_rows_of_valse_that_fewer_than_two_annotators_prefer_are_left_out_by_default(small, monkeypatch):
    copy = small("valse", "existence")
    # The votes of the three rows are 3, 2 and 1.
    ids = [row["id"] for row in copy.rows(with_images=False)]
    assert ids == ["existence/existence_test_0", "existence/existence_test_1"]
    assert len(copy.rows(with_images=False, all_rows=True)) == 3
    part = get_builder("valse").ROWS["existence"]
    monkeypatch.setitem(get_builder("valse").ROWS, "existence", replace(part, count=3))
    copy.error(DataError, r"existence \(valid rows\) has 2 rows, but the release has 505", verify=True)


def test_numbers_of_vismin_are_compared_unless_told_otherwise(small, monkeypatch):
    copy = small("vismin")
    solutions = copy.folder / "solutions" / "sim_solution.csv"
    text = solutions.read_text(encoding="utf-8")
    before, after = text.rsplit("\n0,", 1)
    solutions.write_text(f"{before}\n7,{after}", encoding="utf-8")
    assert len(copy.rows()) == 5
    monkeypatch.setattr(VisMin, "ROWS", {"vismin": replace(VisMin.ROWS["vismin"], count=5)})
    copy.error(DataError, "row 4: counting 7, but that row of the dataset is counting 0", verify=True)
    solutions.write_text("\n".join(text.splitlines()[:-1]), encoding="utf-8")
    copy.error(DataError, "has 4 rows, but the release has 5")


def test_a_build_of_one_configuration_of_sugarcrepe_pp_is_scored_with_images_and_as_texts(small, tmp_path):
    copy = small("sugarcrepe_pp")
    out = build("sugarcrepe_pp", tmp_path / "built", configs=["swap_att"], data_dir=copy.folder, options=copy.options)
    files = predict("mock:bag-of-words", str(out), out=tmp_path / "out", progress=False)
    assert [file.name for file in files] == ["sugarcrepe_pp.swap_att.parquet", "sugarcrepe_pp.tot+swap_att.parquet"]


def test_both_parts_of_aro_are_evaluated_with_the_papers_averages(small, tmp_path):
    copy = small("aro")
    files = predict(
        "mock:shuffled", ["aro"], data_dir=copy.folder, options=copy.options, out=tmp_path / "out", progress=False
    )
    relation, attribution = report(files, resamples=100)
    assert [result.metric for result in (relation, attribution)] == ["aro_itm", "aro_itm"]
    # 12 rows, 3 each of on, eating, to the left of and next to; the last is symmetric.
    assert (relation.scores["n"], relation.scores["n_symmetric"]) == (9, 3)
    assert {name: part["n"] for name, part in relation.scores["per_group"].items()} == {"spatial": 6, "verb": 3}
    assert (attribution.scores["n"], attribution.scores["rare"]) == (30, {"open & white": 4})
    assert attribution.scores["macro_accuracy"] == attribution.scores["per_category"]["small & brown"]["accuracy"]


def test_the_released_rows_of_aro_are_counted_as_in_the_paper(shared_data):
    paper = re.sub(r"(\d), (\d{3})", r"\1,\2", " ".join(paper_text(shared_data, "004").split()))
    sizes = re.search(
        r"with \d+ relations .*?with ([\d,]+) test cases in total; and \d+ unique .*?([\d,]+) test", paper
    )
    assert [f"{rows:,}" for rows in release.ROWS.values()] == list(sizes.groups())


def test_a_choice_among_images_is_reported_and_shown_with_all_its_images(small, tmp_path):
    folder = small("spec").folder
    run = invoke(
        "run", "mock:bag-of-words", "spec/existence_t2i", "--data-dir", folder, "--out", "bag", folder=tmp_path
    )
    assert run.exit_code == 0, run.output
    # All pills are red: of "a red circle and a red pill" the words fit both images, a tie, which is wrong.
    results = json.loads((tmp_path / "bag" / "results.json").read_text(encoding="utf-8"))["results"]
    [scores] = [each["scores"] for each in results if each["benchmark"]["task"] == "existence_t2i"]
    assert (scores["accuracy"], scores["tie_rate"], scores["n"]) == (0.5, 0.5, 2)
    errors = invoke("errors", "bag", "--data-dir", folder, "--out", "errors.html", folder=tmp_path)
    assert errors.exit_code == 0, errors.output
    page = (tmp_path / "errors.html").read_text(encoding="utf-8")
    [task] = json.loads(re.search(r'id="tasks-data">(.*?)</script>', page, re.S)[1])
    worst, right = json.loads(gzip.decompress(base64.b64decode(task["cards"])))
    assert "a red circle and a red pill" in worst
    assert "tie" in worst
    assert "a blue circle and a red pill" in right
    for card in (worst, right):
        assert card.count("<img ") == 2
