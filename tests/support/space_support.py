"""A leaderboard that is served for a test: its address, its storage and what it shows."""

from __future__ import annotations

from contextlib import contextmanager
from typing import NamedTuple

import pytest

from vl_assay.hub_datasets.core.benchmarks import benchmark_names, get_benchmark
from vl_assay.space_app import app
from vl_assay.space_app.board import catalogue as _catalogue
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import RECOMPUTED, Entry
from vl_assay.space_app.storage.storage import Storage, open_storage


class Served(NamedTuple):
    address: str
    folder: str
    storage: Storage
    catalogue: Catalogue


@contextmanager
def served(folder):
    """The leaderboard of an empty folder."""
    storage = open_storage(str(folder))
    catalogue = Catalogue(storage)
    blocks = app.build(catalogue)
    _, address, _ = app.launch(blocks, prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    try:
        yield Served(address.rstrip("/"), str(folder), storage, catalogue)
    finally:
        blocks.close(verbose=False)


@contextmanager
def many_models(models, tasks):
    """For every catalogue made from now on: more models, with scores of so many tasks but no predictions."""
    every = [
        (name, task.name, next(iter(task.metrics))) for name in benchmark_names() for task in get_benchmark(name).tasks
    ]
    entries = [
        Entry(
            model=f"model {number}",
            family=f"family {number % 20}",
            parameters=10**6 * (number % 1500 + 1),
            training_data=f"data {number % 7}",
            benchmark=benchmark,
            task=task,
            metric=metric,
            score="macro_accuracy",
            category="",
            value=(37 * number % 1009 + place) / 1200,
            interval=((37 * number % 1009) / 1200, (37 * number % 1009 + 100) / 1200),
            n=1000,
            origin=RECOMPUTED,
            source="made for a test",
            status="accepted",
            predictions="",
        )
        for number in range(models)
        for place, (benchmark, task, metric) in enumerate(every[:tasks])
    ]
    with pytest.MonkeyPatch.context() as patch:
        published = _catalogue.published
        patch.setattr(_catalogue, "published", lambda: [*published(), *entries])
        yield
