"""Error analysis: which examples each model gets wrong, by which margin, what goes with it, and the page."""

import base64
import gzip
import json
import re

import numpy as np
import pytest
from report_support import AWAY, HERE, answers, groups, matching, retrieval, write
from sklearn.metrics import cohen_kappa_score

from vl_assay.metrics.common.errors import UnknownNameError
from vl_assay.metrics.records.schema import DetectionRow, MatchingRow, TextSimilarityRow
from vl_assay.metrics.results.errors.analysis import errors
from vl_assay.metrics.results.errors.cards import cards_html
from vl_assay.metrics.results.errors.outcomes import ExampleData, Thumbnail

QUICK = {"resamples": 100}
ITM = {"sugarcrepe_itm": {}}


def outcomes(analysis, model=0):
    task = analysis.tasks[0]
    return {task.keys[n]: task.models[model].outcome(n) for n in range(len(task))}


def cards_of(page):
    """The HTML of each task's cards, as the page's script unpacks it."""
    data = json.loads(re.search(r'id="tasks-data">(.*?)</script>', page, re.DOTALL)[1])
    return [json.loads(gzip.decompress(base64.b64decode(task["cards"]))) for task in data]


@pytest.fixture
def two_models(tmp_path):
    """Two models on six examples of three images; the scales of their scores differ."""
    first = [[0.9, 0.1], [0.2, 0.9], [0.5, 0.6], [0.4, 0.4], [0.7, 0.6], [0.8, 0.2]]
    second = [[10, 90], [20, 90], [60, 50], [70, 40], [70, 60], [90, 10]]
    paths = [
        write(tmp_path / f"{model}.parquet", matching(scores), metrics=ITM, model=model)
        for model, scores in (("a", first), ("b", second))
    ]
    return errors(*paths, **QUICK)


def test_wrong_and_tied_examples_are_errors_with_margins_of_each_models_own_scale(two_models):
    task = two_models.tasks[0]
    expected = ["right", "wrong", "wrong", "tie", "right", "right"]
    assert list(outcomes(two_models).values()) == expected
    assert task.models[0].errs.tolist() == [each in ("wrong", "tie") for each in expected]
    assert task.models[0].margins.tolist() == pytest.approx([0.8, -0.7, -0.1, 0, 0.1, 0.6])
    # Of |margin| 80, 70, 10, 30, 10, 80 the share below each.
    assert task.models[1].confidence.tolist() == pytest.approx([4 / 6, 3 / 6, 0, 2 / 6, 0, 4 / 6])


def test_the_most_confident_errors_come_first_and_filters_say_who_errs(two_models):
    task = two_models.tasks[0]
    assert task.select().tolist() == [0, 1, 2, 3]
    assert task.select(0).tolist() == [1, 2, 3]
    assert task.select("all").tolist() == [1]
    assert task.select("disagree").tolist() == [0, 2, 3]
    assert sorted(task.select("none")) == [4, 5]
    assert len(task.select("every")) == 6
    assert task.select("any", "swap_obj").tolist() == [0, 2]
    for wrong in ({"who": 2}, {"who": "nobody"}, {"category": "swop_obj"}):
        with pytest.raises(UnknownNameError):
            task.select(**wrong)


def test_agreement_is_that_of_sklearn(tmp_path):
    rng = np.random.default_rng(0)
    scores = rng.random((3, 200, 2)).round(1)
    scores[1, :100] = scores[0, :100]
    paths = [
        write(tmp_path / f"{n}.parquet", matching(each), metrics=ITM, model=f"m{n}") for n, each in enumerate(scores)
    ]
    found = errors(*paths, **QUICK)
    errs = [model.errs for model in found.tasks[0].models]
    pairs = [(0, 1), (0, 2), (1, 2)]
    for each, (one, two) in zip(found.summaries[0].agreements, pairs, strict=True):
        assert each.kappa == pytest.approx(cohen_kappa_score(errs[one], errs[two]))
        assert (each.counts[0] + each.counts[3]) / 200 == pytest.approx((errs[one] == errs[two]).mean())
        assert sum(each.counts) == 200
        assert f"kappa {each.kappa:.2f}" in str(each)


def test_words_that_go_with_errors_are_found_within_their_category(tmp_path):
    rng = np.random.default_rng(0)
    colours = rng.choice(["red", "blue", "green"], 400)
    wrong = rng.random(400) < np.where(colours == "red", 0.7, 0.2)
    rows = matching([[0, 1] if each else [1, 0] for each in wrong])
    captions = {row.id: (f"a {c} cat", f"a {c} dog") for row, c in zip(rows, colours, strict=True)}
    path = write(tmp_path / "a.parquet", rows, metrics=ITM)
    found = errors(path, data=lambda _: ExampleData(captions), **QUICK)
    table = found.summary()
    first = table.iloc[0]
    assert (first["kind"], first["name"]) == ("in both captions", "red")
    assert first["rate"] == pytest.approx(wrong[colours == "red"].mean())
    assert first["p_value_holm"] < 0.001
    assert table[table["p_value_holm"] <= 0.05]["name"].isin(["red", "blue", "green"]).all()
    assert "“red” in both captions" in found.verdicts[0]
    assert "swap_obj" not in found.verdicts[0]


