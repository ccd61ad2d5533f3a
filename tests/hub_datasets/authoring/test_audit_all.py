"""The audit of all benchmarks: what is here is audited, what is not is listed with the reason, and nothing stops it."""

import json
import re

import pytest
from builder_support import Small
from console import invoke
from sources_toy_order import shrink

from vl_assay.hub_datasets import get_benchmark
from vl_assay.hub_datasets.authoring.audit.everything import read_here
from vl_assay.hub_datasets.core.examples import cached_build
from vl_assay.metrics.common.errors import DataError, VLAssayError

AUDITED = ["toy_order", "toy_scenes/itm", "toy_scenes/hard_positives", "toy_scenes/order"]


def test_what_is_here_is_audited_and_the_rest_is_listed_with_the_reason(toy, coco, tmp_path, monkeypatch):
    shrink(monkeypatch)
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))  # other tests build benchmarks
    coco().rename(tmp_path / "sugarcrepe")  # not the released files, which counts as damage
    result = invoke("audit", "--all", "--data-dir", tmp_path, "--out", tmp_path / "out", "--max-blind-accuracy", 0.9)
    assert result.exit_code == 1
    content = json.loads((tmp_path / "out" / "audits.json").read_text("utf-8"))
    by_part = {each["part"]: each for each in content["audits"]}
    assert [name for name, each in by_part.items() if "problem" not in each] == AUDITED
    for part in AUDITED:
        assert (tmp_path / "out" / part / "audit.md").is_file()
        whole = json.loads((tmp_path / "out" / part / "audit.json").read_text("utf-8"))
        assert by_part[part]["scorers"]["words"]["accuracy"] == whole["scorers"]["words"]["accuracy"]
    assert "no pairs" in by_part["cola"]["problem"]
    assert "verify=False" in by_part["sugarcrepe"]["problem"]
    assert "mteb/ARO-Visual-Relation" in by_part["aro/relation"]["problem"]
    assert any("add_obj" in sentence for sentence in by_part["toy_scenes/itm"]["failures"])
    text = " ".join(result.output.split())
    assert "audited parts give captions away without the image" in text
    assert "fails: toy_scenes/itm: the rule 'length_rule'" in text
    markdown = (tmp_path / "out" / "audits.md").read_text("utf-8")
    assert "aro/relation not audited: aro/vg_relation" in markdown
    assert re.search("no pairs of a caption and a hard negative of one image: .*cola", markdown)


def test_a_build_in_the_cache_is_audited_without_the_copy_that_it_was_built_from(tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    small = Small("sugarcrepe", tmp_path)
    [task] = [task for task in get_benchmark("sugarcrepe").tasks if task.by_default]
    with pytest.raises(DataError):
        read_here("sugarcrepe", task, None)
    for config in task.configs:
        cached_build("sugarcrepe", config, small.data_dir, small.options, "test")
    pairs = read_here("sugarcrepe", task, None)
    assert {pair.category for pair in pairs} == set(task.configs)
    assert len({pair.id for pair in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("words", "message"),
    [((), "neither a dataset nor --all"), (("cola", "--all"), "both"), (("--all", "--card", "x"), "leave out")],
)
def test_one_dataset_or_all(words, message):
    result = invoke("audit", *words)
    assert isinstance(result.exception, VLAssayError)
    assert message in str(result.exception)
