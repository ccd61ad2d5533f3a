"""Files of answers as several test files write them, and the benchmarks that they answer."""

from __future__ import annotations

import csv
import importlib
import io
import itertools
import json

import pytest
from support import UNVERIFIED

from vl_assay.hub_datasets import get_benchmark, load_examples, report
from vl_assay.model_wrappers import predict


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A function that lays out small sources of a benchmark, once."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            importlib.import_module(f"sources_{name}").make(folder)
            made[name] = folder
        return made[name]

    return make


@pytest.fixture
def run(sources, tmp_path):
    """A function that scores a model, or a text as file, on a part of a benchmark and returns the predictions' path."""

    def run_on(model, reference, *, out="out", ending=".csv", **settings):
        name = reference.partition("/")[0]
        if not model.startswith(("mock:", "precomputed:")):
            (tmp_path / f"said{ending}").write_text(model, encoding="utf-8")
            model = f"precomputed:{tmp_path}/said{ending}"
        folder = sources(name) if get_benchmark(name).source else None
        [path] = predict(
            model, reference, out=tmp_path / out, data_dir=folder, options=UNVERIFIED if folder else {},
            settings=settings, progress=False,
        )  # fmt: skip
        return path

    return run_on


def table(rows):
    """Records as CSV; values that are not texts or numbers in JSON."""
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(
        {key: json.dumps(value) if isinstance(value, list) else value for key, value in row.items()} for row in rows
    )
    return file.getvalue()


def lines(rows):
    return "\n\n".join(map(json.dumps, rows))


def by_id(rows):
    return json.dumps({row["id"]: {key: value for key, value in row.items() if key != "id"} for row in rows})


WRITERS = {".csv": table, ".jsonl": lines, ".json": json.dumps, ".txt": by_id}


def results_of(path):
    """All results without what names the model, the file and the run."""
    return [(result.metric, result.scores) for result in report(path, resamples=100)]


def rounded(results):
    return json.loads(json.dumps(results), parse_float=lambda text: round(float(text), 9))


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


def task_of(reference, sources):
    name = reference.partition("/")[0]
    [task] = load_examples(reference, data_dir=sources(name), options=UNVERIFIED, needs_images=False)
    return task


def swap_obj(sources):
    return [example.id for example in task_of("sugarcrepe/swap_obj", sources).examples]
