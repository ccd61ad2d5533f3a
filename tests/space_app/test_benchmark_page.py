"""The pages Benchmarks, Compare, Errors and Model as HTML: levels, audits, verdicts, examples, pictures and skills."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from space_support import ITM
from submission_support import MemoryStorage

from vl_assay.hub_datasets import benchmark_names, get_benchmark, load_examples
from vl_assay.hub_datasets.authoring.audit.blind import shipped_levels
from vl_assay.hub_datasets.core.benchmarks import get_task, main_scores
from vl_assay.hub_datasets.reports.skills import read_skill_profile
from vl_assay.metrics.common.errors import DataError, PredictionsError
from vl_assay.metrics.common.formatting import percent
from vl_assay.metrics.modules.discovery import get_spec
from vl_assay.metrics.results.errors.cards import gallery_html
from vl_assay.space_app.board.board import Board
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import BoardColumn, BoardEntry
from vl_assay.space_app.board.launch import shipped_predictions
from vl_assay.space_app.pages import cards, compare, gallery, model
from vl_assay.space_app.pages.plots import profile

pytestmark = pytest.mark.usefixtures("toy")


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue(MemoryStorage())


def cells(html):
    """The texts of a table's cells, line by line."""
    lines = re.findall(r"<tr[^>]*>(.*?)</tr>", html, re.DOTALL)
    return [
        [unescape(re.sub("<[^>]+>", " ", cell)).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", line)]
        for line in lines
    ]


def images(html):
    return [base64.b64decode(code) for code in re.findall(r'src="data:image/(?:png|jpeg);base64,([^"]*)"', html)]


def test_levels_of_references_and_of_chance_are_those_of_the_board_and_of_the_metrics(catalogue):
    head, *lines = cells(cards.references_html(catalogue.board, "toy_scenes"))
    assert set(head) == {"score", "Chance", "text alone", "mock:bag-of-words", "mock:constant"}
    found = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    bag = catalogue.board.entry(ITM, "mock:bag-of-words", "recomputed").value
    assert found["itm · accuracy"]["mock:bag-of-words"] == f"{100 * bag:.1f}"
    chance = {"itm · accuracy": "50.0", "order · accuracy": "20.0", "hard positives · brittleness ↓": "33.3"}
    assert {name: found[name]["Chance"] for name in chance} == chance
    assert {"detection · grounding recall@1", "detection · group recall@1"} <= set(found)
    assert len(found) == len(lines)
    # What always has two captions has a level of chance; the number of orders may vary.
    assert BoardColumn("aro", "relation", "aro_itm", "macro_accuracy", "verb").chance == 1 / 2
    assert BoardColumn("toy_scenes", "order", "itm_accuracy", "accuracy").chance is None
    head, *sugarcrepe = cells(cards.references_html(catalogue.board, "sugarcrepe"))
    assert {"Vera", "Grammar model"} <= set(head)
    level = shipped_levels("sugarcrepe")["itm"]["metrics"]["sugarcrepe_itm"]["macro_accuracy"]
    assert sugarcrepe[0][:3] == ["itm · macro accuracy", "50.0", f"{100 * level:.1f}"]


def test_the_page_of_every_benchmark_can_be_drawn(catalogue):
    grid = cards.grid_html(catalogue.board)
    for name in benchmark_names():
        essentials, rest = cards.card(name)
        assert [part[:3] for part in (essentials, rest)] == ["## ", "## "]
        assert ("<table" in cards.audit_html(name)) is (cards.read_audit(name) is not None)
        references = cards.references_html(catalogue.board, name)
        chance = {
            BoardColumn(name, task.name, metric, score.name).chance
            for task in get_benchmark(name).tasks
            for metric in task.metrics
            for score in get_spec(metric).scores
        }
        assert {percent(level) for level in chance - {None}} <= {cell for line in cells(references) for cell in line}
        assert not [text for text in ("none yet", "not measured", "Not audited", "Error") if text in references + grid]
        assert cards.question(name).endswith("?")
        for task, metric, score in main_scores(name):
            assert metric in get_task(name, task).metrics
            assert get_spec(metric).score(score) is not None


def test_an_audit_is_a_table_of_what_was_found_best_first(monkeypatch):
    scorers = {
        "words <b>": {"kind": "probe", "accuracy": 0.51, "interval": [0.49, 0.53], "tie_rate": 0.0},
        "final_stop": {"kind": "rule", "accuracy": 0.662, "interval": [0.65, 0.67], "tie_rate": 0.1},
        "vera": {"kind": "blind_model", "accuracy": 0.5, "interval": None, "tie_rate": 0.1},
    }
    for found in scorers.values():
        found["per_category"] = {"swap_<b>": {"accuracy": 0.7, "interval": [0.6, 0.8]}}
    audit = {"categories": {"swap_<b>": 9}, "scorers": scorers}
    solved = scorers["vera"] | {"per_category": {"other": {"accuracy": 1.0, "interval": [1.0, 1.0]}}}
    unrefined = {"categories": {"other": 9}, "scorers": {"vera": solved}}
    monkeypatch.setattr(cards, "read_audit", lambda name: {"sugarcrepe/itm": audit, "sugarcrepe/unrefined": unrefined})
    html = cards.audit_html("sugarcrepe")
    assert cells(html)[1:] == [
        ["itm: final stop", "66.2", "65.0 – 67.0", "rule"],
        ["itm: words <b>", "51.0", "49.0 – 53.0", "probe"],
        ["itm: vera", "50.0", "–", "blind model"],
        ["unrefined: vera", "50.0", "–", "blind model"],
    ]
    # The unrefined pairs are not scored by default.
    assert "<p>swap_&lt;b&gt; (70.0 %) can be guessed without it more often than by chance.</p>" in html
    assert "<b>" not in html


def test_the_cards_show_the_best_model_and_what_text_alone_reaches_and_build_nothing(catalogue, monkeypatch):
    monkeypatch.setattr(cards, "known_examples", lambda *args, **options: pytest.fail("data were loaded"))
    html = cards.grid_html(catalogue.board)
    found = {re.sub("<[^>]+>", "", card[: card.index("</h2>")]).strip(): card for card in html.split("<h2>")[1:]}
    assert len(found) == len(benchmark_names())
    best = catalogue.board.entry(ITM, "demo-clip", "recomputed")
    assert f"demo-clip: {100 * best.value:.1f} % [{100 * best.interval[0]:.1f}" in found["Toy Scenes"]
    assert "<dt>text alone</dt><dd>83.7 %</dd>" in found["SugarCrepe"]
    assert "add_att (99.9 %) and add_obj (99.7 %) can be solved without the image." in found["SugarCrepe"]


def test_examples_have_texts_and_those_of_toy_scenes_their_images():
    data = load_examples("toy_scenes")[0]
    html = cards.examples_html("toy_scenes")
    _, *lines = cells(html)
    assert [line[0] for line in lines[:2]] == ["test-000000/add_att", "test-000000/add_obj"]
    assert all(text in lines[0][2] for text in data.examples[0].captions)
    shown = images(html)
    assert len(shown) == 5 * 6 + 5  # five of each of six tasks, and groups have two
    ours, theirs = (Image.open(io.BytesIO(each)) for each in (shown[0], data.image_bytes(data.examples[0].images[0])))
    assert ours.tobytes() == theirs.convert("RGB").tobytes()


def data_of(content, benchmark="toy_scenes"):
    """The part of `TaskData` that pictures need."""

    def image_bytes(key):
        if isinstance(content, Exception):
            raise content
        return content

    return SimpleNamespace(benchmark=benchmark, image_bytes=image_bytes)


def test_a_picture_that_is_not_ours_damaged_missing_or_large_does_no_harm():
    assert {name for name in benchmark_names() if cards.may_show(name)} == {"toy_order", "toy_scenes"}
    [data] = load_examples("toy_scenes/itm")
    example, good = data.examples[0], data.image_bytes(data.examples[0].images[0])
    assert len(images(cards.pictures_html(data_of(good), example))) == 1
    assert cards.pictures_html(data_of(good, "sugarcrepe"), example) == ""
    assert cards.pictures_html(data_of(good), replace(example, images=("",))) == ""
    damaged = (b"", b"no image", good[: len(good) // 2], good[:40] + b"\0" * 60 + good[100:])
    for content in (*damaged, DataError("the images have changed")):
        assert cards.pictures_html(data_of(content), example) == ""
    file = io.BytesIO()
    Image.new("P", (900, 300)).save(file, "PNG")
    html = cards.pictures_html(data_of(file.getvalue()), replace(example, id="<'>"))
    assert Image.open(io.BytesIO(images(html)[0])).size == (128, 43)
    assert "<'>" not in html


def loaded(catalogue, task, *models):
    """The errors of some models on a task of toy_scenes."""
    known = gallery.recomputed(catalogue.board)[f"toy_scenes/{task}"]
    return gallery.load_errors(catalogue, f"toy_scenes/{task}", {model: known[model] for model in models})


def titles(html):
    return re.findall(r"<h3>([^<]+)</h3>", html)


def test_errors_are_shown_with_captions_scores_and_images_or_say_why_not(catalogue, monkeypatch):
    load_examples("toy_scenes/itm")
    found = loaded(catalogue, "itm", "demo-clip", "mock:bag-of-words")
    html = gallery_html(found, "disagree", start=12, count=5)
    assert "Examples 13 to 17 of" in html
    assert "A demo-clip · B mock:bag-of-words" in html
    rows = {row.id: row for row in catalogue.predictions(catalogue.board.recomputed(ITM)["demo-clip"]).rows}
    assert len(titles(html)) == 5
    assert all(f"{score:.4g}" in html for name in titles(html) for score in rows[name].scores[0])
    assert len(images(gallery_html(found, "disagree", count=len(found)))) > 50

    monkeypatch.setattr(gallery, "may_show", lambda name: False)
    html = gallery_html(loaded(catalogue, "itm", "demo-clip"), count=100)
    assert images(html) == []
    assert "licences do not allow a leaderboard to show them" in html
    assert "<mark>" in html

    def refuse(metadata):
        raise PredictionsError("the data are not on this server")

    monkeypatch.setattr(gallery, "expected", refuse)
    html = gallery_html(loaded(catalogue, "itm", "demo-clip"))
    assert "the data are not on this server" in html
    assert "caption 1" in html


def recomputed(model, *tasks, value=0.5, is_baseline=False):
    """Entries of a model that was recomputed on some tasks of toy_scenes."""
    return [
        BoardEntry(
            model=model,
            **ITM._replace(task=task)._asdict(),
            value=value,
            n=100,
            origin="recomputed",
            source="made for a test",
            predictions=f"{model}/{task}",
            is_baseline=is_baseline,
        )
        for task in tasks
    ]


def test_the_page_opens_with_the_two_best_models_of_a_main_score_and_with_references_only_without_others(catalogue):
    column, chosen = compare.opening(catalogue.board)
    assert column == ITM
    assert [entry.model for entry in chosen] == ["demo-clip", "mock:bag-of-words"]
    mocks = [entry for name in "xy" for entry in recomputed(name, "itm", value=0.9, is_baseline=True)]
    models = [
        entry for name, value in (("a", 0.5), ("b", 0.7), ("c", 0.6)) for entry in recomputed(name, "itm", value=value)
    ]
    for some, names in (([*mocks, *models], ["b", "c"]), ([*mocks, models[0]], ["a", "x"]), (mocks, ["x", "y"])):
        assert [entry.model for entry in compare.opening(Board(some))[1]] == names
    assert compare.opening(Board(models[:1])) is None


def verdict(chosen, differences, column=ITM):
    """The sentences on models whose paired differences from the best are given with their intervals and p-values."""

    def difference(one, two, column):
        found = differences[two.partition("/")[0]]
        if isinstance(found, str):
            raise PredictionsError(found)
        value, low, high, p = found
        return {"difference": value, "difference_interval": [low, high], "permutation_p_value": p, "n": 100}

    stand_in = SimpleNamespace(paired=SimpleNamespace(difference=difference), board=Board(chosen))
    html = compare.verdict_html(stand_in, column, chosen)
    sentences = re.findall(r'<(?:h2|p) class="assay-verdict.*?</(?:h2|p)>', html, re.DOTALL)
    return [" ".join(unescape(re.sub("<[^>]+>", "", sentence)).split()) for sentence in sentences]


def test_the_verdict_says_which_model_is_better_or_that_they_cannot_be_told_apart():
    one, two, three = (
        recomputed(name, "itm", value=value)[0] for name, value in (("<a>", 0.7), ("b", 0.6), ("c", 0.65))
    )
    better = "<a> is better than b by 10.0 points [8.0 – 12.0], p < 0.001."
    assert verdict([two, one], {"b": (0.1, 0.08, 0.12, 0.0001)}) == [better]
    apart = "<a> and c cannot be told apart: they differ by 5.0 points [-0.1 – +10.0], p = 0.060."
    # Each pair is tested by itself.
    assert verdict([one, two, three], {"b": (0.1, 0.08, 0.12, 0.0001), "c": (0.05, -0.001, 0.1, 0.06)}) == [
        apart,
        better,
    ]
    both = {"b": (0.1, 0.01, 0.12, 0.03), "c": (0.05, 0.01, 0.1, 0.03)}
    assert all("is better" in sentence for sentence in verdict([one, two, three], both))


def test_the_best_of_all_examples_may_be_worse_on_shared_ones_and_only_tests_are_counted():
    chosen = [recomputed(name, "itm", value=value)[0] for name, value in (("a", 0.7), ("b", 0.6), ("c", 0.5))]
    worse = "b is better than a by 10.0 points [8.0 – 12.0], p = 0.040."
    assert verdict(chosen[:2], {"b": (-0.1, -0.12, -0.08, 0.04)})[0] == worse
    # Neither a score that is not defined nor models without a common example takes a p-value, or is a test.
    for none in ((None, 0, 0, 1.0), "they share no example"):
        first, second = verdict(chosen, {"b": none, "c": (-0.1, -0.12, -0.08, 0.04)})
        assert "a and b cannot be compared" in first
        assert second == worse.replace("b", "c", 1)


def test_the_verdict_knows_that_less_brittle_is_better_and_that_papers_cannot_be_tested():
    column = BoardColumn("toy_scenes", "hard_positives", "brittleness", "brittleness")
    one, two = (
        replace(recomputed(name, "itm", value=value)[0], **column._asdict()) for name, value in (("a", 0.2), ("b", 0.3))
    )
    better = "a is better than b by 10.0 points [8.0 – 12.0], p = 0.010."
    assert verdict([two, one], {"b": (-0.1, -0.12, -0.08, 0.01)}, column) == [better]
    papers = [replace(entry, origin="published", predictions="") for entry in (two, one)]
    # 1.96 * sqrt(0.2 * 0.8 / 100 + 0.3 * 0.7 / 100) = 0.119
    head, further = verdict(papers, {}, column)
    assert head == "a is ahead of b by 10.0 points [-1.9 – +21.9]."
    assert "The 95 % interval is unpaired, from the numbers of examples" in further
    for others in ([replace(entry, n=None) for entry in papers], [replace(papers[0], value=0.0), papers[1]]):
        head, further = verdict(others, {}, column)
        assert "[" not in head
        assert "no interval, since this score is no share, a share is 0 or 100 %, or the number" in further


def test_published_macro_averages_have_an_unpaired_interval_from_their_categories(catalogue):
    column = ITM._replace(benchmark="sugarcrepe", score="macro_accuracy")
    pair = [catalogue.board.entry(column, name, "published") for name in ("NegCLIP", "CLIP ViT-B/32")]
    categories = catalogue.board.categories(column)
    parts = [catalogue.board.entry(each, entry.model, "published") for entry in pair for each in categories]
    assert len(parts) == 14
    reach = 1.96 * sum(part.value * (1 - part.value) / part.n for part in parts) ** 0.5 / 7
    difference = pair[0].value - pair[1].value
    interval = compare.unpaired_interval(catalogue.board, *pair)
    assert interval == pytest.approx((difference - reach, difference + reach))


def test_the_model_page_and_the_document_show_the_skills_of_the_models_predictions(catalogue):
    files = [path for path in shipped_predictions().values() if path.name.startswith("demo-clip.")]
    profile = read_skill_profile(files)
    html = model.skills_html(catalogue, "demo-clip")
    assert {score.skill for score in profile.scores} >= {"object", "binding", "order", "paraphrase"}
    for score in profile.scores:
        assert re.search(rf"{score.skill}</th>\s*<td[^>]*>\s*{re.escape(percent(score.corrected))}", html)
    assert model.skills_html(catalogue, "no such model") == ""
    [found] = [score for score in profile.scores if score.skill == "object"]
    text = " ".join((Path(cards.__file__).parents[2] / "docs" / "skills.md").read_text(encoding="utf-8").split())
    printed = f"object is {percent(found.corrected)} above chance, and text alone reaches {percent(found.text_alone)}"
    assert printed in text


def test_the_model_page_has_scores_with_their_sources(catalogue):
    main = model.profile_html(catalogue, "demo-clip")
    assert all(text in main for text in ("84.3", "83.4 – 85.1", "All scores on Toy Scenes"))
    assert "SHA-256 of the predictions" in model.provenance_html(catalogue, "demo-clip")


def test_a_profile_has_a_line_for_each_category_with_intervals_and_the_whole_comes_last():
    column = ITM._replace(benchmark="sugarcrepe", score="macro_accuracy")

    def entry(model, value, category, origin="recomputed", interval=None):
        place = column._replace(category=category)._asdict()
        return BoardEntry(model=model, **place, value=value, interval=interval, origin=origin, source="source")

    entries = [entry("a", 0.5, "", interval=(0.4, 0.75)), entry("a", 0.25, "swap_obj"), entry("b", 0.75, "swap_obj")]
    html = profile(column, entries)
    _, swapped, whole = ([" ".join(cell.split()) for cell in line] for line in cells(html))
    assert swapped == ["swap obj", "25.0", "75.0"]
    assert whole == ["all", "50.0 40.0 – 75.0", "–"]
    assert "SugarCrepe itm · macro accuracy, % by category" in html
    # The axis begins at 25 - 3 and ends at 75 + 3.
    assert "left:32.14%;width:62.5%" in html
    assert html.count('<b class="assay-mark m1"') == 2  # in the key and in one category
    evil = '<a href="javascript:alert(1)">x</a><script>alert(1)</script>'
    both = profile(column, [entry("a", 0.1, "x"), entry("a", 0.2, "x", "published"), entry(evil, 0.3, "x")])
    assert cells(both)[0][-3:] == ["a (recomputed)", "a (published)", evil]
    assert "<a" not in both
    assert "<script" not in both
