"""Plugins: benchmarks, metrics and model families from other packages or from a folder of the user."""

from __future__ import annotations

import importlib
import os
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from .errors import VLAssayError
from .storage import with_home

VARIABLE = "VL_ASSAY_PLUGINS"
_PACKAGES = {"benchmarks": "hub_datasets", "metrics": "metrics", "families": "model_wrappers"}
_ROOT = __name__.removesuffix(".metrics.common.plugins")


@cache
def plugins(kind: str) -> dict[str, Path]:
    """Find the plugins of other packages and of the user, and make them importable as parts of this package.

    Other packages declare an entry point of the group ``vl_assay.benchmarks``, ``vl_assay.metrics`` or
    ``vl_assay.families``, whose value is the importable folder or module, and whose name is its last part. The folder
    that VL_ASSAY_PLUGINS names holds what it adds where this package would: in ``hub_datasets``, ``metrics`` and
    ``model_wrappers``.

    Args:
        kind: "benchmarks", "metrics" or "families".

    Returns:
        The path of each folder or module by its name; its code runs when it is used.

    Raises:
        VLAssayError: an entry point that cannot be imported, or has another name than its folder; a name that is
            taken; a folder that does not exist.
    """
    package = _PACKAGES[kind]
    folders: dict[str, Path] = {}
    if user_folder := os.environ.get(VARIABLE):
        root = with_home(user_folder).absolute()
        if not root.is_dir():
            raise VLAssayError(f"{VARIABLE} names {user_folder}, which is no folder; correct it or unset it")
        paths = sorted((root / package).glob("[!._]*"))
        folders = {
            path.stem: path for path in paths if path.stem.isidentifier() and (path.is_dir() or path.suffix == ".py")
        }
    for point in entry_points(group=f"vl_assay.{kind}"):
        try:
            spec = find_spec(point.value)
        except (ImportError, ValueError):
            spec = None
        if spec is None or spec.origin is None or point.value.rpartition(".")[2] != point.name:
            raise VLAssayError(
                f"the entry point {point.name} = {point.value} of vl_assay.{kind} does not name a folder or module "
                f"{point.name} that can be imported; a folder needs __init__.py"
            )
        if point.name in folders:
            raise VLAssayError(f"{point.value} and {folders[point.name]} have one name; rename one of them")
        origin = Path(spec.origin)
        folders[point.name] = origin.parent if spec.submodule_search_locations else origin
    built_in = {path.stem for path in (Path(__file__).parents[2] / package).iterdir()}
    for name in built_in & folders.keys():
        raise VLAssayError(f"{folders[name]} has the name of a part of {_ROOT}.{package}; rename it, as in my_{name}")
    searched = importlib.import_module(f"{_ROOT}.{package}").__path__
    searched.extend(dict.fromkeys(str(path.parent) for path in folders.values()))
    return folders
