"""Shared by tests of uploads and submissions: small predictions, changed copies of them, a storage in memory."""

import io
import json
import threading
from contextlib import contextmanager

import numpy as np
import pyarrow.parquet as pq
import pytest

from vl_assay.hub_datasets.toy_scenes import builder
from vl_assay.metrics.common.errors import StorageError
from vl_assay.model_wrappers import predict


class MemoryStorage:
    """The `Storage` protocol over a dictionary."""

    def __init__(self):
        self.files, self.lock = {}, threading.Lock()

    def paths(self, prefix=""):
        return sorted(path for path in list(self.files) if path.startswith(prefix))

    def read(self, path):
        if path not in self.files:
            raise StorageError(f"there is no {path}")
        return self.files[path]

    def add(self, files, message):
        with self.lock:
            if any(self.files.get(path, content) != content for path, content in files.items()):
                raise StorageError("other content is there")
            self.files.update(files)


class SmallToyScenes:
    """toy_scenes with 40 scenes in a cache of its own, and predictions of mocks on it."""

    def __init__(self, folder, patch):
        self.folder = folder
        patch.setenv("VL_ASSAY_CACHE", str(folder / "cache"))
        patch.setattr(builder, "SIZES", {"validation": 2, "test": 40})
        patch.setattr("vl_assay.hub_datasets.core.examples.shipped_build", lambda name: None)

    def path(self, task, mock="bag-of-words"):
        """The path of a mock's predictions on a task."""
        out = self.folder / mock
        predictions = out / f"toy_scenes.{task}.parquet"
        if not predictions.exists():
            predict(f"mock:{mock}", [f"toy_scenes/{task}"], out=out, progress=False)
        return predictions

    def predictions(self, task, mock="bag-of-words"):
        """The bytes of a mock's predictions on a task."""
        return self.path(task, mock).read_bytes()


@contextmanager
def small_toy_scenes(folder):
    """A `SmallToyScenes` that leaves no trace in the process."""
    with pytest.MonkeyPatch.context() as patch:
        yield SmallToyScenes(folder, patch)


def changed(content, metadata=None, rows=None, table=None):
    """Predictions with other metadata or rows (changed in place), or columns (a function returns a table)."""
    found = pq.read_table(io.BytesIO(content))
    described = json.loads(found.schema.metadata[b"vl_assay"])
    if rows:
        listed = found.to_pylist()
        rows(listed)
        found = type(found).from_pylist(listed, schema=found.schema)
        described["benchmark"]["rows"] = len(listed)
    if metadata:
        described = metadata(described) or described
    text = described if isinstance(described, str) else json.dumps(described)
    found = found.replace_schema_metadata({b"vl_assay": text.encode()})
    return parquet(table(found) if table else found)


def of_model(toy, number, task="vqa"):
    """Predictions on a task, by scores at random, of the model of that number."""
    rng = np.random.default_rng(number)

    def answer(rows):
        for row in rows:
            if task == "vqa":
                row.update(score=rng.random())
            else:
                row.update(scores=[[rng.random() for _ in scores] for scores in row["scores"]])

    def rename(metadata):
        metadata["model"].update(name=f"model {number}", is_baseline=False)

    return changed(toy.predictions(task, "shuffled"), rows=answer, metadata=rename)


def model_predictions(toy, folder, number):
    """The path of the predictions `of_model`."""
    path = folder / f"{number}.parquet"
    path.write_bytes(of_model(toy, number))
    return path


def parquet(table, **options):
    """An Arrow table as the bytes of a Parquet file."""
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()
