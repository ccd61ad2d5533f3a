"""The leaderboard takes from the benchmark what that knows: which images rows share, and what a whole task is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from report_support import declared
from submission_support import MemoryStorage, changed, of_model

from vl_assay.hub_datasets.core.benchmarks import get_task
from vl_assay.metrics.common.errors import DataError, PredictionsError, RateLimitError
from vl_assay.metrics.records.predictions import Predictions, write_predictions
from vl_assay.metrics.records.schema import MatchingRow, TextSimilarityRow
from vl_assay.metrics.results.compute import compute
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import BoardColumn, chance_levels, of_results
from vl_assay.space_app.pages import cards
from vl_assay.space_app.submissions.submissions import preview, submit
from vl_assay.space_app.submissions.uploads import expected, known_examples


def said(name, task, *configs):
    return {"task_type": "matching", "benchmark": {"name": name, "task": task, "configs": list(configs)}}


def test_no_request_of_a_visitor_downloads_or_builds(tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path))
    for request in (
        lambda: expected(said("toy_order", "order", "order")),
        lambda: expected(said("sugarcrepe", "itm", "swap_obj")),
        lambda: known_examples("toy_order/order"),
    ):
        with pytest.raises((PredictionsError, DataError), match="was not built here"):
            request()
    assert "has no copy of its data" in cards.examples_html("toy_order")
    assert [*tmp_path.rglob("*")] == []


def test_checks_have_a_limit_in_an_hour_for_each_user_and_for_all_without_a_login(toy, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_RATE_LIMIT", "1")
    monkeypatch.setenv("VL_ASSAY_USER_RATE_LIMIT", "1")
    noon, storage = datetime(2026, 1, 2, 12, tzinfo=UTC), MemoryStorage()

    def check(user, minute):
        with pytest.raises(PredictionsError):
            preview(storage, [b"damaged"], {}, user, now=lambda: noon + timedelta(minutes=minute))

    for user in ("", "ada"):
        for minute in range(10):
            check(user, minute)
    for user in ("", "ada"):
        with pytest.raises(RateLimitError, match=r"there have been 10 checks .* after 13:00:00 UTC"):
            preview(storage, [toy.predictions("vqa")], {}, user, now=lambda: noon + timedelta(minutes=59))
        with pytest.raises(RateLimitError, match="10 checks"):  # refused files cost as much
            submit(storage, [b"damaged"], {}, user, now=lambda: noon + timedelta(minutes=59))
    for user, minute in (("bob", 59), ("", 60), ("ada", 60)):
        check(user, minute)


def submitted(*contents):
    """The scores of the first of some submissions, and its paired difference to the second in what was stored."""
    storage = MemoryStorage()
    receipts = [submit(storage, [content], {}) for content in contents]
    catalogue, files = Catalogue(storage), [each.predictions[0]["sha256"] for each in receipts]
    result = receipts[0].results[0]
    column = BoardColumn(result.benchmark["name"], result.benchmark["task"], result.metric, result.main_score)
    return [each.scores for each in receipts[0].results], catalogue.paired.difference(*files, column)


def test_intervals_and_tests_do_not_depend_on_the_submitters_keys_of_images(toy):
    honest, other = of_model(toy, 1, "groups"), of_model(toy, 2, "groups")
    expected_scores = submitted(honest, other)
    for key in (lambda n, side: "0" * 32, lambda n, side: f"{n:031x}{side}", lambda n, side: f"file:{n % 2}.jpg"):

        def rekey(rows, key=key):
            for n, row in enumerate(rows):
                row["images"] = [key(n, side) for side, _ in enumerate(row["images"])]

        assert submitted(changed(honest, rows=rekey), other) == expected_scores


def results_of(benchmark, task, configs, path):
    """The results of predictions of some configurations, whose examples are right."""
    declaration = get_task(benchmark, task)
    images, captions = len(declaration.images), max(len(declaration.captions), 2)
    rows = []
    for config in configs:
        category = config.removeprefix("unrefined_")
        for n in range(40):
            if declaration.task_type == "text_similarity":
                rows.append(TextSimilarityRow(f"{config}/{n}", config, category, [], [0], [[1.0, 0.0, 0.0]]))
                continue
            scores = [[float(image == caption) for caption in range(captions)] for image in range(images)]
            keys = [f"{config}-{n}-{image}" for image in range(images)]
            rows.append(MatchingRow(f"{config}/{n}", config, category, keys, [*range(images)], scores))
    about = {"name": benchmark, "task": task, "configs": [*configs], "rows": len(rows), "missing": []}
    write_predictions(
        path, Predictions(rows, {"model": {"name": "m"}, "benchmark": about | {"metrics": declared(benchmark, task)}})
    )
    return compute(path)


@pytest.mark.parametrize(("benchmark", "task"), [("sugarcrepe", "itm"), ("eqben", "groups"), ("sugarcrepe_pp", "tot")])
def test_one_of_several_configurations_fills_the_columns_of_its_category_alone(benchmark, task, tmp_path):
    configs = get_task(benchmark, task).configs
    whole, part = (results_of(benchmark, task, some, tmp_path / "a.parquet") for some in (configs, configs[:1]))
    columns = {entry.column for entry in of_results(whole)}
    first = configs[0].removeprefix("unrefined_")
    assert len({column.category for column in columns}) == 1 + len(configs)
    assert {entry.column for entry in of_results(part)} == {each for each in columns if each.category == first}
    assert (chance_levels(part), bool(chance_levels(whole))) == ([], True)
