"""Discover the metrics, one folder each, by listing the folders.

A folder holds ``spec.py``, whose constant ``SPEC`` is the metric's `MetricSpec`, and the `evaluate` module of the
folder's name.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import check_known
from ..common.plugins import plugins
from ..estimation.aggregate import option_names
from ..estimation.spec import MetricSpec

if TYPE_CHECKING:
    import evaluate

_METRICS = Path(__file__).parents[1]
_PACKAGE = __name__.rsplit(".", 2)[0]
_REFERENCE = re.compile(r"\bsee\s+``(\w+\.\w+)``")


def metric_names() -> list[str]:
    """Return the sorted names of all metrics."""
    return list(_names())


@cache
def _names() -> tuple[str, ...]:
    outside = [name for name, path in plugins("metrics").items() if (path / f"{name}.py").is_file()]
    return tuple(sorted({*outside, *(path.stem for path in _METRICS.glob("*/*.py") if path.stem == path.parent.name)}))


def metric_folder(name: str) -> Path:
    """Return the folder of a metric; raise `UnknownNameError`, which lists the known names."""
    check_known("metric", [name], metric_names())
    folder = _METRICS / name
    return folder if folder.is_dir() else plugins("metrics")[name]


def get_spec(name: str) -> MetricSpec:
    """Return the specification of a metric without importing `evaluate`; `UnknownNameError` lists the known names."""
    check_known("metric", [name], metric_names())
    return importlib.import_module(f"{_PACKAGE}.{name}.spec").SPEC


def load_metric(name: str) -> evaluate.EvaluationModule:
    """Load the `evaluate` module of a metric from this package, as ``evaluate.load`` does after `install_metric`.

    Raises:
        UnknownNameError: no such metric; the message lists the known ones.
    """
    import evaluate

    check_known("metric", [name], metric_names())
    module = importlib.import_module(f"{_PACKAGE}.{name}.{name}")
    module_class = next(
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, evaluate.EvaluationModule)
    )
    # In memory: after an error `evaluate` keeps its cache file locked and the next call would wait for it.
    return module_class(keep_in_memory=True)


def install_metric(name: str) -> Path:
    """Make ``evaluate.load(name)`` work from any folder and offline, by filling the cache that it searches.

    Returns:
        The folder that was filled.
    """
    # The folder of `evaluate`, too, which takes much longer to import.
    from datasets.config import HF_MODULES_CACHE

    script = metric_folder(name) / f"{name}.py"
    # A comparison too lies under "metrics" there: `evaluate` looks no further for a module without a type.
    home = Path(HF_MODULES_CACHE) / "evaluate_modules" / "metrics" / f"evaluate-metric--{name}"
    target = home / hashlib.sha256(script.read_bytes()).hexdigest()
    target.mkdir(parents=True, exist_ok=True)
    # A plain copy, not one that keeps the time of change: of several versions `evaluate` takes the newest.
    shutil.copyfile(script, target / script.name)
    return target


def citation(name: str) -> str:
    """Return the first BibTeX block of a metric's card; empty if this package has no card of that name."""
    card = metric_folder(name) / "README.md" if name in metric_names() else None
    text = card.read_text("utf-8") if card and card.is_file() else ""
    entry_match = re.search(r"^```bibtex\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return entry_match[1] if entry_match else ""


def describe(function: Callable[..., Any]) -> str:
    """Return the arguments, results, errors and source of a metric, from its function's docstring.

    Columns get their names in the `evaluate` module. References to another docstring, such as "see
    ``boxes.read_boxes``", are replaced by its descriptions.
    """
    text = inspect.cleandoc(function.__doc__ or "").partition("\n\n>>>")[0]
    text = text[text.index("Args:") :] if "Args:" in text else text
    names = column_names(function)
    if not names[0].startswith("predictions"):
        for name, column in zip(names, ("predictions", "references"), strict=False):
            text = re.sub(rf"^(    (?:\w+, )?){name}\b", rf"\1{column}", text, count=1, flags=re.MULTILINE)
    arguments, end, rest = text.partition("\n\nReturns:")
    known = tuple(f"    {name}:" for name in [*names, *option_names(function)])
    addresses = _REFERENCE.findall(arguments)
    for address in addresses:
        for entry in _entries(address):
            addresses += (address for address in _REFERENCE.findall(entry) if address not in addresses)
            if entry.startswith(known) and entry.partition(":")[0] + ":" not in arguments:
                arguments += f"\n{entry}"
    return arguments + end + rest


def _entries(address: str) -> list[str]:
    """Return the entries of the arguments or keys in the docstring at an address such as "boxes.read_boxes"."""
    module, name = address.split(".")
    [path] = _METRICS.glob(f"*/{module}.py")
    attribute = getattr(importlib.import_module(f"{_PACKAGE}.{path.parent.name}.{module}"), name)
    section = re.search(
        r"^(?:Args|Keys):\n((?:    .*\n?)+)", inspect.cleandoc(attribute.__doc__ or ""), flags=re.MULTILINE
    )
    return re.split(r"\n(?=    \w)", section[1].rstrip()) if section else []


def column_names(function: Callable[..., Any]) -> list[str]:
    """Return the positional arguments of a metric's function: the columns of its inputs."""
    parameters = inspect.signature(function).parameters
    return [name for name, parameter in parameters.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
