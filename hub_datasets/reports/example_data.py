"""Captions and thumbnails of the examples of predictions, if the benchmark's data are available locally."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ...metrics.common.errors import DataError, UnknownNameError, VLAssayError
from ...metrics.common.storage import with_home
from ...metrics.records.predictions import Predictions
from ...metrics.results.errors.outcomes import ExampleData, Thumbnail
from ..core.benchmarks import get_benchmark, get_task
from ..core.examples import Example, TaskData, is_cached, load_examples
from ..core.image_keys import MISSING
from ..core.images import DECODING_ERRORS, thumbnail
from ..core.repository import BUILD_FILE

_SIDE = 192
_THREADS = 4


def example_data(
    predictions: Predictions, data_dir: str | Path | None = None, *, images: bool = True, adopted: str = ""
) -> ExampleData:
    """Load the captions and images of the examples of predictions; images are never downloaded.

    Args:
        predictions: they name the benchmark, its task, its options and its fingerprint.
        data_dir: the user's copy of the sources, or a folder that `build` wrote.
        images: whether to look for images.
        adopted: a benchmark whose builder looks for its images, even if it has to build its datasets again.

    Returns:
        The loaded data; its note names what is missing, and why.

    Raises:
        DataError: the folder `data_dir` does not exist.
    """
    if data_dir is not None and not with_home(data_dir).is_dir():
        raise DataError(f"the data folder {data_dir} is not a folder")
    note = ""
    if images:
        try:
            if data_dir is None and predictions.benchmark != adopted and not _is_here(predictions):
                raise DataError("give the folder of the images (--data-dir)")
            return describe(_load_predicted(predictions, data_dir, needs_images=True))
        except (VLAssayError, OSError) as error:
            note = f"shown without images: {error}"
    try:
        return ExampleData(describe(_load_predicted(predictions, data_dir, needs_images=False)).captions, note=note)
    except UnknownNameError:
        name = predictions.benchmark
        return ExampleData(note=f"shown without captions and images: give the folder of {name} as --data-dir")
    except (VLAssayError, OSError) as error:
        return ExampleData(note=f"shown without captions and images: {error}")


def describe(tasks: Sequence[TaskData]) -> ExampleData:
    """Return the captions and images of all examples of tasks, with thumbnails of at most 192 pixels a side."""
    examples: dict[str, Example] = {}
    home: dict[str, TaskData] = {}
    for task in tasks:
        for example in task.examples:
            examples[example.id] = example
            home |= dict.fromkeys(example.images, task)
    keys = {id: [key for key in example.images if key != MISSING] for id, example in examples.items()}

    def thumbnails(wanted: Collection[str]) -> Mapping[str, Thumbnail]:
        known = [key for key in wanted if key in home]
        with ThreadPoolExecutor(_THREADS) as pool:
            made = pool.map(lambda key: _picture(home[key], key), known)
            return {key: picture for key, picture in zip(known, made, strict=True) if picture is not None}

    return ExampleData({id: example.captions for id, example in examples.items()}, keys, thumbnails)


def _is_here(predictions: Predictions) -> bool:
    """Return whether the images are generated, or in the cache."""
    task = get_task(predictions.benchmark, predictions.task)
    is_generated = not get_benchmark(predictions.benchmark).source
    return is_generated or is_cached(predictions.benchmark, _configs(predictions, task.configs), _options(predictions))


def _load_predicted(predictions: Predictions, data_dir: str | Path | None, *, needs_images: bool) -> list[TaskData]:
    """Load the data of the task of predictions, see `example_data`; raise a `DataError` if they differ."""
    task = get_task(predictions.benchmark, predictions.task)
    configs = _configs(predictions, task.configs)
    built = data_dir is not None and (with_home(data_dir) / BUILD_FILE).is_file()
    parts = [task.name] if list(configs) == list(task.configs) else configs
    references = (
        [str(Path(str(data_dir)).absolute())] if built else [f"{predictions.benchmark}/{config}" for config in parts]
    )
    about = predictions.metadata["benchmark"]
    options: dict[str, Any] = {"options": _options(predictions), "data_dir": data_dir, "needs_images": needs_images}
    how = {"limit": about.get("limit")} | ({} if built else options)
    loaded = [data for name in references for data in load_examples(name, **how)]
    matching = [data for data in loaded if data.task.name == task.name or not built]
    if not matching:
        raise DataError(f"{data_dir} does not hold the task {task.name} of {predictions.benchmark}")
    theirs = about.get("fingerprint")
    if theirs is not None and len(matching) == 1 and theirs != matching[0].fingerprint:
        raise DataError("the benchmark's data here are others than those of the predictions (fingerprints differ)")
    return matching


def _configs(predictions: Predictions, known: Collection[str]) -> list[str]:
    configs = predictions.metadata["benchmark"].get("configs")
    return [str(config) for config in configs] if isinstance(configs, list) and configs else list(known)


def _options(predictions: Predictions) -> Mapping[str, Any]:
    """Return the options with which the data were built."""
    about = predictions.metadata["benchmark"]
    options = about.get("options")
    recorded = options if isinstance(options, dict) else {}
    return recorded | ({"allow_missing": True} if about["missing"] else {})


def _picture(task: TaskData, key: str) -> Thumbnail | None:
    """Return a thumbnail; None for an image that cannot be decoded."""
    try:
        content, width, height = thumbnail(task.image_bytes(key), _SIDE)
    except (DataError, *DECODING_ERRORS):
        return None
    return Thumbnail(f"data:image/jpeg;base64,{base64.b64encode(content).decode('ascii')}", width, height)
