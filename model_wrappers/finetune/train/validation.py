"""Validation during training: benchmarks, recognition, and early stopping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ....hub_datasets import report
from ....hub_datasets.core.benchmarks import is_higher_better
from ....hub_datasets.core.build import data_errors
from ....metrics.common.errors import DataError, UnknownNameError, VLAssayError
from ....metrics.functional.kernels import match_scores
from ....metrics.records.results import Result
from ...engine.distributed import Processes
from ...engine.plan import DECODING_ERRORS, decode
from ...engine.runner import predict

RECOGNITION = "recognition/accuracy"
HUB = "hf://datasets/"
_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"}
_SPLITS = ("test", "validation")
_AT_ONCE = 64


@dataclass(frozen=True)
class Evaluation:
    """What to measure.

    Args:
        benchmarks: names or parts of benchmarks, such as ``"toy_scenes/itm"``; ``"toy_scenes/retrieval"`` gives recall.
        recognise: a folder with a folder of images for each label, or ``hf://datasets/owner/name[/config]`` with a
            column of labels: zero-shot classification, so that forgetting shows.
        templates: what a label is put into; the embeddings of several are averaged (Radford et al. 2021, 3.1.4).
        data_dir, options: of the benchmarks, as for `score`.
    """

    benchmarks: Sequence[str] = ()
    recognise: str | None = None
    templates: Sequence[str] = ("a photo of a {}.",)
    data_dir: str | Path | None = None
    options: Mapping[str, Any] | None = None

    def __bool__(self) -> bool:
        return bool(self.benchmarks or self.recognise)

    def asked(self) -> dict[str, Any]:
        """What is measured, for files; not where its sources lie."""
        return {name: getattr(self, name) for name in ("benchmarks", "recognise", "templates")}


@dataclass(frozen=True)
class Stopping:
    """When to stop early: after `patience` evaluations without a better value of a score; the best weights are kept."""

    score: str | None = None
    patience: int = 1

    def best(self, history: Sequence[Mapping[str, Any]]) -> int:
        """The place of the best evaluation in a history, of equal ones the first; the last where no score is named."""
        if self.score is None:
            return len(history) - 1
        values = [self._value(entry) for entry in history]
        return values.index(max(values))

    def says_stop(self, history: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the last `patience` evaluations brought nothing better."""
        return self.score is not None and bool(history) and len(history) - 1 - self.best(history) >= self.patience

    def _value(self, entry: Mapping[str, Any]) -> float:
        name = str(self.score)
        if name not in entry["scores"]:
            raise UnknownNameError("score to stop on", name, entry["scores"])
        value = entry["scores"][name]
        if name == RECOGNITION:
            return value
        benchmark, part, score = name.split("/", 2)
        return value if is_higher_better(benchmark, part, score) else -value


def evaluate(
    model: Any, evaluation: Evaluation, out: Path, processes: Processes, *, settings: Mapping[str, str] | None = None
) -> tuple[dict[str, float], list[Result]]:
    """Measure a model.

    Args:
        model: a dual encoder, or the name of one.
        evaluation: what to measure.
        out: the folder of its predictions.
        processes: those of the run, which share the work.
        settings: of the model's family, for one that is named.

    Returns:
        Scores by name (see `flat_scores`, and `RECOGNITION`); and the results they are from. Each process has
        them.
    """
    scores: dict[str, float] = {}
    results: list[Result] = []
    if evaluation.benchmarks:
        files = predict(
            model,
            evaluation.benchmarks,
            out=out,
            data_dir=evaluation.data_dir,
            options=evaluation.options,
            settings=settings,
            cache=False,
            progress=False,
        )
        processes.wait()  # until the main process has written them
        results = list(report(files))
        scores = flat_scores(results)
    if evaluation.recognise and not isinstance(model, str):
        scores[RECOGNITION] = recognition(model, evaluation.recognise, evaluation.templates, processes)
    return scores, results


def flat_scores(results: Sequence[Result]) -> dict[str, float]:
    """The scores that tables show, averaged over examples, by their predictions: ``toy_scenes/itm/accuracy``."""
    return {
        f"{Path(result.predictions['file']).stem.replace('.', '/', 1)}/{name}": result.scores[name]
        for result in results
        for name in result.table_scores
        if isinstance(result.scores.get(name), float)
    }


