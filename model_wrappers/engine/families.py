"""Discovery of models: families by listing modules, demo checkpoints by listing folders."""

from __future__ import annotations

import ast
import importlib
import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...hub_datasets.core.benchmarks import benchmark_names
from ...hub_datasets.core.pretrained import check_folder
from ...hub_datasets.sources.network import is_hub_reachable
from ...metrics.common.errors import ModelError, check_known, similar
from ...metrics.common.imports import gc_paused
from ...metrics.common.plugins import plugins
from ...metrics.common.storage import cache_error, with_home
from .protocol import LoadOptions, Model
from .results import PredictionsSource

DEFAULT_MODEL = "demo-clip"
# The endings of files of weights.
WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".npz")
_FAMILIES = Path(__file__).parents[1]
_PACKAGE = __name__.removesuffix(".engine.families")


def family_names() -> list[str]:
    """Return the sorted names of all families: modules of `model_wrappers`, and folders with a ``family.py``."""
    modules = [path.stem for path in _FAMILIES.glob("[!_]*.py")]
    outside = [name for name, path in plugins("families").items() if path.is_file() or (path / "family.py").is_file()]
    return sorted({*modules, *outside, *(path.parent.name for path in _FAMILIES.glob("*/family.py"))})


def get_family(name: str) -> Any:
    """Import the module of a family; `UnknownNameError` lists the known ones, `ModelError` names a missing library."""
    check_known("model family", [name], family_names())
    home = f"{name}.family" if _family_file(name).name == "family.py" else name
    with gc_paused():
        family = _imported(f"{_PACKAGE}.{home}", name, "models")
    for needed in ("load", "MODEL_TYPES", "CHECKPOINTS"):
        if not hasattr(family, needed):
            raise ModelError(f"the family {name} has no {needed}; see CONTRIBUTING.md")
    return family


def import_library(name: str) -> Any:
    """Import the library with the name of its family, when a model is loaded: the import takes long.

    Raises:
        ModelError: it is not installed, or does not load.
    """
    return _imported(name, name, name.replace("_", "-"))


