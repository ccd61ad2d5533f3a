"""The shape of the package: what may import what, what is public, what starts fast, what is discovered."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from importlib.metadata import distribution
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
PACKAGES = ("metrics", "hub_datasets", "model_wrappers")


def imported_folders(path):
    """The top folders of this repository that a source file imports from, anywhere in it."""
    depth = len(path.relative_to(ROOT).parts) - 1
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")
            if node.level == depth + 1:
                yield from module[:1] if node.module else [alias.name for alias in node.names]
            elif node.level == 0 and module[0] == "vl_assay":
                yield module[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("vl_assay."))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    folder = path.relative_to(ROOT).parts[0]
    assert set(imported_folders(path)) <= MAY_IMPORT[folder]


def test_the_import_check_sees_relative_and_absolute_imports():
    found = {path: set(imported_folders(path)) for path in SOURCES}
    assert "metrics" in found[ROOT / "hub_datasets" / "_evaluation.py"]
    assert "metrics" in found[ROOT / "metrics" / "sugarcrepe_itm" / "sugarcrepe_itm.py"]
    assert "hub_datasets" in found[ROOT / "model_wrappers" / "mock.py"]
    assert "hub_datasets" in found[ROOT / "model_wrappers" / "demo_clip" / "train.py"]


def run_python(code):
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return process.stdout.split()


def test_metrics_need_no_torch_and_the_command_line_imports_nothing_heavy():
    heavy = [
        "torch",
        "transformers",
        "accelerate",
        "datasets",
        "evaluate",
        "scipy",
        "matplotlib",
        "plotly",
        "gradio",
        "pyarrow",
    ]
    show = f"; import sys; print(*[m for m in {heavy} if m in sys.modules])"
    assert run_python("from vl_assay.metrics import kernels, stats, matching" + show) == []
    assert run_python("from vl_assay.metrics.common.command_line import build_app; build_app()" + show) == []
    assert "torch" not in run_python("from vl_assay.hub_datasets import report, load_examples" + show)


@pytest.mark.parametrize("folder", PACKAGES)
def test_public_names_are_listed_documented_and_importable(folder):
    package = importlib.import_module(f"vl_assay.{folder}")
    importable = {}
    exec(f"from vl_assay.{folder} import *", importable)
    for name in package.__all__:
        assert importable[name].__doc__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense
    [row] = re.findall(rf"^\| `vl_assay\.{folder}` \| (.*) \|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", row)) == sorted(package.__all__) == package.__all__


def test_modules_are_public_by_the_lists_or_private_by_name():
    from vl_assay import metrics
    from vl_assay.model_wrappers import family_names

    listed = {"metrics": metrics.__all__, "hub_datasets": ["commands"], "model_wrappers": [*family_names(), "commands"]}
    listed["space_app"] = ["app", "commands"]
    for folder in MAY_IMPORT:
        found = [path.stem for path in (ROOT / folder).glob("[!_]*.py")]
        found += [
            path.parent.name for path in (ROOT / folder).glob("*/__init__.py") if path.parent.name in listed[folder]
        ]
        assert sorted(found) == sorted(listed[folder])


def test_public_functions_of_the_metrics_are_documented_and_typed():
    from vl_assay import metrics

    for name in metrics.__all__:
        module = importlib.import_module(f"vl_assay.metrics.{name}")
        for public, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not public.startswith("_"):
                assert value.__doc__, (name, public)
                annotations = inspect.get_annotations(value)
                assert {*inspect.signature(value).parameters, "return"} == set(annotations), (name, public)


def test_every_package_says_that_it_is_typed():
    assert all((ROOT / folder / "py.typed").is_file() for folder in MAY_IMPORT)


def test_the_distribution_declares_its_command_and_its_entry_points():
    points = {(point.group, point.name) for point in distribution("vl-assay").entry_points}
    assert ("console_scripts", "vl-assay") in points
    assert {name for group, name in points if group == "vl_assay.commands"} == {
        "authoring", "finetune", "hub_datasets", "model_wrappers", "space_app",
    }  # fmt: skip


def test_what_lies_in_the_folders_is_what_is_found():
    from vl_assay.hub_datasets import benchmark_names
    from vl_assay.metrics.modules.discovery import metric_names
    from vl_assay.model_wrappers import demo_names, family_names

    def folders(folder):
        return sorted(p.name for p in (ROOT / folder).iterdir() if p.is_dir() and any(p.glob("*.py")))

    assert sorted([*metric_names(), "evaluation"]) == folders("metrics")
    assert sorted([*benchmark_names(), "authoring"]) == folders("hub_datasets")
    files = {path.stem for path in (ROOT / "model_wrappers").glob("[!_]*.py")} - {"commands"}
    assert set(family_names()) == files > {"clip", "mock", "owlvit", "blip", "vqascore", "vera"}
    assert demo_names() == ["demo-clip", "demo-owlvit"]
    assert sorted([*(name.replace("-", "_") for name in demo_names()), "finetune"]) == folders("model_wrappers")


def test_the_readme_names_every_benchmark_metric_and_family():
    from vl_assay.hub_datasets import benchmark_names
    from vl_assay.metrics.modules.discovery import metric_names
    from vl_assay.model_wrappers import family_names

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = [*(f"](hub_datasets/{name}/" for name in benchmark_names()), *(f"](metrics/{n}/" for n in metric_names())]
    named = [re.search(rf"[` ]{name}[`: ]", readme) for name in family_names()]
    assert [link for link in linked if link not in readme] == []
    assert [name for name, found in zip(family_names(), named, strict=True) if not found] == []


def test_builders_import_only_siblings_and_one_name_a_line():
    for path in (ROOT / "hub_datasets").glob("*/builder.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1
                assert len(node.names) == 1
                assert node.level == 0 or (path.parent / f"{node.module}.py").is_file()
                assert not (node.module or "").startswith("vl_assay")


def test_modules_stay_of_readable_length():
    long = {path.name: n for path in SOURCES if (n := len(path.read_text(encoding="utf-8").splitlines())) > 400}
    assert long == {}


# Where names of metrics, scores and families may stand beside where they are defined: where benchmarks say which
# metrics evaluate them, and in the papers' tables. The study prints two of these tables for the toy world.
NAMED = (
    *("hub_datasets/*/benchmark.py", "hub_datasets/_published*.py"),
    *("space_app/board/launch.py", "model_wrappers/finetune/_study*.py"),
)
# An audit's own record, whose keys are those of the metric that made it.
AUDITS = ("hub_datasets/authoring/*.py", "space_app/pages/cards.py")


def strings_of(path):
    """The strings of a source file with their lines; docstrings are none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value, node.lineno


def test_no_metric_score_or_family_is_named_outside_its_folder():
    from vl_assay.metrics.modules.discovery import get_spec, metric_names
    from vl_assay.model_wrappers import family_names

    scores = {score.name for name in metric_names() for score in get_spec(name).scores}
    names = {*metric_names(), *scores, *(f"macro_{score}" for score in scores), *family_names()}
    # A kind of task and the key of a difference are called so too.
    names -= {"answers", "difference"}
    assert {"brittleness", "gap", "macro_accuracy", "vera", "cpd_ap"} <= names
    audited = {"accuracy", "auc"}
    found = []
    for path in SOURCES:
        relative = path.relative_to(ROOT)
        text = path.read_text(encoding="utf-8")
        is_metric = relative.parts[:2] in {("metrics", name) for name in metric_names()}
        if is_metric or "\n@metric_function" in text or "\n@with_examples" in text:
            continue
        if any(relative.match(each) for each in NAMED):
            continue
        own = {relative.stem, *relative.parts} | (audited if any(relative.match(each) for each in AUDITS) else set())
        found += [f"{relative}:{line} {text!r}" for text, line in strings_of(path) if text in names - own]
    assert found == []
