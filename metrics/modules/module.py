"""The base class of the `evaluate` modules: it derives features, descriptions and input checks from the metric."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

import datasets
import evaluate
import numpy as np
from datasets.features.features import cast_to_python_objects

from ..common.errors import ScoresError, VLAssayError, check_known
from ..estimation.aggregate import flatten, label_names, option_names
from ..estimation.checks import check_real, check_unmasked
from ..estimation.spec import MetricSpec
from ..functional.boxes import check_keys
from .discovery import citation, column_names, describe

if TYPE_CHECKING:
    from evaluate import EvaluationModule
else:  # `evaluate` loads the first of its classes that it finds in a script
    EvaluationModule = object

# Indices and answers too are float64: as int64 0.9 would become 0 without notice.
_NUMBER, _TEXT = datasets.Value("float64"), datasets.Value("string")
_NUMBERS = datasets.Sequence(_NUMBER)
_BOXES = {"boxes": datasets.Sequence(_NUMBERS), "phrase_ids": _NUMBERS}


class MetricModule(EvaluationModule):
    """A mix-in that turns a metric into an `evaluate` module; it comes before ``evaluate.Metric`` among the bases.

    `evaluate` converts true to 1 and 0.7 to 0, reports neither the row nor the remedy for rows that it cannot write,
    keeps the format of a rejected batch, and ignores unknown options. This class rejects such inputs first, with the
    message of the metric's function, and without side effects.

    Attributes:
        spec: the metric's specification. Its function takes the columns of the features, in their order, and options.
        papers, code: addresses of the papers and of their code.
    """

    spec: MetricSpec
    papers: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    # What came with the examples that were added, by option.
    _labels: Mapping[str, list[Any]] = {}

    @property
    def function(self) -> Callable[..., dict[str, Any]]:
        """The metric as a plain function."""
        return self.spec.function

    @property
    def name(self) -> str:
        """The metric's name, for ``evaluate.combine``; `evaluate` would derive "sugar_crepe_itm" from the class."""
        return type(self).__module__.rpartition(".")[2]

    def _info(self) -> evaluate.EvaluationModuleInfo:
        kind = type(self)
        info = evaluate.ComparisonInfo if isinstance(self, evaluate.Comparison) else evaluate.MetricInfo
        summary, _, examples = inspect.cleandoc(kind.__doc__ or "").partition("\n\nExamples:\n")
        return info(
            description=inspect.cleandoc(sys.modules[kind.__module__].__doc__ or ""),
            inputs_description=f"{summary}\n\n{describe(self.function)}\n\nExamples:\n{examples}",
            citation=citation(self.name),
            features=_features(self.spec),
            reference_urls=list(kind.papers),
            codebase_urls=list(kind.code),
        )

    def compute(self, *, flat: bool = False, **arguments: Any) -> dict[str, Any] | None:
        """Compute the metric from the arguments, or from the examples that were added.

        Args:
            flat: whether to return numbers on one level, such as ``accuracy/swap_obj``; see ``aggregate.flatten``.
            arguments: the columns of the features and the options of `function`.
        """
        result = self._compute_nested(arguments)
        return flatten(result) if flat and result is not None else result

    def _compute_nested(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        known = [*self._feature_names(), *option_names(self.function)]
        # ``evaluate.combine`` passes both to every module, as None where it was given none.
        for name in ("predictions", "references"):
            if arguments.get(name, 0) is None:
                del arguments[name]
        check_known("option", arguments, known)
        if self.writer is not None:
            if twice := sorted({*self._labels} & {*arguments}):
                raise ScoresError(f"{', '.join(twice)} came with the examples and again; pass them once")
            labels, self._labels = self._labels, {}
            return super().compute(**arguments, **labels)
        batch = {name: _listed(arguments.pop(name, None), name) for name in self._feature_names()}
        if self.num_process > 1:
            return super().compute(**batch, **arguments)
        # All examples are here: what `evaluate` would write to Arrow and read again would be the same.
        with self._rejected(batch):
            self._check(batch)
        return self.function(*batch.values(), **arguments)

    def add(self, **example: Any) -> None:
        """Add one example, as a batch of one."""
        names = {"prediction": "predictions", "reference": "references"}
        self.add_batch(**{names.get(name, name): [value] for name, value in example.items()})

    def add_batch(self, **batch: Any) -> None:
        """Add examples with their labels, such as ``categories``; a rejected batch leaves nothing behind.

        Raises:
            ScoresError: inputs that the metric does not take, or labels that only some batches have, that are fewer or
                more than the examples, or that several processes would have to share.
        """
        names, possible = self._feature_names(), label_names(self.function)
        given = {name: column for name, column in batch.items() if column is not None}
        check_known("input", given, [*names, *possible])
        batch = {name: _listed(batch.get(name), name) for name in names}
        labels = {name: _listed(column, name) for name, column in given.items() if name in possible}
        is_first = self.writer is None
        try:
            with self._rejected(batch):
                self._check(batch)
                self._check_labels(labels, len(next(iter(batch.values()))), is_first)
                super().add_batch(**batch)
        except Exception:
            if is_first:
                self._forget()
            raise
        self._labels = {name: [*(() if is_first else self._labels[name]), *column] for name, column in labels.items()}

    def _check_labels(self, labels: dict[str, Any], examples: int, is_first: bool) -> None:
        if labels and self.num_process > 1:
            raise ScoresError(f"{', '.join(labels)} of several processes are not gathered; pass them to compute")
        for name, column in labels.items():
            if len(column) != examples:
                raise ScoresError(f"there are {len(column)} {name} for {examples} examples; pass one for each")
        if not is_first and {*labels} != {*self._labels}:
            before, now = (", ".join(sorted(names)) or "no labels" for names in (self._labels, labels))
            raise ScoresError(f"earlier batches have {before}, and this one {now}; give every batch the same")

    @contextmanager
    def _rejected(self, batch: dict[str, Any]) -> Iterator[None]:
        """Replace errors of `evaluate`, which name neither row nor remedy, by the error of the metric's function."""
        try:
            yield
        except VLAssayError:
            raise
        except Exception as error:
            self.function(*batch.values())
            raise ScoresError(f"`evaluate` cannot take these inputs: {error}") from error

    def _check(self, batch: dict[str, Any]) -> None:
        """Raise a `ScoresError` for values that `evaluate` would convert silently: text, complex numbers, booleans."""
        if self.spec.task_type == "detection":
            for side, rows in batch.items():
                check_keys(list(rows), side)
            return
        features = self._infer_feature_from_batch(batch)
        for name, rows in batch.items():
            if "string" not in str(features[name]):
                check_real(rows, name)
        if self.has_indices(batch) and any(_is_boolean(row) for row in batch.get("references", [])):
            raise ScoresError(
                "the references are booleans, which could mean either caption; pass the column of the correct caption, "
                "0 or 1"
            )

    def has_indices(self, batch: dict[str, Any]) -> bool:
        """Return whether the references are column indices of captions."""
        return self.spec.task_type in ("matching", "retrieval", "text")

    def _forget(self) -> None:
        if self.filelock is not None:
            self.filelock.release()
        self._labels = {}
        self.filelock = self.cache_file_name = self.writer = self.buf_writer = self.selected_feature_format = None

    def _infer_feature_from_batch(self, batch: dict[str, Any]) -> Any:
        # `evaluate` looks at the first row to choose between formats; an empty batch has none.
        if isinstance(self.features, list) and not len(batch["references"]):
            return self.features[0]
        return super()._infer_feature_from_batch(batch)

    def _compute(self, **inputs: Any) -> dict[str, Any]:
        columns = [inputs.pop(name) for name in self._feature_names()]
        return self.function(*columns, **inputs)


def _features(spec: MetricSpec) -> datasets.Features | list[datasets.Features]:
    """Return the possible feature formats of the inputs; `evaluate` selects one for each batch."""
    names = ("predictions1", "predictions2") if spec.task_type == "comparison" else ("predictions", "references")
    kinds: Any = {
        "detection": [({**_BOXES, "scores": _NUMBERS}, _BOXES)],
        "retrieval": product([_NUMBERS], (_NUMBERS, _NUMBER)),
        "vqa": product((_NUMBER, _TEXT), repeat=2),
        "comparison": product((_NUMBER, _NUMBERS), repeat=2),
        "groups": [(datasets.Sequence(_NUMBERS),)],
    }.get(spec.task_type, [(_NUMBERS, _NUMBER)[: len(column_names(spec.function))]])
    further = {"references": _NUMBER} if spec.task_type == "comparison" else {}
    features = [
        datasets.Features(dict(zip(names, kinds_of_columns, strict=False)) | further) for kinds_of_columns in kinds
    ]
    return features if len(features) > 1 else features[0]


def _listed(column: Any, name: str) -> Any:
    """Return a column as a list; NumPy cannot read filtered pandas columns, or tensors with gradients or bfloat16."""
    if column is None:
        raise ScoresError(f"{name} are missing; pass one for each example")
    check_unmasked(column, name)
    if type(column).__module__.startswith(("pandas", "datasets")):
        return list(column)
    if not isinstance(column, Iterable):
        raise ScoresError(f"{name} are one {type(column).__name__}; pass a list with one entry for each example")
    return cast_to_python_objects(column)


def _is_boolean(row: Any) -> bool:
    values = row if isinstance(row, list | tuple) else [row]
    return any(isinstance(value, bool | np.bool_) or "bool" in str(getattr(value, "dtype", "")) for value in values)
