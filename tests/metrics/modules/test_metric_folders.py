"""The folder of every metric module: its docstrings, its card, its page, and how it is installed."""

import doctest
import importlib
import math
import re

import evaluate
import numpy as np
import pytest
import yaml
from cards import METRICS, card_rows, card_text, numbers_not_in, paper_text
from metric_cases import CASES, EVERY, NAMES, compute, input_names

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation.aggregate import option_names
from vl_assay.metrics.modules.discovery import load_metric
from vl_assay.metrics.modules.page import read_card

# Modules and cards whose examples are run; those of a checkout load a metric by its path.
MODULES = [
    ".".join(path.relative_to(METRICS).with_suffix("").parts)
    for path in sorted(METRICS.glob("*/*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


def module_of(name, part=None):
    return importlib.import_module(f"vl_assay.metrics.{name}.{part or name}")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_docstrings_run(name, monkeypatch):
    assert {f"{each}.{each}" for each in NAMES} <= set(MODULES)
    monkeypatch.chdir(METRICS.parent)
    assert doctest.testmod(importlib.import_module(f"vl_assay.metrics.{name}")).failed == 0


@EVERY
def test_the_examples_of_the_card_run(name, monkeypatch):
    monkeypatch.chdir(METRICS.parent)
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
    module = load_metric(name)
    assert meta["sdk"] == "gradio"
    assert meta["tags"] == ["evaluate", "comparison" if isinstance(module, evaluate.Comparison) else "metric"]
    assert (METRICS / name / meta["app_file"]).is_file()
    assert (METRICS / name / "requirements.txt").read_text(encoding="utf-8") == "vl-assay[space]\n"
    for heading in ("Definition", "Sanity baselines", "How to use", "Reference values", "Limitations"):
        assert re.search(rf"^##+ {heading}", text, flags=re.MULTILINE), heading
    assert re.match(r"@\w+\{\w+,\n  title=", module.citation)


@EVERY
def test_the_module_is_described_with_the_names_of_its_inputs(name):
    module = load_metric(name)
    assert len(module.description) > 30
    assert "float32" not in str(module.features)  # 0.30000001 and 0.3 would tie
    text = module.inputs_description
    arguments = text.split("Args:\n")[1].split("\n\nReturns:")[0]
    for each in [*input_names(name), *option_names(module.function)]:
        assert re.search(rf"^    (\w+, )*{each}\b", arguments, flags=re.MULTILINE), each
    assert re.findall(r"^(?:Args|Returns|Raises|Examples):", text, re.M) == [
        "Args:",
        "Returns:",
        "Raises:",
        "Examples:",
    ]


# The paper that a card's reference tables quote, and the tables and columns that are computed instead.
QUOTED = {
    "aro_itm": (4, ("macro, from the rows", "micro, from the rows")),
    "artifact_gap": (0, ("rule",)),
    "augmented_accuracy": (3, ()),
    "brittleness": (3, ()),
    "cpd_ap": (2, ()),
    "grounding_recall": (2, ()),
    "group_match": (0, ("", "tag")),
    "group_recall_at_1": (2, ()),
    "paired_question_accuracy": (0, ("",)),
    "retrieval_recall": (4, ()),
    "sugarcrepe_itm": (0, ("",)),
    "yes_no_f1": (2, ()),
    "zero_shot_accuracy": (3, ()),
}


@pytest.mark.parametrize("name", QUOTED)
def test_the_reference_values_are_those_of_the_paper(name, shared_data):
    paper, computed = QUOTED[name]
    assert numbers_not_in(name, paper_text(shared_data, paper), computed) == []


def baselines(name):
    """The rows of the card's table of baselines, as dictionaries."""
    header = next(line for line in card_text(name).splitlines() if line.startswith("| scorer |"))
    keys = [cell.strip() for cell in header.strip("|").split("|")]
    return [dict(zip(keys, row, strict=True)) for row in card_rows(name, "scorer")]


BASELINES = [
    (name, row) for name in NAMES for row in (baselines(name) if (METRICS / name / "README.md").is_file() else [])
]


@pytest.mark.parametrize(("name", "row"), BASELINES, ids=[f"{n}-{r['scorer']}-{r.get('ties')}" for n, r in BASELINES])
def test_baselines_score_what_the_card_says(name, row):
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
    sizes = (4_000, 2_000) if len(case.scores) == 1 else (400, 1_000)  # rows of boxes take longest
    result = compute(name, (case.constant if constant else case.random)(rng, sizes[not constant]), **options)
    for key, cell in cells.items():
        assert result[key] == pytest.approx(float(cell), abs=1e-9 if constant else 0.03), key


def test_every_card_says_what_a_constant_and_a_nan_get():
    for name in NAMES:
        assert {"constant", "NaN"} <= {row["scorer"].split(",")[0] for row in baselines(name)}, name


@EVERY
def test_the_page_computes_its_example(name):
    page = module_of(name, "app").PAGE
    chosen = [values[0] for values in page.choices.values()]
    assert page.compute(page.rows, *chosen)["n"] >= 1
    assert read_card(METRICS / name)[0]
