"""The study of order: its runs and how they resume, its arithmetic, and that a bag of words is found to be one."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import sources_retrieval
import sources_toy_order
from console import blocks, invoke

from vl_assay.metrics.common.documents import Verdict
from vl_assay.metrics.common.errors import ModelError, ScoresError, UnknownNameError, VLAssayError
from vl_assay.model_wrappers import RunConfig
from vl_assay.model_wrappers.study.order.design import CONDITIONS, IMAGE_SHUFFLES, QUICK, TEXT_SHUFFLES, Design
from vl_assay.model_wrappers.study.order.findings import SCORES, Values, drop, kept_share, over_seeds, verdict
from vl_assay.model_wrappers.study.order.report import report_parts, to_markdown, verdict_sentence
from vl_assay.model_wrappers.study.order.study import parse_models, run_study

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "study-order.md"


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """A study of a mock on a few photographs in the layout of COCO: its folder, and what gives it again."""
    folder = tmp_path_factory.mktemp("order")
    sources_retrieval.make(folder / "coco")
    design = Design("coco", (0,), (0,), composition=())
    options = {"verify": False, "tagger": "textblob", "black_edges": True}
    config = RunConfig(data_dir=folder / "coco", options=options, progress=False)
    models = {"bag of words": "mock:bag-of-words"}

    def again():
        return run_study(models, folder / "out", design, config=config)

    return folder / "out", again(), again


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The page's command in its quick form, on a few scenes: its folder, what it printed."""
    folder = tmp_path_factory.mktemp("quick")
    [command] = [line for block in blocks(PAGE, "bash") for line in block.splitlines() if line.endswith("--quick")]
    with pytest.MonkeyPatch.context() as patch:
        sources_toy_order.shrink(patch, retrieval=20, order=20)
        patch.setenv("VL_ASSAY_CACHE", str(folder / "cache"))
        result = invoke(*shlex.split(command)[1:], folder=folder, width=160)
    assert result.exit_code == 0, (result.output, result.exception)
    return folder / "vl-assay-results" / "study-order", result.output


def values(*by_query, clusters=None, text=()):
    """Recall@1 of some queries, those of images first: 1 or 0 each."""
    columns = {"text_recall_at_1": [*text, *[math.nan] * len(by_query)]}
    columns["image_recall_at_1"] = [*[math.nan] * len(text), *by_query]
    n = len(text) + len(by_query)
    ids = [(str(number), "") for number in range(n)]
    return Values(ids, {name: np.array(each, float) for name, each in columns.items()}, np.array(clusters or range(n)))


def test_the_conditions_are_those_of_the_papers_tables_and_each_has_data():
    assert len(CONDITIONS) == 10
    for dataset in ("toy_scenes", "coco", "flickr30k"):
        runs = dict(Design(dataset).runs())
        assert [len(seeds) for seeds in runs.values()][:11] == [1, 1, *[3] * 8, 5]


def test_a_bag_of_words_keeps_all_its_recall_and_knows_no_order(photographs):
    model = photographs[1]["models"]["bag of words"]
    for name in TEXT_SHUFFLES:
        for score in SCORES:
            part = model["conditions"][name]["scores"][score]
            assert part["drop"] == 0
            assert part["mean"] == model["conditions"]["cleaned"]["scores"][score]["mean"]
    assert model["kept"]["words"]["share"] == 1
    assert model["order"]["mean"] == 0  # all five tie


def test_every_condition_has_its_seeds(quick):
    files = {path.name for path in (quick[0] / "demo-clip").iterdir()}
    for name in (*TEXT_SHUFFLES, *IMAGE_SHUFFLES):
        assert {f"toy_order.retrieval_{name}.seed-{seed}.parquet" for seed in range(2)} <= files
    assert "toy_order.retrieval.seed-0.parquet" in files
    assert "toy_order.retrieval.seed-1.parquet" not in files  # nothing is shuffled
    [model] = json.loads((quick[0] / "study.json").read_text("utf-8"))["models"].values()
    by_seed = [part["scores"]["text_recall_at_1"]["by_seed"] for part in model["conditions"].values()]
    assert [len(each) for each in by_seed] == [1, 1, *[2] * 8]