def _imported(module: str, family: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ModelError(f"the family {family} needs its library ({error}): pip install 'vl-assay[{extra}]'") from error
    except RuntimeError as error:
        if module != family and "torchvision" not in str(error):  # a library's own error may not name torchvision
            raise
        raise ModelError(
            f"the family {family} does not load ({error}): torch and torchvision must be installed in matching builds"
        ) from error


@dataclass(frozen=True)
class FamilyConstants:
    """The constants of a family's file; `problem` is the reason why the family cannot be used, or empty.

    `others` describes the checkpoints of types outside `model_types` that the family tries if it is named.
    """

    model_types: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    problem: str = ""
    others: str = ""


def family_constants(name: str) -> FamilyConstants:
    """Read the constants of a family from its file: importing all families takes many seconds.

    A family whose constants are computed is imported all the same.
    """
    imported, (model_types, checkpoints, others) = _read_family(_family_file(name))
    lacking = [module for module in imported if find_spec(module.partition(".")[0]) is None]
    if lacking:
        extra = name.replace("_", "-")
        if extra not in (metadata("vl-assay").get_all("Provides-Extra") or ()):
            extra = "models"
        return FamilyConstants(problem=f"{name} needs the library {lacking[0]}: pip install 'vl-assay[{extra}]'")
    if model_types is not None and checkpoints is not None:
        return FamilyConstants(model_types, checkpoints, others="".join(others or ()))
    try:
        family = get_family(name)
    except ModelError as error:
        return FamilyConstants(problem=str(error))
    return FamilyConstants(tuple(family.MODEL_TYPES), tuple(family.CHECKPOINTS))


@cache
def _read_family(file: Path) -> tuple[list[str], list[tuple[str, ...] | None]]:
    """Return the libraries that a family's file imports or needs, and its constants; None if one is not a literal."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    assigned = {
        target.id: node.value
        for node in body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and node.value is not None
    }
    imported = [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in body if isinstance(node, ast.ImportFrom) and not node.level]
    imported += _texts(assigned, "LIBRARY") or ()
    return imported, [_texts(assigned, constant) for constant in ("MODEL_TYPES", "CHECKPOINTS", "OTHERS")]


def _texts(assigned: dict[str, ast.expr], name: str) -> tuple[str, ...] | None:
    """Return a constant's texts: literals, or ``tuple(NAME)`` of a dict with literal keys; None for anything else."""
    node = assigned.get(name)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "tuple" and isinstance(node.args[0], ast.Name):
        node = assigned.get(node.args[0].id)
    parts = node.keys if isinstance(node, ast.Dict) else node.elts if isinstance(node, ast.Tuple) else [node]
    texts = tuple(
        constant.value for constant in parts if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    )
    return texts if len(texts) == len(parts) else None


def _family_file(name: str) -> Path:
    module = _FAMILIES / f"{name}.py"
    path = module if module.is_file() else plugins("families").get(name, _FAMILIES / name)
    return path / "family.py" if path.is_dir() else path


def families_of(model_type: str) -> list[str]:
    """Return the families that load a ``model_type``, without those whose libraries are not installed."""
    return [name for name in family_names() if model_type in family_constants(name).model_types]


def demo_names() -> list[str]:
    """Return the names of the demo checkpoints, which are part of the package."""
    return sorted(path.parent.name.replace("_", "-") for path in _FAMILIES.glob("demo_*/config.json"))


def checkpoint_path(name: str) -> str:
    """Return the folder of a demo checkpoint; any other name or path unchanged."""
    return str(_FAMILIES / name.replace("-", "_")) if name in demo_names() else name


def check_model(name: str) -> None:
    """Check what can be known of a model's name without importing its family.

    Without a connection to the Hub, `load_model` then uses only what was downloaded before.

    Raises:
        UnknownNameError: no such family.
        ModelError: a path where nothing is, or a name that can only be meant for another.
    """
    family, separator, checkpoint = name.partition(":")
    if with_home(name).exists() or name in demo_names():
        return
    if separator:
        check_known("model family", [family], family_names())
    else:
        checkpoint = name
        if name.partition("/")[0] in benchmark_names():
            raise ModelError(f"{name} is a benchmark; the model comes first: vl-assay run {DEFAULT_MODEL} {name}")
        close = similar(name, [*demo_names(), *(f"{family}:" for family in family_names())])
        if close and "/" not in name:
            raise ModelError(f"unknown model {name!r}. Did you mean {' or '.join(map(repr, close))}?")
    is_path = checkpoint.startswith((".", "/", "~")) or checkpoint.endswith(WEIGHTS)
    # A family without model types, such as precomputed, raises its own error for a missing file.
    if is_path and not with_home(checkpoint).exists() and (not separator or family_constants(family).model_types):
        raise ModelError(f"there is no file or folder {checkpoint}; name a model's folder, or a Hub repository")
    if not separator or ("/" in checkpoint and not Path(checkpoint).exists()):
        is_hub_reachable()


def load_model(name: str, options: LoadOptions | None = None) -> Model | PredictionsSource:
    """Load a model by name.

    Args:
        name: a demo checkpoint (``"demo-clip"``), a local folder, a Hub repository, or any of them after
            ``family:``, such as ``"clip:openai/clip-vit-base-patch32"`` or ``"mock:oracle"``.
        options: device, dtype, revision, settings.

    Raises:
        ModelError: not found, incomplete, or of an unknown model type.
    """
    options = options or LoadOptions()
    family, separator, checkpoint = name.partition(":")
    check_model(name)
    if separator and not Path(name).exists():
        return get_family(family).load(checkpoint, options)
    path = checkpoint_path(name)
    file = _config_file(path, options)
    model_type = _model_type(file)
    if not with_home(path).is_dir():
        # The commit: the branch may move before the rest is loaded.
        options = replace(options, revision=file.parent.name)
    declared: dict[str, FamilyConstants] = {}
    for known in family_names():
        declared[known] = family_constants(known)
        if model_type in declared[known].model_types:
            return get_family(known).load(name, options)
    listed = [
        f"{known} ({', '.join(constants.model_types)})"
        for known, constants in declared.items()
        if constants.model_types
    ]
    answers = "; ".join([*listed, *(constants.problem for constants in declared.values() if constants.problem)])
    tries = ", ".join(
        f"{known}:CHECKPOINT ({constants.others})" for known, constants in declared.items() if constants.others
    )
    raise ModelError(
        f"{name} is a {model_type!r} checkpoint and no family loads that type; families and types: {answers}. "
        f"Named before a checkpoint, some families try other types: {tries}"
    )


def _config_file(path: str, options: LoadOptions) -> Path:
    """Find ``config.json`` of a local folder, or of a Hub repository in a cache with folders named by commit."""
    folder = with_home(path)
    check_folder(folder)
    if not folder.is_dir():
        return _download_config(path, options)
    file = folder / "config.json"
    if not file.is_file():
        raise ModelError(f"{path} has no config.json: not a transformers checkpoint folder{_inside(folder)}")
    return file


def _inside(folder: Path) -> str:
    """Return what to name in place of a folder that is no checkpoint of `transformers`, by the files in it."""
    if (folder / "open_clip_config.json").is_file():
        return f"; name it open_clip:local-dir:{folder}"
    if (folder / "modules.json").is_file():
        return f"; name it sentence_transformers:{folder}"
    if folders := sorted(file.parent for file in folder.glob("*/config.json")):
        return f"; name one of its folders, such as {folders[-1]}"
    if files := sorted(file for file in folder.rglob("*") if file.name.endswith(WEIGHTS)):
        return f". It has weights of another kind: open_clip:MODEL -s pretrained={files[-1]} reads those of open_clip"
    return ""


def _model_type(file: Path) -> str:
    """Return the ``model_type`` of a checkpoint's ``config.json``."""
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["model_type"])
    except (ValueError, KeyError, TypeError):
        raise ModelError(f"{file} is damaged or names no model_type; download or save the checkpoint again") from None


def _download_config(name: str, options: LoadOptions) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(name, "config.json", revision=options.revision))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        if unwritable := cache_error(error):
            raise unwritable from error
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        why = f"it is not on the Hub ({reason})" if is_hub_reachable() else "the Hub cannot be reached"
        raise ModelError(
            f"unknown model {name!r}: there is no such folder, and {why}. Without the Hub there are "
            f"{', '.join(demo_names())} and what was downloaded before; `vl-assay list models` shows the families"
        ) from error
