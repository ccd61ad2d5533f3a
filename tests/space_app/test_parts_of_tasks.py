"""`sugarcrepe/v2` on the leaderboard: recomputed from submissions of `sugarcrepe/itm`, apart from it on all pages."""

from __future__ import annotations

import hashlib
import json

import pytest
from report_support import write
from submission_support import MemoryStorage

from vl_assay.hub_datasets.core.benchmarks import get_task
from vl_assay.hub_datasets.sugarcrepe.v2 import IDS
from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.metrics.common.storage import json_hash
from vl_assay.metrics.records.schema import MatchingRow
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import BoardColumn
from vl_assay.space_app.board.views import view
from vl_assay.space_app.pages import compare, gallery, model
from vl_assay.space_app.storage.records import SCHEMA, VERSION, record_path
from vl_assay.space_app.submissions.submissions import finish

WHOLE = BoardColumn("sugarcrepe", "itm", "sugarcrepe_itm", "accuracy")
PART = WHOLE._replace(task="v2")
OTHERS = [f"swap_obj/{10_000 + n}" for n in range(2_000)]


def stored(storage, folder, name, right):
    """Store an accepted request without results, as the server did before; returns the SHA-256 of its predictions."""
    rows = [
        MatchingRow(id, id.split("/")[0], id.split("/")[0], [f"i{n // 3}"], [0], [[float(id in right), 0.5]])
        for n, id in enumerate([*sorted(IDS), *OTHERS])
    ]
    facts = {"configs": list(get_task("sugarcrepe", "itm").configs), "blind_parts": {"v2": {"made": "up"}}}
    content = write(folder / f"{name}.parquet", rows, "sugarcrepe", "itm", name, **facts).read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    described = {"sha256": sha256, "benchmark": "sugarcrepe", "task": "itm", "rows": len(rows)}
    record = {"schema": SCHEMA, "version": VERSION, "id": sha256[:16], "time": "2026-01-01T00:00:00+00:00", "user": ""}
    record |= {"model": {"name": name}, "predictions": [described], "flags": []}
    files = {record_path(sha256[:16]): json.dumps(record | {"sha256": json_hash(record)}).encode()}
    storage.add(files | {f"requests/{sha256[:16]}/{sha256}.parquet": content}, "")
    return sha256


@pytest.fixture(scope="module")
def submitted(tmp_path_factory):
    """A catalogue with one model that is right on all of v2 alone, and one on nine of ten of everything else."""
    storage, folder = MemoryStorage(), tmp_path_factory.mktemp("predictions")
    files = {name: stored(storage, folder, name, ids) for name, ids in (("fair", IDS), ("leaky", OTHERS[:1_800]))}
    assert finish(storage) == []
    return Catalogue(storage), files


def test_a_submission_of_the_whole_stands_in_the_columns_of_its_part(submitted):
    catalogue, files = submitted
    assert catalogue.board.recomputed(PART) == catalogue.board.recomputed(WHOLE) == files
    values = {entry.model: (entry.value, entry.n) for entry in catalogue.board.entries(PART)}
    assert values == {"fair": (1.0, len(IDS)), "leaky": (0.0, len(IDS)), "Chance": (0.5, None)}
    assert catalogue.board.entry(WHOLE, "leaky", "recomputed").value == 1_800 / (len(IDS) + len(OTHERS))
    assert {"itm", "v2"} == {place.column.task for place in view(catalogue.board, "SugarCrepe")}


def test_whole_and_part_of_one_file_are_tested_apart(submitted):
    catalogue, files = submitted
    whole, part = (catalogue.paired.difference(files["fair"], files["leaky"], column) for column in (WHOLE, PART))
    # On v2 the first is right on all; on the whole it is right on 1,516 of 3,516, the other on 1,800.
    assert (part["difference"], part["wins"], part["losses"]) == (1.0, len(IDS), 0)
    assert (whole["wins"], whole["losses"]) == (len(IDS), 1_800)
    assert catalogue.paired.shared(files, PART) == {"fair"}
    assert catalogue.paired.shared(files, WHOLE) == {"leaky"}
    chosen = catalogue.board.entries(PART)
    assert "fair" in compare.verdict_html(catalogue, PART, chosen)
    assert "task=sugarcrepe%2Fv2" in compare.disagreements_link(PART, chosen)


def test_the_model_page_shows_both_and_the_file_as_what_was_sent(submitted):
    catalogue, files = submitted
    html = model.profile_html(catalogue, "fair")
    assert ">v2<" in html
    sources = model.provenance_html(catalogue, "fair")
    assert "task=sugarcrepe%2Fv2" in sources
    assert f"{len(IDS) + len(OTHERS):,}" in sources
    result = catalogue.provenance(files["fair"]).result
    assert result.benchmark["task"] == "itm"
    assert "blind_parts" not in result.benchmark


def test_errors_of_the_part_are_of_its_examples(submitted):
    catalogue, files = submitted
    assert gallery.recomputed(catalogue.board)["sugarcrepe/v2"] == files
    part, whole = (gallery.load_errors(catalogue, f"sugarcrepe/{task}", files) for task in ("v2", "itm"))
    assert len(part.select("every", "")) == len(IDS)
    assert len(whole.select("every", "")) == len(IDS) + len(OTHERS)
    assert len(catalogue.predictions(files["fair"], "v2").rows) == len(IDS)
    with pytest.raises(PredictionsError, match="no examples of sugarcrepe/unrefined"):
        catalogue.predictions(files["fair"], "unrefined")