@pytest.mark.parametrize(
    ("rows", "metrics", "margins", "expected"),
    [
        # Of the last group the captions of an image are tied, and the images of a caption are confused.
        (groups([[[3, 1], [2, 4]], [[3, 2], [4, 5]], [[1, 1], [0, 2]], [[1, 1], [2, 3]]]), {"group_match": {}},
         [1, -1, 0, -1], ["right", "wrong", "tie", "wrong"]),
        (retrieval([[3, 1, 2], [5, 1, 4], [0, 0, 7]]), {"retrieval_recall": {"pool": "shared", "ks": [1]}},
         [1, -4, 7], ["right", "wrong", "right"]),
        (answers([2.0, -3.0, 0.0, -1.0]), {"yes_no_f1": {}}, [2, -3, 0, 1],
         ["right", "wrong", "no answer", "right"]),
        # Both the caption and its hard positive are to outscore the hard negative.
        (matching([[3, 2, 1], [3, 1, 2], [1, 2, 2]]), {"augmented_accuracy": {}, "brittleness": {}}, [1, -1, -1],
         ["right", "wrong", "wrong"]),
        # Brittle: one of the two alone; lower is better. Of a tie it says that it is not brittle.
        (matching([[3, 2, 1], [3, 1, 2], [1, 1, 2]]), {"brittleness": {}}, [1, -1, -1], ["right", "wrong", "right"]),
    ],
    ids=["groups", "retrieval", "vqa", "hard positives", "lower is better"],
)  # fmt: skip
def test_every_task_type_has_margins_and_outcomes(rows, metrics, margins, expected, tmp_path):
    found = errors(write(tmp_path / "a.parquet", rows, metrics=metrics), **QUICK)
    assert found.tasks[0].models[0].margins.tolist() == margins
    assert list(outcomes(found).values()) == expected
    assert len(list(cards_html(found.tasks[0], found.tasks[0].select("every"), {}))) == len(expected)


def test_captions_that_are_compared_are_shown_in_pairs(tmp_path):
    rows = [
        TextSimilarityRow("a", "c", "c", [], [0], [[0.5, 0.7, 0.1]], cluster="k"),
        TextSimilarityRow("b", "c", "c", [], [0], [[0.9, 0.7, 0.1]], cluster="k"),
    ]
    path = write(tmp_path / "a.parquet", rows, metrics={"aro_itm": {"task": "order"}})
    captions = {"a": ("a red cat", "a crimson cat", "a blue cat")}
    [task] = errors(path, data=lambda each: ExampleData(captions)).tasks
    assert task.models[0].margins.tolist() == pytest.approx([-0.2, 0.2])
    assert task.clusters.tolist() == [0, 0], "of one photograph"
    [card, other] = map(str, cards_html(task, task.select("every"), {}))
    texts = [re.sub(r"<[^>]+>", "", line) for line in re.findall(r"<tr.*?</tr>", card, re.DOTALL)]
    lines = [" ".join(text.split()) for text in texts]
    assert [line for line in lines if "/" in line] == [
        "positive a red cat / a crimson cat 0.5",
        "negative a red cat / a blue cat 0.7",
        "negative a crimson cat / a blue cat 0.1",
    ]
    assert "pair 3" in other, "without captions"


def detected(pair, positive, box, score):
    phrases = [{"text": "a <b>", "start": 0, "end": 5}]
    boxes, scores = ([[box]], [[score]]) if box else ([[]], [[]])
    return DetectionRow(
        f"{pair}{positive}", "val", "objects", [f"i{pair}{positive}"], positive, pair, phrases,
        [[HERE] if positive else []], boxes, scores, cluster=pair,
    )  # fmt: skip


def test_boxes_on_a_distractor_are_errors_and_are_drawn(tmp_path):
    rows = [detected("p", True, HERE, 0.9), detected("p", False, AWAY, 0.3)]
    rows += [detected("q", True, HERE, 0.5), detected("q", False, AWAY, 0.8)]
    rows += [detected("r", True, AWAY, 0.7), detected("r", False, None, 0)]
    metrics = {"cpd_ap": {}, "grounding_recall": {}, "group_recall_at_1": {}}
    found = errors(write(tmp_path / "a.parquet", rows, metrics=metrics, task="val"), **QUICK)
    [task] = found.tasks
    assert list(outcomes(found).values()) == ["right", "wrong", "wrong"]
    np.testing.assert_allclose(task.models[0].margins, [0.6, -0.3, np.nan])
    pictures = {key: Thumbnail("data:,", 60, 60) for key in ("iqTrue", "iqFalse")}
    [on_distractor] = cards_html(task, [1], pictures)
    assert re.findall(r'<rect class="(\w+)" x="([\d.]+)"', on_distractor) == [
        ("true", "0.0"), ("right", "0.0"), ("wrong", "50.0"),
    ]  # fmt: skip
    assert "on a distractor (0.8)" in on_distractor
    [wrong_place] = cards_html(task, [2], {})
    assert "wrong place (0.7)" in wrong_place
    assert "<img" not in wrong_place
    assert "a &lt;b&gt;" in wrong_place


