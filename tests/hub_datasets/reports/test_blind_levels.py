"""The blind levels of a benchmark are the same wherever they are shown."""

import json
from pathlib import Path

import pytest

from vl_assay import hub_datasets
from vl_assay.hub_datasets.authoring.audit.blind import shipped_levels
from vl_assay.hub_datasets.authoring.audit.summaries import read_audit
from vl_assay.space_app.board.entries import BoardColumn
from vl_assay.space_app.board.launch import shipped_results
from vl_assay.space_app.pages.cards import blind_level

_FOLDER = Path(hub_datasets.__path__[0])
_TASKS = [
    (path.parent.name, task)
    for path in sorted(_FOLDER.glob("*/blind.json"))
    for task in json.loads(path.read_text("utf-8"))["tasks"]
]


@pytest.mark.parametrize(("benchmark", "task"), _TASKS)
def test_cards_audits_and_pages_show_the_level_of_the_package(benchmark, task):
    for metric, levels in shipped_levels(benchmark)[task]["metrics"].items():
        scores = [name for name, value in levels.items() if isinstance(value, float)]
        assert scores
        for name in scores:
            assert blind_level(BoardColumn(benchmark, task, metric, name)) == levels[name]
    audits = read_audit(benchmark)
    audit = audits.get(f"{benchmark}/{task}") or audits[benchmark]
    levels = shipped_levels(benchmark)[task]["metrics"].get("sugarcrepe_itm")
    if levels:  # two captions: the audit's pairs are the decisions of the score
        best = max(scorer["accuracy"] for scorer in audit["scorers"].values())
        assert f"{100 * levels['accuracy']:.1f}" == f"{100 * best:.1f}"
        assert f"| {100 * best:.1f} (" in (_FOLDER / benchmark / "README.md").read_text("utf-8")


def test_results_of_the_leaderboard_carry_the_level_of_the_package():
    results = shipped_results()
    assert results
    for result in results:
        shipped = shipped_levels(result.benchmark["name"]).get(result.benchmark["task"])
        assert shipped is None or result.benchmark["blind"] == shipped["metrics"]
