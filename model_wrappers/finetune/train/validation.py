"""Validation during training and early stopping: scores on benchmarks, and zero-shot classification."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ....hub_datasets import report
from ....hub_datasets.authoring.data.tables import HUB, hub_name
from ....hub_datasets.core.benchmarks import is_higher_better
from ....hub_datasets.core.build import data_errors
from ....hub_datasets.core.images import DECODING_ERRORS, decode
from ....metrics.common.errors import DataError, UnknownNameError, VLAssayError
from ....metrics.functional.matching import match_scores
from ....metrics.records.results import Result
from ...engine.distributed import Processes
from ...engine.runner import predict

# What the command measures unless it is told otherwise: it needs no network.
DEFAULT_EVALUATION = ("toy_scenes/itm",)
RECOGNITION = "recognition/accuracy"
_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"}
_SPLITS = ("test", "validation")
_BATCH = 64


@dataclass(frozen=True)
class Evaluation:
    """What is measured during training.

    Args:
        benchmarks: names or parts of benchmarks, such as ``"toy_scenes/itm"``.
        recognise: images for zero-shot classification, which shows forgetting: a folder with a folder of images for
            each label, or ``hf://datasets/owner/name[/config]`` with a column of labels.
        templates: prompts for a label; the embeddings of several are averaged (Radford et al. 2021, 3.1.4).
        data_dir, options: of the benchmarks, as for `predict`.
    """

    benchmarks: Sequence[str] = ()
    recognise: str | None = None
    templates: Sequence[str] = ("a photo of a {}.",)
    data_dir: str | Path | None = None
    options: Mapping[str, Any] | None = None

    def __bool__(self) -> bool:
        return bool(self.benchmarks or self.recognise)

    def as_json(self) -> dict[str, Any]:
        """What is measured, without the location of the benchmarks' sources."""
        return {name: getattr(self, name) for name in ("benchmarks", "recognise", "templates")}

    def measure(
        self, model: Any, out: Path, processes: Processes, *, settings: Mapping[str, str] | None = None
    ) -> tuple[dict[str, float], list[Result]]:
        """Measure a model.

        Args:
            model: a dual encoder, or the name of one, which is measured on the benchmarks only.
            out: the folder of its predictions.
            processes: those of the run, which share the work.
            settings: of the family of a model given by its name.

        Returns:
            Scores by name, those that tables show, such as ``toy_scenes/itm/accuracy``, and `RECOGNITION`; and the
            results of the benchmarks. In every process.
        """
        scores: dict[str, float] = {}
        results: list[Result] = []
        if self.benchmarks:
            files = predict(
                model,
                self.benchmarks,
                out=out,
                data_dir=self.data_dir,
                options=self.options,
                settings=settings,
                cache=False,
                progress=False,
            )
            processes.wait()  # until the main process has written them
            results = list(report(files, parts=False))
            scores = {
                f"{Path(result.predictions['file']).stem.replace('.', '/', 1)}/{name}": result.scores[name]
                for result in results
                for name in result.table_scores
                if isinstance(result.scores.get(name), float)
            }
        if self.recognise and not isinstance(model, str):
            scores[RECOGNITION] = recognition(model, self.recognise, self.templates, processes)
        return scores, results


@dataclass(frozen=True)
class Stopping:
    """Early stopping: after `patience` evaluations without a better score; the best weights are kept."""

    score: str | None = None
    patience: int = 1

    def best(self, history: Sequence[Mapping[str, Any]]) -> int:
        """The index of the best evaluation, the first of equal ones; the last where no score is named."""
        if self.score is None:
            return len(history) - 1
        values = [self._value(entry) for entry in history]
        return values.index(max(values))

    def should_stop(self, history: Sequence[Mapping[str, Any]]) -> bool:
        """Whether none of the last `patience` evaluations is the best."""
        return self.score is not None and bool(history) and len(history) - 1 - self.best(history) >= self.patience

    def _value(self, entry: Mapping[str, Any]) -> float:
        name = str(self.score)
        if name not in entry["scores"]:
            raise UnknownNameError("score to stop on", name, entry["scores"])
        value = entry["scores"][name]
        if math.isnan(value):
            return -math.inf
        if name == RECOGNITION:
            return value
        benchmark, part, score = name.split("/", 2)
        return value if is_higher_better(benchmark, part, score) else -value