def recognition(encoder: Any, source: str, templates: Sequence[str], processes: Processes) -> float:
    """Zero-shot classification: the share of images whose own label has the highest cosine; a tie is wrong.

    Raises:
        DataError: no labels or images there, or an image that cannot be read.
    """
    with processes.raise_on_all_ranks():
        labels, images = labelled_images(source)
        if any("{}" not in template for template in templates):
            raise VLAssayError("a template has no {} for the label, as in 'a photo of a {}.'")
    tokens = encoder.prepare_captions([template.replace("{}", label) for label in labels for template in templates])
    parts = [encoder.encode_captions(tokens[at : at + _AT_ONCE]) for at in range(0, len(tokens), _AT_ONCE)]
    words = np.concatenate(parts).astype(np.float64).reshape(len(labels), len(templates), -1).mean(axis=1)
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    credits: list[float] = []
    with processes.raise_on_all_ranks():
        mine = images[processes.rank :: processes.world]
        for start in range(0, len(mine), _AT_ONCE):
            part = mine[start : start + _AT_ONCE]
            prepared = [encoder.prepare_image(_open(source, image)) for image, _ in part]
            cosines = encoder.encode_images(prepared).astype(np.float64) @ words.T
            credits += match_scores(cosines, [label for _, label in part]).values.tolist()
    if processes.world > 1:
        from accelerate.utils import gather_object

        credits = gather_object(credits)
    return float(np.mean(credits))


def labelled_images(source: str) -> tuple[list[str], list[tuple[Any, int]]]:
    """Names of labels, and images, each a path or what a dataset holds, with the number of its label."""
    labels, images = _hub_images(source) if source.startswith(HUB) else _folder_images(Path(source).expanduser())
    if len(labels) < 2 or not images:
        raise DataError(f"{source} has {len(labels)} labels and {len(images)} images; recognition needs two labels")
    return [label.replace("_", " ") for label in labels], images


def _folder_images(folder: Path) -> tuple[list[str], list[tuple[Any, int]]]:
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; name one that has a folder of images for each label")
    labels = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    files = [
        (file, number)
        for number, label in enumerate(labels)
        for file in sorted(label.iterdir())
        if file.suffix.lower() in _SUFFIXES
    ]
    return [label.name for label in labels], files


def _hub_images(source: str) -> tuple[list[str], list[tuple[Any, int]]]:
    import datasets

    owner, _, rest = source.removeprefix(HUB).partition("/")
    name, _, config = rest.partition("/")
    with data_errors(source):
        found: Any = datasets.load_dataset(f"{owner}/{name}", config or None)
        features = next(iter(found.values())).features
        label = next((key for key, kind in features.items() if isinstance(kind, datasets.ClassLabel)), None)
        image = next((key for key, kind in features.items() if isinstance(kind, datasets.Image)), None)
        if label is None or image is None:
            raise DataError(f"{source} has the columns {', '.join(features)}: no image, or no class label")
        for split in sorted(found, key=lambda name: _SPLITS.index(name) if name in _SPLITS else len(_SPLITS)):
            numbers = found[split].with_format("numpy")[label][:]
            if len(numbers) and min(numbers) >= 0:  # where labels are hidden they are -1
                rows = found[split].cast_column(image, datasets.Image(decode=False)).select_columns([image])
                return features[label].names, [((rows, place), int(n)) for place, n in enumerate(numbers)]
        raise DataError(f"{source} shows the labels of no split ({', '.join(found)}); recognition needs them")


def _open(source: str, image: Any) -> Image.Image:
    """An image: of a file, or of a place in the only column of a dataset."""
    name = str(image)
    try:
        if isinstance(image, Path):
            return decode(image.read_bytes())
        rows, place = image
        [picture] = rows[place].values()
        name = f"{picture['path']} (row {place})"
        return decode(picture["bytes"] if picture["bytes"] is not None else Path(picture["path"]).read_bytes())
    except DECODING_ERRORS as error:
        raise DataError(f"the image {name} of {source} cannot be read: {error}") from error


def named(encoder: Any, module: Any, name: str, revision: str) -> Any:
    """The encoder with a module as it is now, for scoring, under a name of its own."""
    info = replace(encoder.info, name=name, checkpoint=name, revision=revision)
    return encoder.holding(module.eval(), info)