def test_the_same_study_again_predicts_nothing_and_finds_the_same(photographs):
    out, found, again = photographs
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    assert again() == found
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == before


def test_options_go_to_the_benchmarks_that_have_them_and_others_are_refused(tmp_path):
    with pytest.raises(UnknownNameError, match="option of the study's benchmarks 'taggers'"):
        run_study({"a": "mock:constant"}, tmp_path, config=RunConfig(options={"taggers": "textblob"}, progress=False))


def test_a_setting_with_a_label_goes_to_that_model(tmp_path):
    for name, message in (
        ("c:head", "label of a model in a setting 'c'"),
        ("b:head", "mock.*'head'"),
        ("head", "mock"),
    ):
        with pytest.raises(VLAssayError, match=message):
            run_study({"b": "mock:constant"}, tmp_path, config=RunConfig(settings={name: "itc"}, progress=False))


def test_the_command_measures_demo_clip_offline_and_says_first_what_it_found(quick):
    out, printed = quick
    found = json.loads((out / "study.json").read_text("utf-8"))
    assert list(found["models"]) == ["demo-clip"]
    assert found["design"]["seeds"] == list(QUICK.seeds)
    assert [each["task"] for each in found["models"]["demo-clip"]["composition"]] == ["toy_scenes/itm"]
    assert found["models"]["demo-clip"]["conditions"]["none"]["scores"]["text_recall_at_5"]["mean"] > 0.7
    text = (out / "study.md").read_text("utf-8")
    assert text == to_markdown(found)
    [first, sentence, *_] = text.split("\n\n")
    assert first == "# Retrieval with and without order"
    assert sentence == f"**{verdict_sentence('demo-clip', found['models']['demo-clip'])}**"
    assert " ".join(printed[printed.index("demo-clip: with all words") :].split()).startswith(sentence[2:60])
    assert (out / "study.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "study.html").read_text("utf-8")
    assert page.count('class="bars"') == 2
    assert "Retrieval without access to order (Figure 2)" in page


def test_mean_deviation_and_drop_are_those_of_the_arithmetic():
    plain = [values(1, 1, 1, 0)]
    shuffled = [values(1, 0, 1, 0), values(1, 1, 0, 0), values(0, 0, 0, 0)]
    over = over_seeds(shuffled, "image_recall_at_1")
    # Means 1/2, 1/2, 0: deviations 1/6, 1/6, 1/3, whose squares 1/36 + 1/36 + 4/36 = 1/6 are divided by 2.
    assert over["by_seed"] == [0.5, 0.5, 0]
    assert over["mean"] == pytest.approx(1 / 3)
    assert over["std"] == pytest.approx(math.sqrt(1 / 12))
    assert over_seeds(plain, "image_recall_at_1")["std"] is None
    # Queries keep 2/3, 1/3, 1/3, 0 of 1, 1, 1, 0: drops 1/3, 2/3, 2/3, 0.
    found = drop(plain, shuffled, "image_recall_at_1")
    assert found["drop"] == pytest.approx(5 / 12)
    low, high = found["drop_interval"]
    assert 0 <= low < 5 / 12 < high <= 2 / 3


def test_queries_are_paired_by_what_they_ask_for_whatever_their_order():
    before, after = values(1, 0, 1, 0), values(1, 0, 1, 0)
    order = [2, 0, 3, 1]
    turned = Values(
        [after.ids[n] for n in order], {name: each[order] for name, each in after.scores.items()}, after.clusters[order]
    )
    assert drop([before], [turned], "image_recall_at_1")["drop_interval"][0] < 0.01
    assert drop([before], [turned], "image_recall_at_1")["drop"] == 0


def test_the_share_that_is_kept_is_of_both_directions_alike():
    before = values(1, 1, 0, 0, text=(1, 0), clusters=[0, 1, 0, 0, 1, 1])
    after = values(1, 0, 0, 0, text=(1, 0), clusters=[0, 1, 0, 0, 1, 1])
    # Text recall 1/2 and 1/2, image recall 1/2 and 1/4: (1/2 + 1/4) / (1/2 + 1/2).
    assert kept_share([before], [after])["share"] == pytest.approx(0.75)
    nothing = values(0, 0, text=(0,), clusters=[0, 0, 0])
    assert kept_share([nothing], [nothing]) == {"share": None, "interval": None}
    # Some resamples have only the image with nothing to lose.
    assert kept_share([before], [after])["interval"] is None


def test_the_interval_of_the_share_is_that_of_a_ratio_over_images():
    rng = np.random.default_rng(0)
    scores = rng.random(400) < 0.8
    kept = scores & (rng.random(400) < 0.5)
    clusters = [*range(100), *np.repeat(range(100), 3)]
    before, after = (values(*each[100:], text=each[:100], clusters=clusters) for each in (scores, kept))
    found = kept_share([before], [after])
    low, high = found["interval"]
    assert low < found["share"] < high
    assert 0.05 < high - low < 0.25


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ([0.70, 0.90], "hardly needed"),
        ([0.60, 0.70], "open"),
        ([0.40, 0.60], "needed in part"),
        ([0.30, 0.60], "open"),
        ([0.10, 0.30], "needed"),
        (None, "open"),
    ],
)
def test_verdicts_need_the_whole_interval_on_one_side(bounds, expected):
    assert verdict({"words": bounds}) == {"words": expected}


