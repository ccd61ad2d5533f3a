"""What a leaderboard opens with: the papers' values, and predictions that, evaluated anew, give the shipped figures."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import pytest
from published_again import AGAIN
from space_support import ITM
from submission_support import MemoryStorage

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.published.tables import all_tables
from vl_assay.metrics.common.errors import PredictionsError, StorageError
from vl_assay.metrics.records.predictions import file_hash, read_predictions
from vl_assay.space_app.board.board import Board
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import BoardColumn, of_results
from vl_assay.space_app.board.launch import (
    RESULTS,
    SHIPPED,
    model_of,
    published,
    shipped,
    shipped_predictions,
    shipped_results,
)
from vl_assay.space_app.pages.compare import differences_html
from vl_assay.space_app.submissions.copies import find_copied, scores_hash, sketch
from vl_assay.space_app.submissions.submissions import OPTIONS

MAKE = "make the folder anew: python tests/make_launch_predictions.py"
FILE = "demo-clip.toy_scenes.itm.parquet"
ORDER = BoardColumn("toy_scenes", "order", "itm_accuracy", "accuracy")
MODELS = {"demo-clip", "demo-owlvit (max_boxes=10)", "mock:bag-of-words", "mock:constant"}


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue(MemoryStorage())


def predictions_files():
    """The files; average precision takes long to resample, and a mock's choices are computed as a model's."""
    for path in sorted(shipped_predictions().values()):
        is_quick = path.name.startswith("demo-clip.") or path.name == "mock-bag-of-words.toy_scenes.vqa.parquet"
        yield pytest.param(path, id=path.name, marks=[] if is_quick else [pytest.mark.slow])


def assert_same(now, kept, place=""):
    """Equal but for digits in which versions of NumPy and SciPy differ; a bound may be that of the next resample."""
    if isinstance(kept, dict):
        assert now.keys() == kept.keys(), (place, MAKE)
        for name, value in kept.items():
            assert_same(now[name], value, f"{place}/{name}")
    elif isinstance(kept, list | tuple):
        assert len(now) == len(kept), (place, MAKE)
        for one, other in zip(now, kept, strict=True):
            assert_same(one, other, place)
    elif isinstance(kept, float):
        tolerance = 1e-4 if "_interval" in place else 1e-9
        assert now == pytest.approx(kept, rel=0, abs=tolerance, nan_ok=True), (place, MAKE)
    else:
        assert now == kept, (place, MAKE)


@pytest.mark.parametrize("path", predictions_files())
def test_shipped_predictions_give_the_shipped_results(path):
    kept = [asdict(result) for result in shipped_results() if result.predictions["file"] == path.name]
    assert_same([asdict(result) for result in report(path, **OPTIONS)], kept)


def test_the_folder_holds_the_predictions_and_their_results():
    there = {path.name for path in RESULTS.parent.iterdir()}
    assert there == {RESULTS.name, *(path.name for path in shipped_predictions().values())}
    assert {file_hash(path) for path in shipped_predictions().values()} == set(shipped_predictions()), MAKE


def test_an_empty_leaderboard_has_the_demo_models_and_references_on_toy_scenes(catalogue):
    board = catalogue.board
    columns = [column for column in board.columns if column.benchmark == "toy_scenes"]
    assert {column.task for column in columns} == {"itm", "hard_positives", "order", "groups", "detection", "vqa"}
    assert names(board.rows(columns)) == MODELS | {"Chance"}
    for entry in (entry for column in columns for entry in board.entries(column) if entry.model in MODELS):
        assert (entry.origin, entry.source, entry.status) == ("recomputed", SHIPPED, "accepted")
        assert entry.is_reference is entry.model.startswith("mock:")
    assert board.entry(ITM, "demo-clip", "recomputed").training_data == "80,000 toy scenes"


def test_their_predictions_are_found_and_compared(catalogue):
    assert catalogue.board.recomputed(ITM).keys() == {"demo-clip"}
    predictions = catalogue.predictions(catalogue.board.recomputed(ITM)["demo-clip"])
    assert (predictions.model, len(predictions.rows)) == ("demo-clip", 7000)
    with pytest.raises(StorageError, match="no accepted submission has the predictions file abc"):
        catalogue.predictions("abc")
    one, two = (catalogue.board.entry(ITM, model, "recomputed") for model in ("demo-clip", "mock:bag-of-words"))
    table = differences_html(catalogue, ITM, [one, two])
    assert f">{100 * (one.value - two.value):+.1f}<" in table


def submitted(file, name="demo-clip", predictions=None):
    """What the board has of a submission of shipped predictions, or of predictions with another hash."""
    results = [result for result in shipped_results() if result.predictions["file"] == file]
    if predictions:
        results = [replace(result, predictions={"file": "x", "sha256": predictions}) for result in results]
    return of_results(results, model={"name": name}, source="submission 1")


def names(entries):
    return {entry.model for entry in entries}


def test_a_submission_replaces_the_same_shipped_predictions_and_is_a_row_of_its_own_otherwise():
    same = submitted(FILE)
    board = Board([*same, *shipped(same)])
    assert names(shipped(same)) == MODELS
    assert board.entry(ITM, "demo-clip", "recomputed").source == "submission 1"
    for other in (submitted(FILE, predictions="0" * 64), submitted("mock-constant.toy_scenes.itm.parquet")):
        board = Board([*other, *shipped(other)])
        apart = f"demo-clip, {SHIPPED}"
        assert names(shipped(other)) == MODELS - {"demo-clip"} | {apart}
        assert board.entry(ITM, "demo-clip", "recomputed").source == "submission 1"
        assert board.entry(ITM, apart, "recomputed").source == SHIPPED
    assert names(shipped(submitted(FILE, name="another"))) == MODELS


def test_a_refresh_keeps_the_ties_of_the_same_predictions_and_finds_those_of_new_ones(monkeypatch):
    added, asked = [], []
    catalogue = Catalogue(MemoryStorage(), added)
    catalogue.warm().join()
    shared = catalogue.paired.shared
    monkeypatch.setattr(catalogue.paired, "shared", lambda *question: asked.append(question[0]) or shared(*question))
    added += submitted(FILE, name="copy")
    catalogue.refresh()
    catalogue.warm().join()  # searches come one after the other
    assert catalogue.ties([ITM, ORDER]) == {ITM: {"demo-clip", "copy"}, ORDER: {"demo-clip"}}
    assert asked
    assert all("copy" in models for models in asked)


class DamagedITM(Catalogue):
    """All files but one can be read."""

    def predictions(self, sha256, task=""):
        if sha256 == self.board.recomputed(ITM)["demo-clip"]:
            raise PredictionsError("not a readable Parquet file")
        return super().predictions(sha256, task)


def test_unreadable_predictions_are_reported_and_affect_no_other_mark():
    catalogue = DamagedITM(MemoryStorage())
    catalogue.warm().join()
    assert any(problem.startswith(f"the ties of {ITM.heading}: ") for problem in catalogue.problems)
    assert catalogue.ties([ITM, ORDER]) == {ITM: frozenset(), ORDER: {"demo-clip"}}


def test_a_copy_of_shipped_predictions_under_another_name_is_told_even_with_other_rounding():
    own = read_predictions(RESULTS.with_name(FILE))
    for row in own.rows:
        row.scores[0][0] += 2.3e-7
    copy = {"benchmark": "toy_scenes", "task": "itm", "scores": scores_hash(own), "sketch": sketch(own)}
    [flag] = find_copied(copy, "a copy", [])
    assert flag.startswith(f"toy_scenes/itm: The scores are close to those of demo-clip, {SHIPPED}: their rank")
    assert [*find_copied(copy, "demo-clip", [])] == []


ENTRIES = published()


def typed_again(table):
    """What a table holds as it was typed a second time: values by the row and column that the paper prints."""
    return {place: text for place, text in AGAIN[table.name].items() if place[1] != "# Samples"}


SHOWN = [table for table in all_tables().values() if table.on_leaderboard]


def test_every_value_is_the_one_typed_a_second_time_with_all_its_digits():
    for table in SHOWN:
        again = typed_again(table)
        start = f"{table.paper.short}, Table {table.number}, row "
        found = [(entry.source.removeprefix(start), entry.value) for entry in ENTRIES if entry.source.startswith(start)]
        assert len(dict(found)) == len(found)
        values = {place: float(text.split("±")[0]) / table.unit for place, text in again.items()}
        assert dict(found) == {f"{row}, column {column}": value for (row, column), value in values.items()}


def test_no_entry_is_of_nothing_and_all_say_that_they_are_not_recomputed():
    assert len(ENTRIES) == sum(len(typed_again(table)) for table in SHOWN)
    for entry in ENTRIES:
        assert (entry.interval, entry.predictions, entry.status) == (None, "", "published")
        assert entry.origin == ("reference" if entry.model in ("Human", "Chance") else "published")
    blind = {entry.model for entry in ENTRIES if entry.is_reference and entry.origin == "published"}
    assert blind == {"Vera", "Grammar model"}


def test_one_checkpoint_has_one_name_in_all_papers_and_no_other_has_it():
    names, checkpoints = {}, {}
    for table in SHOWN:
        for row in table.rows:
            run, name = row.run, model_of(table, row)["model"]
            if run.model:
                checkpoint = (run.model, run.weights, *run.settings.items())
                assert names.setdefault(checkpoint, name) == name
                assert checkpoints.setdefault(name, checkpoint) == checkpoint
    assert names["clip:openai/clip-vit-base-patch32", ""] == "CLIP ViT-B/32"
    papers = {entry.source.split()[0] for entry in ENTRIES if entry.model == "CLIP ViT-B/32"}
    assert papers == {"SugarCrepe", "ARO", "Hard"}


def test_sizes_and_data_are_those_of_sugarcrepes_table_6():
    facts = {entry.model: (entry.parameters, entry.training_data) for entry in ENTRIES}
    assert facts["OpenCLIP ViT-G/14"] == (2_540_000_000, "LAION 2B")
    assert facts["GPT-4V"] == facts["Human"] == (None, "")


def test_values_of_tricds_hidden_test_set_stand_apart_from_those_of_its_validation_set():
    tasks = {}
    for entry in ENTRIES:
        if entry.benchmark == "tricd":
            number = re.search(r"Table (\d)", entry.source)[1]
            tasks.setdefault(number, set()).add((entry.task, entry.metric, entry.score))
    assert tasks == {
        "3": {("test", "cpd_ap", "ap")},
        "4": {("test", "yes_no_f1", "macro_f1")},
        "5": {("test", "grounding_recall", "recall_at_1")},
        "6": {("test", "group_recall_at_1", "recall_at_1")},
        "8": {("val", "cpd_ap", "ap")},
    }
