"""The mean over VTAB's sets: in reports, and in Table 10 of Hard Positives, with the sets that are lacking."""

from __future__ import annotations

from dataclasses import replace

import pytest
from noise import write_noise
from support import Recorder

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.published.tables import get_table
from vl_assay.hub_datasets.zero_shot.labelled_sets import VTAB
from vl_assay.model_wrappers import predict
from vl_assay.model_wrappers.reproduce.comparison import compare

SETS = {"pets": 7, "dtd": 6, "kitti": 3}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Predictions for three of VTAB's sets, of which one has too few classes for accuracy at 5, and for ImageNet."""
    place = tmp_path_factory.mktemp("sets")
    for name, classes in {**SETS, "imagenet": 6}.items():
        labels = [f"kind {'abcdefg'[label]}" for label in range(classes)]
        inner = "val" if name == "imagenet" else ""
        write_noise([place / name / inner / label / f"{each}.png" for label in labels for each in range(2)], 20, 24)
        (place / name / "classnames.txt").write_text("\n".join(f"{label}\t{label}" for label in labels))
    references = [f"zero_shot/{name}" for name in (*SETS, "imagenet")]
    return [*predict(Recorder(), references, out=place / "ViT-B-32", data_dir=place, progress=False)]


def test_a_report_has_the_mean_over_the_sets_that_were_run_and_names_the_others(files):
    found = report(files, resamples=100)
    scores = {result.benchmark["task"]: result.scores for result in found}
    [mean] = found.suite_means
    assert (mean.benchmark, mean.name, {*mean.found}) == ("zero_shot", "vtab", {*SETS})
    assert len(mean.lacking) == 17
    assert mean.scores["acc_at_1"] == pytest.approx(sum(scores[name]["acc_at_1"] for name in SETS) / 3)
    assert "acc_at_5" not in scores["kitti"]
    assert mean.scores["acc_at_5"] == pytest.approx((scores["pets"]["acc_at_5"] + scores["dtd"]["acc_at_5"]) / 2)
    text = found.to_markdown()
    assert "Mean over the tasks vtab of zero_shot" in text
    assert "3 of 20" in text
    assert "lacks cifar10, cifar100," in text
    assert "is over the 2 that have it" in text
    assert not report([file for file in files if "imagenet" in file.name], resamples=100).suite_means


def test_table_10_compares_the_mean_over_all_sets_alone(files):
    table, found = get_table("hard-positives-10"), report(files, resamples=100)

    def cells(results):
        return {one.column.name: one for one in compare(table, table.rows[0], list(results))}

    some = cells(found)
    assert some["VTAB Acc@1"].ours == found.suite_means[0].scores["acc_at_1"]
    assert (some["VTAB Acc@1"].inside, some["VTAB Acc@1"].difference) == (None, None)
    assert some["ImageNet1k Acc@1"].difference is not None
    # With all twenty, whose results are those of one here, it is compared.
    pets = next(result for result in found if result.benchmark["task"] == "pets")
    whole = cells(replace(pets, benchmark={**pets.benchmark, "task": name}) for name in VTAB)
    assert whole["VTAB Acc@1"].ours == pytest.approx(pets.scores["acc_at_1"])
    assert whole["VTAB Acc@1"].difference == pytest.approx(pets.scores["acc_at_1"] - 0.39)
    assert whole["ImageNet1k Acc@1"].why == "no predictions of zero_shot/imagenet"
    few = cells(result for result in found if result.benchmark["task"] == "kitti")
    assert few["VTAB Acc@1"].ours is not None
    assert "do not have the score" in few["VTAB Acc@5"].why