def recognition(encoder: Any, source: str, templates: Sequence[str], processes: Processes) -> float:
    """Zero-shot accuracy: the share of images whose own label has the highest cosine; ties are wrong.

    Raises:
        DataError: no labels or images, or an image that cannot be read.
        VLAssayError: a template without ``{}``.
    """
    with processes.raise_on_all_ranks():
        # Names of labels; and images (paths, or datasets with a row) with the index of their label.
        labels, images = _hub_images(source) if source.startswith(HUB) else _folder_images(Path(source).expanduser())
        if len(labels) < 2 or not images:
            raise DataError(f"{source} has {len(labels)} labels and {len(images)} images; recognition needs two labels")
        if any("{}" not in template for template in templates):
            raise VLAssayError("a template has no {} for the label, as in 'a photo of a {}.'")
    texts = [template.replace("{}", label.replace("_", " ")) for label in labels for template in templates]
    tokens = encoder.prepare_captions(texts)
    parts = [encoder.encode_captions(tokens[start : start + _BATCH]) for start in range(0, len(tokens), _BATCH)]
    prompts = np.concatenate(parts).astype(np.float64).reshape(len(labels), len(templates), -1).mean(axis=1)
    prompts /= np.linalg.norm(prompts, axis=1, keepdims=True)
    scores: list[float] = []
    with processes.raise_on_all_ranks():
        mine = images[processes.rank :: processes.world]
        for start in range(0, len(mine), _BATCH):
            part = mine[start : start + _BATCH]
            prepared = [encoder.prepare_image(_open(source, image)) for image, _ in part]
            cosines = encoder.encode_images(prepared).astype(np.float64) @ prompts.T
            scores += match_scores(cosines, [label for _, label in part]).values.tolist()
    if processes.world > 1:
        from accelerate.utils import gather_object

        scores = gather_object(scores)
    return float(np.mean(scores))


def _folder_images(folder: Path) -> tuple[list[str], list[tuple[Any, int]]]:
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; name one that has a folder of images for each label")
    labels = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    files = [
        (file, index)
        for index, label in enumerate(labels)
        for file in sorted(label.iterdir())
        if file.suffix.lower() in _SUFFIXES
    ]
    return [label.name for label in labels], files


def _hub_images(source: str) -> tuple[list[str], list[tuple[Any, int]]]:
    import datasets

    with data_errors(source):
        found: Any = datasets.load_dataset(*hub_name(source))
        features = next(iter(found.values())).features
        label = next((key for key, kind in features.items() if isinstance(kind, datasets.ClassLabel)), None)
        image = next((key for key, kind in features.items() if isinstance(kind, datasets.Image)), None)
        if label is None or image is None:
            raise DataError(f"{source} has the columns {', '.join(features)}: no image, or no class label")
        for split in sorted(found, key=lambda name: _SPLITS.index(name) if name in _SPLITS else len(_SPLITS)):
            indices = found[split].with_format("numpy")[label][:]
            if len(indices) and min(indices) >= 0:  # hidden labels are -1
                rows = found[split].cast_column(image, datasets.Image(decode=False)).select_columns([image])
                return features[label].names, [((rows, row), int(index)) for row, index in enumerate(indices)]
        raise DataError(f"{source} shows the labels of no split ({', '.join(found)}); recognition needs them")


def _open(source: str, image: Any) -> Image.Image:
    """An image from its file, or from a row of a dataset with that column alone."""
    name = str(image)
    try:
        if isinstance(image, Path):
            return decode(image.read_bytes())
        rows, row = image
        [picture] = rows[row].values()
        name = f"{picture['path']} (row {row})"
        return decode(picture["bytes"] if picture["bytes"] is not None else Path(picture["path"]).read_bytes())
    except DECODING_ERRORS as error:
        raise DataError(f"the image {name} of {source} cannot be read: {error}") from error