def test_the_report_begins_with_a_verdict_for_each_model_and_has_every_row(photographs):
    _, found, _ = photographs
    assert not report_parts(found)[0].is_warning  # five images decide nothing
    [model] = found["models"].values()
    parts = report_parts(
        found
        | {"models": {"bag of words": model | {"verdict": verdict({"words": [0.7, 1.0], "parts of the image": None})}}}
    )
    assert [isinstance(part, Verdict) for part in parts[:2]] == [True, False]
    assert parts[0].is_warning
    assert "keeps 100.0 % of recall@1" in parts[0].text
    assert "prefers the true order of words in 0.0 %" in parts[0].text
    words, images, drops, composition = (part for part in parts if hasattr(part, "rows"))
    assert [len(table.rows) for table in (words, images, drops, composition)] == [7, 4, 8, 1]


@pytest.mark.parametrize("names", [["=model"], ["a="], ["a=x", "a=y"], [""]])
def test_models_without_a_label_of_their_own_are_refused(names):
    with pytest.raises(ModelError, match="write NAME=MODEL"):
        parse_models(names)


def test_models_are_given_with_and_without_a_label(tmp_path):
    assert parse_models(["NegCLIP=open_clip:a", "demo-clip"]) == {"NegCLIP": "open_clip:a", "demo-clip": "demo-clip"}
    with pytest.raises(ModelError, match="a label of its own"):
        run_study({"a/b": "mock:constant", "a:b": "mock:constant"}, tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dataset", "imagenet"], "unknown dataset of the study 'imagenet'"),
        (["--seeds", "0,0"], "give at least one seed, and each once"),
        (["--seeds", "one"], "give whole numbers from 0"),
    ],
)
def test_the_command_refuses_what_it_does_not_know(words, message, tmp_path):
    result = invoke("study", "order", *words, "--out", tmp_path)
    assert isinstance(result.exception, VLAssayError)
    assert message in str(result.exception)


def test_a_design_needs_a_seed():
    with pytest.raises(ScoresError, match="order_seeds are"):
        Design(order_seeds=())


def test_the_page_is_the_report_of_its_own_numbers():
    text, report = PAGE.read_text("utf-8").split("## The command's own report")
    assert [heading for heading in re.findall(r"^### (.*)$", report, re.M) if heading.startswith("ARO, Table")]
    numbers = re.findall(r"\d+\.\d", text.partition("## Results")[2])
    assert len(numbers) > 10
    assert [number for number in numbers if number not in report] == []