def test_models_that_lack_an_image_are_compared_on_the_others(tmp_path):
    rows = matching([[1, 0], [0, 1], [1, 0]])
    lacking = MatchingRow("1", "itm", "swap_att", [""], [0], None)
    write(tmp_path / "a.parquet", rows, metrics=ITM, model="a")
    write(tmp_path / "b.parquet", [rows[0], lacking, rows[2]], metrics=ITM, model="b")
    found = errors(tmp_path, **QUICK)
    assert list(outcomes(found, 1).values()) == ["right", "", "right"]
    assert sum(found.summaries[0].agreements[0].counts) == 2
    assert len(found.to_pandas()) == 5
    assert "no prediction" in next(iter(cards_html(found.tasks[0], [1], {})))
    of_category = errors(tmp_path, category="swap_att", **QUICK)
    assert of_category.tasks[0].labels == ["a"]
    assert "a errs on 100.0 % of 1 examples" in of_category.verdicts[0]


def test_tasks_and_versions_of_data_are_apart_and_one_model_has_one_label(tmp_path):
    rows = matching([[1, 0], [0, 1]])
    paths = [
        write(tmp_path / f"{seed}.parquet", rows, metrics=ITM, fingerprint=str(seed) * 64, options={"seed": seed})
        for seed in (1, 2)
    ]
    paths.append(write(tmp_path / "vqa.parquet", answers([1.0, 1, 1, 1]), metrics={"yes_no_f1": {}}, task="vqa"))
    found = errors(*paths, **QUICK)
    assert [task.where for task in found.tasks] == [
        "toy_scenes (itm: seed 1)", "toy_scenes (itm: seed 2)", "toy_scenes (vqa)",
    ]  # fmt: skip
    assert {label for task in found.tasks for label in task.labels} == {"a"}


def test_categories_restrict_examples_and_unknown_ones_are_refused(two_models, tmp_path):
    found = errors(tmp_path / "a.parquet", category="swap_att", **QUICK)
    assert list(found.tasks[0].categories) == [("swap_att",)] * 3
    assert found.tasks[0].models[0].confidence.tolist() == [4 / 6, 0, 3 / 6]  # among all six examples
    with pytest.raises(UnknownNameError, match=r"unknown category 'swop_att'; known: swap_obj, swap_att"):
        errors(tmp_path / "a.parquet", category=["swap_obj", "swop_att"], **QUICK)


def test_the_page_needs_nothing_else_and_escapes_what_others_wrote(tmp_path):
    bad = "</script><script>alert(1)</script>&<img src=x onerror=alert(1)>"
    rows = [MatchingRow(f"{n} {bad}", "itm", bad, ["i"], [0], [[0.0, 1.0]]) for n in range(3)]
    path = write(tmp_path / "a.parquet", rows, metrics={"sugarcrepe_itm": {"forms": {bad: bad}}}, model=bad)
    captions = {row.id: (f"a cat {bad}", f"a dog {bad}") for row in rows}
    found = errors(path, data=lambda _: ExampleData(captions, note=bad), **QUICK)
    page = found.write(tmp_path / "errors.html", limit=2).read_text(encoding="utf-8")
    [cards] = cards_of(page)
    for html in (page, found._repr_html_(), *cards):
        assert "<script>alert" not in html
        assert "<img src=x" not in html
    assert page.count("<script") == 3
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?http", page)
    assert "a <mark>cat</mark>" in cards[0]
    assert len(cards) == 2
    assert "the page holds 2 of 3 examples" in page


def test_images_are_embedded_once_and_within_a_size(tmp_path, monkeypatch):
    from vl_assay.metrics.results.errors import page as page_module

    def thumbnails(keys):
        return {key: Thumbnail("data:image/jpeg;base64," + "A" * 1000, 40, 30) for key in keys}

    path = write(tmp_path / "a.parquet", matching([[0, 1]] * 6), metrics=ITM)  # three images
    data = ExampleData(thumbnails=thumbnails)
    found = errors(path, data=lambda _: data, **QUICK)
    assert found.write(tmp_path / "a.html").read_text("utf-8").count("A" * 1000) == 3
    monkeypatch.setattr(page_module, "MOST_IMAGE_BYTES", 2_500)
    page = found.write(tmp_path / "a.html").read_text("utf-8")
    assert page.count("A" * 1000) == 2
    assert "1 images beyond" in page
