"""What holds for every benchmark, from its sources to results: build, load, score, judge."""

from __future__ import annotations

import importlib

import datasets
import pytest

from vl_assay.hub_datasets import benchmark_names, build, get_benchmark, judge
from vl_assay.metrics.sheets import read_sheet
from vl_assay.model_wrappers import score

NAMES = benchmark_names()
EVERY = pytest.mark.parametrize("name", NAMES)


def default_configs(name):
    return [config for task in get_benchmark(name).tasks if task.by_default for config in task.configs]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A function that lays out small sources of a benchmark, once: their folder, and the options to build with."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name] = folder, importlib.import_module(f"sources_{name}").make(folder)
        return made[name]

    return make


def data_dir(name, folder):
    return folder if get_benchmark(name).source else None


@EVERY
def test_a_build_loads_the_same_plain_and_streaming(name, sources, tmp_path):
    folder, options = sources(name)
    configs = default_configs(name)
    out = build(name, tmp_path / name, configs=configs, data_dir=data_dir(name, folder), options=options)
    split = get_benchmark(name).split
    for config in configs:
        plain = datasets.load_dataset(str(out), config, split=split)
        ids = [row["id"] for row in datasets.load_dataset(str(out), config, split=split, streaming=True)]
        assert plain["id"] == ids
        assert len(set(ids)) == len(ids) > 0


@EVERY
def test_the_mocks_are_scored_and_judged(name, sources, tmp_path):
    folder, options = sources(name)
    for mock in ("shuffled", "constant"):
        sheets = score(
            f"mock:{mock}",
            [name],
            data_dir=data_dir(name, folder),
            options=options,
            out=tmp_path / mock,
            progress=False,
        )
        tasks = [task for task in get_benchmark(name).tasks if task.by_default]
        results = judge(sheets, resamples=100)
        assert [result.metric for result in results] == [metric for task in tasks for metric in task.metrics]
        assert all(result.scores["n"] > 0 for result in results)
        assert sum(len(read_sheet(sheet).rows) for sheet in sheets) > 0
        if mock == "constant":
            # A box around everything is right or wrong, and no answer is wrong, without a tie.
            kinds = {task.name: task.kind for task in tasks}
            pairs = [each for each in results if kinds[each.benchmark["task"]] in ("matching", "retrieval")]
            rates = [value for result in pairs for key, value in result.scores.items() if key.endswith("tie_rate")]
            assert set(rates) == {1.0}
