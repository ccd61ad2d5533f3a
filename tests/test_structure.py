"""The structure of the package: import direction, private modules, discovery, start-up time."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "metrics": {"metrics"},
    "hub_datasets": {"metrics", "hub_datasets"},
    "model_wrappers": {"metrics", "hub_datasets", "model_wrappers"},
    "space_app": {"metrics", "hub_datasets", "space_app"},
}
SOURCES = sorted(path for folder in MAY_IMPORT for path in (ROOT / folder).rglob("*.py"))
PACKAGES = ("hub_datasets", "model_wrappers")


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCES}


@cache
def nodes_of(path):
    """The imports, classes, statements and constants of a source file: a tenth of its nodes."""
    kinds = (ast.ImportFrom, ast.ClassDef, ast.Expr, ast.Constant)
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]


def imported_modules(name):
    """The modules of this repository that a module imports, in functions too."""
    path = MODULES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in nodes_of(path):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = package[: len(package) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])]).removeprefix("vl_assay.")
        for alias in node.names:
            found = f"{module}.{alias.name}" if f"{module}.{alias.name}" in MODULES else module
            if found in MODULES and found != name:
                yield found


@cache
def all_imports():
    return {name: set(imported_modules(name)) for name in MODULES}


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_point_one_way(folder):
    found = {target.split(".")[0] for name in MODULES if name.split(".")[0] == folder for target in all_imports()[name]}
    assert found <= MAY_IMPORT[folder]


def assert_no_circles(imports):
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_imports_have_no_circles():
    assert_no_circles(all_imports())


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_folders_import_each_other_in_one_direction(package):
    def folder_of(name):
        return ".".join(MODULES[name].relative_to(ROOT).parts[:2]) if name.count(".") > 1 else package

    folders = {}
    for name in MODULES:
        if name.startswith(f"{package}.") and folder_of(name) != package:
            targets = {folder_of(target) for target in all_imports()[name] if target.startswith(f"{package}.")}
            folders.setdefault(folder_of(name), set()).update(targets - {package, folder_of(name)})
    assert len(folders) > 3
    assert_no_circles(folders)


def test_a_class_name_means_one_thing():
    places = {}
    for name, path in MODULES.items():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def run_python(code):
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return process.stdout.split()


def test_metrics_need_no_torch_and_the_command_line_imports_nothing_heavy():
    heavy = "torch transformers accelerate datasets evaluate scipy matplotlib plotly gradio pyarrow"
    show = f"; import sys; print(*[m for m in '{heavy}'.split() if m in sys.modules])"
    light = "from vl_assay.metrics.functional import matching; from vl_assay.metrics.estimation import paired; "
    light += "from vl_assay.metrics.common.command_line import build_app; build_app()"
    assert run_python(light + show) == []
    evaluation = "from vl_assay.hub_datasets import report, load_examples; from vl_assay.model_wrappers import predict"
    assert run_python(evaluation + show) == ["pyarrow"]


@pytest.mark.parametrize("folder", PACKAGES)
def test_public_names_are_listed_documented_and_importable(folder):
    package = importlib.import_module(f"vl_assay.{folder}")
    importable = {}
    exec(f"from vl_assay.{folder} import *", importable)
    for name in package.__all__:
        assert importable[name].__doc__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense
    [row] = re.findall(
        rf"^\| `vl_assay\.{folder}` \| (.*) \|$", (ROOT / "docs" / "reference.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(re.findall(r"`(\w+)`", row)) == sorted(package.__all__) == package.__all__


def test_discovery_finds_what_the_folders_hold():
    from vl_assay.hub_datasets import benchmark_names
    from vl_assay.metrics.modules.discovery import metric_names
    from vl_assay.model_wrappers import demo_names, family_names

    metrics = {path.parent.name for path in (ROOT / "metrics").glob("*/requirements.txt")}
    assert set(metric_names()) == metrics > {"cpd_ap", "sugarcrepe_itm"}
    assert set(benchmark_names()) == {path.parent.name for path in (ROOT / "hub_datasets").glob("*/builder.py")}
    assert {path.stem for path in (ROOT / "model_wrappers").glob("[!_]*.py")} | {"precomputed"} == set(family_names())
    assert set(family_names()) > {"clip", "mock", "owlvit", "blip", "vqascore", "vera"}
    assert demo_names() == ["demo-clip", "demo-clip-web", "demo-owlvit"]


def test_the_reference_names_every_benchmark_metric_and_family():
    from vl_assay.hub_datasets import benchmark_names
    from vl_assay.metrics.modules.discovery import metric_names
    from vl_assay.model_wrappers import family_names

    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    linked = [*(f"](../hub_datasets/{name}/" for name in benchmark_names())]
    linked += [f"](../metrics/{name}/" for name in metric_names()]
    assert [link for link in linked if link not in text] == []
    assert [name for name in family_names() if f"`{name}`" not in text] == []


# Where names of metrics, scores and families may stand beside where they are defined: where benchmarks say which
# metrics evaluate them, in the papers' tables and in analyses of them.
NAMED = (
    *("hub_datasets/*/benchmark.py", "hub_datasets/published/*.py", "model_wrappers/reproduce/analyses.py"),
    "space_app/board/launch.py",
)
# Functions behind metrics, which name their scores.
HELPERS = ("metrics/functional/comparison.py", "metrics/functional/symmetry.py")
# An audit's own record, whose keys are those of the metric that made it.
AUDITS = ("hub_datasets/authoring/*/*.py", "space_app/pages/cards.py")


def strings_of(path):
    """The strings of a source file with their lines; docstrings are none."""
    docstrings = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value, node.lineno


def test_no_metric_score_or_family_is_named_outside_its_folder():
    from vl_assay.metrics.modules.discovery import get_spec, metric_names
    from vl_assay.model_wrappers import family_names

    scores = {score.name for name in metric_names() for score in get_spec(name).scores}
    names = {*metric_names(), *scores, *(f"macro_{score}" for score in scores), *family_names()}
    names -= {"difference"}  # also the key of a difference
    assert {"brittleness", "gap", "macro_accuracy", "vera", "cpd_ap"} <= names
    audited = {"accuracy", "auc"}
    metrics = {("metrics", name) for name in metric_names()}
    found = []
    for path in SOURCES:
        relative = path.relative_to(ROOT)
        text = path.read_text(encoding="utf-8")
        if relative.parts[:2] in metrics or "\n@metric_function" in text:
            continue
        if any(relative.match(each) for each in (*NAMED, *HELPERS)):
            continue
        own = {relative.stem, *relative.parts} | (audited if any(relative.match(each) for each in AUDITS) else set())
        foreign = names - own
        found += [f"{relative}:{line} {text!r}" for text, line in strings_of(path) if text in foreign]
    assert found == []
