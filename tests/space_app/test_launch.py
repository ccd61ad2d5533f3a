"""The papers' values on the leaderboard: every one is what the paper prints, and says where it stands."""

from __future__ import annotations

import re

from published_again import AGAIN

from vl_assay.hub_datasets.published.tables import all_tables
from vl_assay.space_app.board.launch import model_of, published

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
        assert 0 <= entry.value <= 1
        assert (entry.interval, entry.predictions, entry.status) == (None, "", "published")
        assert re.fullmatch(r".+ \(.+\), Table \d, row .+, column .+", entry.source)
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


def test_sizes_and_data_are_those_of_sugarcrepes_table_6():
    facts = {entry.model: (entry.parameters, entry.training_data) for entry in ENTRIES}
    assert facts["OpenCLIP ViT-G/14"] == (2_540_000_000, "LAION 2B")
    assert facts["GPT-4V"] == facts["Human"] == (None, "")
