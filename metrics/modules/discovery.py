"""The metrics: one folder each, found by listing.

A folder holds ``spec.py``, with a constant ``SPEC`` that says all that the rest needs to know of the metric (see
``contract.MetricSpec``), and the `evaluate` module of the folder's name.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ..common.errors import UnknownNameError
from ..contract.aggregate import SummaryOptions
from ..contract.spec import MetricFunction, MetricSpec

if TYPE_CHECKING:
    import evaluate

_METRICS = Path(__file__).parents[1]
_PACKAGE = __package__.rpartition(".")[0]


class Texts(TypedDict):
    """What an `evaluate` module says of itself."""

    description: str
    inputs_description: str


def metric_names() -> list[str]:
    """The names of all metric modules, sorted."""
    return sorted(path.stem for path in _METRICS.glob("*/*.py") if path.stem == path.parent.name)


def get_spec(name: str) -> MetricSpec:
    """The specification of a metric; `UnknownNameError` lists the known ones. Imports no `evaluate`."""
    _check(name)
    return importlib.import_module(f"{_PACKAGE}.{name}.spec").SPEC


def load_metric(name: str) -> evaluate.EvaluationModule:
    """The `evaluate` module of that name, straight from this package: what ``evaluate.load`` gives after `install`.

    Raises:
        UnknownNameError: no such metric; the message lists the known ones.
    """
    import evaluate

    _check(name)
    module = importlib.import_module(f"{_PACKAGE}.{name}.{name}")
    module_class = next(
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, evaluate.EvaluationModule)
    )
    # In memory: after an error `evaluate` keeps its cache file locked and the next call would wait for it.
    return module_class(keep_in_memory=True)


def install_metric(name: str) -> Path:
    """Make ``evaluate.load(name)`` work from any folder, offline: fill the cache where it looks.

    Returns:
        The folder that was filled.
    """
    from evaluate.config import HF_MODULES_CACHE

    _check(name)
    script = _METRICS / name / f"{name}.py"
    # A comparison too lies under "metrics" there: `evaluate` looks no further for a module without a type.
    home = Path(HF_MODULES_CACHE) / "evaluate_modules" / "metrics" / f"evaluate-metric--{name}"
    target = home / hashlib.sha256(script.read_bytes()).hexdigest()
    target.mkdir(parents=True, exist_ok=True)
    # A plain copy, not one that keeps the time of change: of several versions `evaluate` takes the newest.
    shutil.copyfile(script, target / script.name)
    return target


def describe(module_class: type[Any]) -> Texts:
    """What an `evaluate` module says of itself: the docstrings of its file, of its class and of the metric's function.

    The class says what the metric is, with examples; arguments, results and errors are those of the function, under the
    names of the module's inputs. A class that describes its own arguments is taken as it is.
    """
    own = inspect.cleandoc(module_class.__doc__ or "")
    if "Args:" not in own:
        summary, _, examples = own.partition("\n\nExamples:\n")
        own = f"{summary}\n\n{_described(module_class.spec.function)}\n\nExamples:\n{examples}"
    return {
        "description": inspect.cleandoc(sys.modules[module_class.__module__].__doc__ or ""),
        "inputs_description": own,
    }


def _described(function: MetricFunction) -> str:
    """Arguments, results, errors and source of a metric's function, with the options that all metrics have."""
    text = inspect.cleandoc(function.__doc__ or "").partition("\n\n>>>")[0]
    text = text[text.index("Args:") :]
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [name for name, each in inspect.signature(function).parameters.items() if each.kind is positional]
    if not names[0].startswith("predictions"):
        for name, column in zip(names, ("predictions", "references"), strict=False):
            text = re.sub(rf"^(    (?:\w+, )?){name}\b", rf"\1{column}", text, count=1, flags=re.MULTILINE)
    options = inspect.cleandoc(SummaryOptions.__doc__ or "").partition("Keys:\n")[2]
    return text.replace("\n\nReturns:", f"\n{options}\n\nReturns:", 1)


def detection_features() -> dict[str, Any]:
    """The `datasets` features of rows of boxes: predictions with scores, references without."""
    from datasets import Sequence, Value

    boxes = {"boxes": Sequence(Sequence(Value("float64"))), "phrase_ids": Sequence(Value("float64"))}
    return {"predictions": {**boxes, "scores": Sequence(Value("float64"))}, "references": boxes}


def _check(name: str) -> None:
    if name not in metric_names():
        raise UnknownNameError("metric", name, metric_names())
