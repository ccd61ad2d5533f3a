"""The chain of authoring commands: each takes the folder that the one before it wrote, without `--column`."""

import json
import shutil

import pytest
from console import invoke
from new_benchmark_support import photos
from review_support import decide

from vl_assay.hub_datasets.authoring.data.pairs import read_pairs
from vl_assay.hub_datasets.authoring.data.sources import read_captions
from vl_assay.hub_datasets.authoring.review.review import open_review
from vl_assay.hub_datasets.core import benchmarks
from vl_assay.hub_datasets.core.benchmarks import adopt
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.records.predictions import prediction_files, read_predictions

LENIENT = "learned: 1\nmax_blind_accuracy: 0.9\n"


def run(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """The folder of the commands' folders: generated, reviewed, audited, refined, and a benchmark."""
    folder = tmp_path_factory.mktemp("chain")
    kinds = ["--kind", "swap_att", "--kind", "positive_swap"]
    run("generate", photos(folder / "photos"), "--rules", *kinds, "--out", folder / "made")
    desk = open_review(folder / "made")
    for number, candidate in enumerate(desk.items):
        decide(desk, "ana", candidate.id, decision="keep" if number % 10 else "not_fluent")
    with pytest.raises(DataError, match=r"write the results first, with `vl-assay review .*--summary`"):
        read_pairs(folder / "made")
    run("review", folder / "made", "--summary")
    run("audit", folder / "made", "--out", folder / "audited")
    run("refine", folder / "made", "--scorer", "words", "--out", folder / "refined")
    run("audit", folder / "refined", "--out", folder / "audited-again")
    (folder / "config.yaml").write_text(LENIENT)
    work = ["--work", folder / "work", "--config", folder / "config.yaml"]
    said = run("new-benchmark", "my_photos", folder / "refined", *work)
    assert "review: skipped" in said
    return folder


def test_hard_negatives_that_people_kept_go_from_folder_to_folder(chain):
    rows = [json.loads(line) for line in (chain / "made" / "reviewed.jsonl").read_text("utf-8").splitlines()]
    kept = [row for row in rows if row["status"] == "kept" and not row["is_positive"]]
    assert 0 < len(kept) < len([row for row in rows if not row["is_positive"]])
    reviewed, refined, made = (read_pairs(chain / name) for name in ("made", "refined", "work/my_photos"))
    assert [pair[2:] for pair in reviewed] == [(row["caption"], row["text"], "swap_att") for row in kept]
    assert {*made} <= {pair._replace(image=pair.image.rpartition("/")[2]) for pair in refined}
    assert {pair.id for pair in refined} < {pair.id for pair in reviewed}
    assert json.loads((chain / "audited" / "audit.json").read_text())["pairs"] == len(reviewed)


def test_images_are_found_from_each_folder(chain):
    for name in ("made", "refined"):
        captions = read_captions(chain / name)
        assert len({(row.image, row.caption) for row in captions}) == len(captions)
        assert all((chain / row.image).is_file() for row in captions)


def test_the_card_says_where_the_pairs_come_from_and_that_nobody_reviewed_them_again(chain):
    card = (chain / "work" / "my_photos" / "README.md").read_text("utf-8")
    assert "The pairs were taken from refined; nobody was asked to review them again." in card
    assert "Negatives: " in card
    assert " from refined: " in card


def test_the_benchmark_is_run_audited_compared_and_looked_at_by_its_folder(chain, monkeypatch):
    folder = chain / "work" / "my_photos"
    for model in ("mock:bag-of-words", "mock:constant"):
        run("run", model, folder, "--out", chain / model)
    pairs = len(read_pairs(folder))
    assert (
        pairs == len(read_pairs(f"{folder}/swap_att")) == len(read_predictions(*prediction_files(chain / model)).rows)
    )
    run("audit", folder, "--out", chain / "by-folder")
    audits = [json.loads((chain / name / "audit.json").read_text()) for name in ("by-folder", "work/final-audit")]
    assert audits[0]["scorers"] == audits[1]["scorers"]
    assert "on my_photos (itm)" in run("compare", chain / "mock:bag-of-words", chain / "mock:constant")
    monkeypatch.setattr(benchmarks, "_ADOPTED", {})  # as in a new process
    assert "give the folder of my_photos as --data-dir" in run("errors", chain / model).replace("\n", " ")
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("VL_ASSAY_CACHE", str(chain / "new-home"))  # where the benchmark was never built
    run("errors", chain / model, "--data-dir", "my_photos")
    assert "data:image" in (chain / model / "errors.html").read_text("utf-8")


def test_a_folder_that_has_build_json_is_data_whose_scripts_do_not_run(chain, tmp_path):
    folder = shutil.copytree(chain / "work" / "repository", tmp_path / "data")
    for name in ("benchmark.py", "builder.py"):
        (folder / name).write_text("raise SystemExit('it runs')")
    assert adopt(str(folder)) == str(folder)
    (folder / "build.json").unlink()
    assert adopt(str(folder)) == "data"
    for name in ("toy_scenes", "my photos"):
        with pytest.raises(DataError, match="rename the folder"):
            adopt(str(shutil.copytree(folder, tmp_path / name)))


def test_rules_and_models_are_refused_for_pairs_that_are_there(chain):
    result = invoke("new-benchmark", "x", chain / "refined", "--rules", "--work", chain / "other")
    assert "has pairs already; leave out --rules and --model" in str(result.exception)
