"""The skills on the Model page, and cautions on the Benchmarks page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import escape
from submission_support import MemoryStorage

from vl_assay.hub_datasets import benchmark_names, get_benchmark
from vl_assay.hub_datasets.core.skills import read_skill_profile
from vl_assay.metrics.common.formatting import percent
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.launch import shipped_predictions
from vl_assay.space_app.pages import cards, model


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue(MemoryStorage())


def test_the_model_page_shows_the_skills_of_the_models_predictions(catalogue):
    files = [path for path in shipped_predictions().values() if path.name.startswith("demo-clip.")]
    profile = read_skill_profile(files)
    html = model.skills_html(catalogue, "demo-clip")
    assert {score.skill for score in profile.scores} >= {"object", "binding", "order", "paraphrase"}
    for score in profile.scores:
        assert re.search(rf"{score.skill}</th>\s*<td[^>]*>\s*{re.escape(percent(score.corrected))}", html)


def test_the_document_prints_the_skill_that_text_alone_reaches_half_of():
    files = [path for path in shipped_predictions().values() if path.name.startswith("demo-clip.")]
    [found] = [score for score in read_skill_profile(files).scores if score.skill == "object"]
    text = " ".join((Path(cards.__file__).parents[2] / "docs" / "skills.md").read_text(encoding="utf-8").split())
    printed = f"object is {percent(found.corrected)} above chance, and text alone reaches {percent(found.text_alone)}"
    assert printed in text


def test_a_model_without_predictions_has_no_skills(catalogue):
    assert model.skills_html(catalogue, "no such model") == ""


def test_the_benchmarks_page_shows_cautions(catalogue):
    html = cards.grid_html(catalogue.board)
    cautions = [get_benchmark(name).caution for name in benchmark_names()]
    assert "82.59 to 63.37" in get_benchmark("aro").caution
    assert all(str(escape(caution)) in html for caution in cautions)
