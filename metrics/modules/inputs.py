"""What every `evaluate` module does with its inputs before and after `evaluate` has had them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np

from ..common.errors import ScoresError, UnknownNameError, VLAssayError
from ..contract.spec import MetricFunction, MetricSpec
from ..functional.boxes import check_keys
from ..functional.kernels import refuse_unreal

if TYPE_CHECKING:
    from evaluate import EvaluationModule
else:  # `evaluate` takes the first of its classes that it finds in a module's file for the module
    EvaluationModule = object


class CheckedInputs(EvaluationModule):
    """A mix-in for `evaluate` modules; its class stands before ``evaluate.Metric`` among the bases.

    `evaluate` turns true into 1 and 0.7 into 0, answers rows that it cannot write with errors that name neither row nor
    cure, keeps the format of a batch that it refused, and looks for options in no list. So what it cannot carry is
    refused before, in the words of the function that judges, and what it refused leaves no trace.

    Attributes:
        spec: the metric's specification. Its function takes the features' columns, in their order, and the options.
    """

    spec: MetricSpec

    @property
    def function(self) -> MetricFunction:
        """The metric as a plain function."""
        return self.spec.function

    def compute(self, **arguments: Any) -> dict[str, Any] | None:
        """Judge; the arguments are the features' columns and the options of `function`."""
        known = [*self._feature_names(), *option_names(self.function)]
        for name in arguments:
            if name not in known and name not in ("predictions", "references"):
                raise UnknownNameError("option", name, known)
        if self.writer is None:
            for name in self._feature_names():
                if arguments.get(name) is None:
                    raise ScoresError(f"{name} are missing; pass one for each example")
        return super().compute(**arguments)

    def add(self, **example: Any) -> None:
        """Add one example, as a batch of one."""
        names = {"prediction": "predictions", "reference": "references"}
        self.add_batch(**{names.get(name, name): [value] for name, value in example.items()})

    def add_batch(self, **batch: Any) -> None:
        """Add examples; where they cannot be judged, nothing of them stays behind."""
        names = self._feature_names()
        for name, column in batch.items():
            if name not in names and column is not None:
                raise UnknownNameError("input", name, names)
        batch = {name: _listed(batch.get(name), name) for name in names}
        is_first = self.writer is None
        try:
            self.refuse(batch)
            super().add_batch(**batch)
        except Exception as error:
            if is_first:
                self._forget()
            if isinstance(error, VLAssayError):
                raise
            # The function names the row and the cure; `evaluate` names neither.
            self.function(*batch.values())
            raise ScoresError(f"`evaluate` cannot take these inputs: {error}") from error

    def refuse(self, batch: dict[str, Any]) -> None:
        """Raise a `ScoresError` for what `evaluate` would change without notice.

        That is text and complex numbers in the place of real ones, and booleans that stand for columns.
        """
        features = self._infer_feature_from_batch(batch)
        for name, rows in batch.items():
            if "string" not in str(features[name]):
                refuse_unreal(rows, name)
        if self.has_indices(batch) and any(_is_boolean(row) for row in batch.get("references", [])):
            raise ScoresError(
                "the references are booleans, which could mean either caption; pass the column of the correct caption, "
                "0 or 1"
            )

    def has_indices(self, batch: dict[str, Any]) -> bool:
        """Whether the references are columns of captions."""
        return self.spec.task_type in ("matching", "retrieval", "text")

    def _forget(self) -> None:
        if self.filelock is not None:
            self.filelock.release()
        self.filelock = self.cache_file_name = self.writer = self.buf_writer = self.selected_feature_format = None

    def _infer_feature_from_batch(self, batch: dict[str, Any]) -> Any:
        # `evaluate` looks at the first row to choose between formats; an empty batch has none.
        if isinstance(self.features, list) and not len(batch["references"]):
            return self.features[0]
        return super()._infer_feature_from_batch(batch)

    def _compute(self, **inputs: Any) -> dict[str, Any]:
        columns = [inputs.pop(name) for name in self._feature_names()]
        return self.function(*columns, **inputs)


class BoxInputs(CheckedInputs):
    """Rows of boxes: other keys than those of the features are refused with the row's number."""

    def refuse(self, batch: dict[str, Any]) -> None:
        """Raise a `ScoresError` for a row that is no mapping, or with a key missing or too many."""
        for side, rows in batch.items():
            check_keys(list(rows), side)


def option_names(function: Callable[..., Any]) -> list[str]:
    """The options of a metric's function: its keyword arguments, those of an unpacked mapping spelt out."""
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            [options] = get_args(get_type_hints(function)[parameter.name])
            names += options.__annotations__
        elif parameter.kind is parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    return names


def _listed(column: Any, name: str) -> Any:
    """A column as `evaluate` can walk it: a filtered pandas column has no row 0."""
    if column is None:
        raise ScoresError(f"{name} are missing; pass one for each example")
    if type(column).__module__.startswith("pandas"):
        return list(column)
    if not isinstance(column, Iterable):
        raise ScoresError(f"{name} are one {type(column).__name__}; pass a list with one entry for each example")
    return column


def _is_boolean(row: Any) -> bool:
    values = row if isinstance(row, list | tuple) else [row]
    return any(isinstance(value, bool | np.bool_) or "bool" in str(getattr(value, "dtype", "")) for value in values)
