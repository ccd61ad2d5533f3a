"""The folder of every metric module: its docstrings, its card, its page, and how it is installed."""

from __future__ import annotations

import doctest
import importlib
import math
import re
import subprocess
import sys
import urllib.request

import evaluate
import numpy as np
import pytest
import yaml
from cards import METRICS, card_rows, card_text
from metric_cases import CASES, EVERY, NAMES, compute

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.modules.discovery import install_metric, load_metric


def module_of(name, part=None):
    return importlib.import_module(f"vl_assay.metrics.{name}.{part or name}")


@pytest.fixture
def at_the_root(monkeypatch):
    """The examples load a metric by its path in a checkout."""
    monkeypatch.chdir(METRICS.parent)


EXAMPLES = [path.stem for path in sorted(METRICS.glob("*.py")) if "\n    >>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_docstrings_run(name):
    outcome = doctest.testmod(importlib.import_module(f"vl_assay.metrics.{name}"))
    assert (outcome.failed, outcome.attempted > 0) == (0, True)


@EVERY
@pytest.mark.usefixtures("at_the_root")
def test_the_examples_of_the_module_run(name):
    outcome = doctest.testmod(module_of(name))
    assert outcome.failed == 0
    assert outcome.attempted >= 3


@EVERY
@pytest.mark.usefixtures("at_the_root")
def test_the_examples_of_the_card_run(name):
    blocks = re.findall(r"```python\n(.*?)```", card_text(name), flags=re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, {}, f"{name} card block {number}", "README.md", 0)
        assert test.examples
        assert doctest.DocTestRunner().run(test).failed == 0


@EVERY
def test_the_card_is_that_of_a_metric_space(name):
    front_matter, text = card_text(name).removeprefix("---\n").split("\n---\n", 1)
    meta = yaml.safe_load(front_matter)
    assert meta["sdk"] == "gradio"
    assert meta["python_version"] == "3.11"
    assert meta["tags"] == ["evaluate", "comparison" if name == "paired_difference" else "metric"]
    assert (METRICS / name / meta["app_file"]).is_file()
    assert (METRICS / name / "requirements.txt").read_text(encoding="utf-8") == "vl-assay[space]\n"
    for heading in ("Definition", "Gates", "How to use", "Inputs", "Outputs", "Reference values", "Limitations"):
        assert re.search(rf"^##+ {heading}", text, flags=re.MULTILINE), heading
    assert load_metric(name).citation.strip() in text


def gates(name):
    """The rows of the card's table of gates, as dictionaries."""
    header = next(line for line in card_text(name).splitlines() if line.startswith("| scorer |"))
    keys = [cell.strip() for cell in header.strip("|").split("|")]
    return [dict(zip(keys, row, strict=True)) for row in card_rows(name, "scorer")]


GATES = [(name, row) for name in NAMES for row in (gates(name) if (METRICS / name / "README.md").is_file() else [])]


@pytest.mark.parametrize(("name", "row"), GATES, ids=[f"{n}-{r['scorer']}-{r.get('ties')}" for n, r in GATES])
def test_gates_score_what_the_card_says(name, row):
    case, rng = CASES[name], np.random.default_rng(6)
    cells = {key: cell for key, cell in row.items() if key not in ("scorer", "ties") and cell != "–"}
    assert cells
    options = {"ties": row["ties"]} if row.get("ties", "–") != "–" else {}
    if row["scorer"] == "NaN":
        assert set(cells.values()) == {"refused"}
        with pytest.raises(ScoresError):
            compute(name, case.with_scores(case.random(rng, 30), lambda _: math.nan), **options)
        return
    constant = row["scorer"].startswith("constant")
    assert constant or row["scorer"] == "random"
    result = compute(name, (case.constant if constant else case.random)(rng, 4_000), **options)
    for key, cell in cells.items():
        assert result[key] == pytest.approx(float(cell), abs=1e-9 if constant else 0.03), key


def test_every_card_says_what_a_constant_and_a_nan_get():
    for name in NAMES:
        scorers = {row["scorer"].split(",")[0] for row in gates(name)}
        assert {"constant", "NaN"} <= scorers | ({"NaN"} if name == "yes_no_f1" else set()), name


@EVERY
def test_the_page_judges_its_example(name):
    page = module_of(name, "app").PAGE
    chosen = [values[0] for values in page.options.values()]
    result = page.judge(page.example, *chosen)
    assert result["n"] >= 1
    with pytest.raises(ScoresError, match="the table is empty"):
        page.judge([[""] * len(page.columns)], *chosen)


@EVERY
def test_the_page_starts(name):
    page = module_of(name, "app").PAGE
    blocks = page.build()
    _, url, _ = blocks.launch(prevent_thread_lock=True, quiet=True, share=False)
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert page.title in answer.read().decode()
    finally:
        blocks.close()


def test_bare_names_load_from_any_folder_after_install(tmp_path):
    for name in NAMES:
        install_metric(name)
    code = f"import evaluate\nfor name in {NAMES}: print(type(evaluate.load(name)).__name__)"
    process = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == [type(load_metric(name)).__name__ for name in NAMES]


@EVERY
def test_the_module_describes_itself(name):
    module = load_metric(name)
    assert len(module.description) > 30
    assert "float32" not in str(module.features)  # 0.30000001 and 0.3 would tie
    assert "Args:" in module.inputs_description
    assert "Returns:" in module.inputs_description
    assert isinstance(module, evaluate.EvaluationModule)
