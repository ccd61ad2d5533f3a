"""A folder with answers to several configurations, in one or more orders of the captions."""

from __future__ import annotations

import json

import pytest
import sources_sugarcrepe
from released_counts import GPT4V
from support import UNVERIFIED

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.core.examples import load_examples
from vl_assay.hub_datasets.published.tables import get_table
from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict
from vl_assay.model_wrappers.reproduce.reproduce import reproduce

RIGHT, WRONG, NEITHER = "right", "wrong", "neither"


def released(path, answers):
    """Write answers as GPT-4V's were released: each a key, the positive and the negative caption, and what was said."""
    content = {}
    for key, captions, said in answers:
        chosen = {RIGHT: captions[0], WRONG: captions[1], NEITHER: None}[said]
        answer = {"free_form_answer": "(1)", "multiple_choice_answer": chosen}
        texts = {"caption": captions[0], "negative_caption": captions[1]}
        content[key] = {"answer": answer, **texts, "filename": "x.jpg", "correct": said == RIGHT}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**content, "accuracy": 0.5}))  # the stray number of one released file


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sugarcrepe")
    sources_sugarcrepe.make(folder)
    return folder


def run(folder, data, out, part="sugarcrepe/swap_obj", **settings):
    [path] = predict(
        f"precomputed:{folder}", part, data_dir=data, options=UNVERIFIED, settings=settings, out=out, progress=False
    )
    return path


def test_two_orders_are_averaged_by_half_ties_and_both_count_by_default(data, tmp_path):
    [task] = load_examples("sugarcrepe/swap_obj", data_dir=data, options=UNVERIFIED, needs_images=False)
    first = [RIGHT, RIGHT, WRONG, NEITHER, NEITHER, WRONG]
    second = [RIGHT, WRONG, RIGHT, RIGHT, NEITHER, WRONG]
    for order, said in (("negative-first", first), ("positive-first", second)):
        rows = [(each.id.split("/")[1], each.captions, what) for each, what in zip(task.examples, said, strict=True)]
        released(tmp_path / "gpt" / order / "gpt4v-swap_obj.json", [*rows, ("108", ("a", "b"), RIGHT)])
        released(tmp_path / "gpt" / order / "gpt4v-add_att.json", [])
    path = run(tmp_path / "gpt", data, tmp_path / "out")
    predictions = read_predictions(path)
    assert predictions.metadata["model"]["settings"]["orders"] == "negative-first, positive-first"
    facts = predictions.metadata["run"]
    assert (facts["answers"], facts["no_answer"]) == (14, 3)
    assert (facts["unknown_answers_swap_obj"], facts["unknown_right_swap_obj"]) == (2, 2)
    # 2 of 6 + 3 of 6: an average of 5 / 12; both are right once.
    assert report(path, ties="half", resamples=100)[0].scores["accuracy"] == pytest.approx((2 + 3) / 12)
    assert report(path, resamples=100)[0].scores["accuracy"] == 1 / 6
    alone = run(tmp_path / "gpt" / "positive-first", data, tmp_path / "alone")
    alone.rename((tmp_path / "alone" / "GPT-4V-33").mkdir() or tmp_path / "alone" / "GPT-4V-33" / alone.name)
    one = reproduce("sugarcrepe-6", models=["gpt-4v"], predictions=tmp_path / "alone")
    assert one.marks == {"GPT-4V [33]": "one order of captions: positive-first"}
    assert [each.ours for each in one.comparisons if each.column.name == "SWAP Object"] == [3 / 6]
    assert "the answers of one order of the captions, positive-first, where the paper averages both" in one.remarks[-1]
    # In a reproduction the average is taken without being asked, and said.
    path.rename((tmp_path / "out" / "GPT-4V-33").mkdir() or tmp_path / "out" / "GPT-4V-33" / path.name)
    result = reproduce("sugarcrepe-6", models=["gpt-4v"], predictions=tmp_path / "out")
    [cell] = [one for one in result.comparisons if one.column.name == "SWAP Object"]
    assert cell.ours == pytest.approx(5 / 12)
    [remark] = [remark for remark in result.remarks if remark.startswith("GPT-4V [33]")]
    assert "the average over negative-first and positive-first: an example counts one half where the answers" in remark
    # (5 + 2) / (12 + 2)
    assert "with the released answers to what the data lack (2 of swap_obj), swap_obj would be 50.00 %" in remark


def test_an_example_without_an_answer_in_one_order_is_an_error(data, tmp_path):
    [task] = load_examples("sugarcrepe/swap_obj", data_dir=data, options=UNVERIFIED, needs_images=False)
    rows = [(each.id.split("/")[1], each.captions, RIGHT) for each in task.examples]
    released(tmp_path / "a" / "negative-first" / "gpt4v-swap_obj.json", rows)
    released(tmp_path / "a" / "positive-first" / "gpt4v-swap_obj.json", rows[1:])
    with pytest.raises(ModelError, match=r"a/positive-first: no prediction for 1 of 6 examples: swap_obj/0"):
        run(tmp_path / "a", data, tmp_path / "out")
    with pytest.raises(ModelError, match=r"no file in a/negative-first is of swap_att; there are gpt4v-swap_obj\.json"):
        run(tmp_path / "a", data, tmp_path / "out", "sugarcrepe/swap_att")


def test_the_released_folder_gives_gpt_4vs_row_to_the_printed_digits(shared_data, tmp_path):
    source, folder = shared_data / "data" / "sugarcrepe" / "gpt4v", tmp_path / "gpt-4v-results"
    (folder / "negative-first").mkdir(parents=True)
    printed = {column.score[1]: float(text) / 100 for column, text in zip(*_row("GPT-4V [33]"), strict=True)}
    expected = {}
    for category, (right, examples) in GPT4V.items():
        text = (source / "negative-first" / f"gpt4v-{category}.json").read_text()
        (folder / "negative-first" / f"gpt4v-{category}.json").write_text(text)
        # The other order by construction: as many right answers as the printed average asks for.
        more = round(2 * printed[category] * examples) - right
        answers = [(key, (each["caption"], each["negative_caption"]), RIGHT if place < more else WRONG)
                   for place, (key, each) in enumerate(json.loads(text).items())]  # fmt: skip
        released(folder / "positive-first" / f"gpt4v-{category}.json", answers)
        # The answers of key "108" of swap_obj, to an example that the data lack, are right in both orders.
        gone = int(category == "swap_obj")
        expected[category] = (right + more - 2 * gone) / (2 * (examples - gone))
    result = reproduce(
        "sugarcrepe-6", models=["GPT-4V"], use={"GPT-4V": f"precomputed:{folder}"}, progress=False,
        data_dir=shared_data / "data", out=tmp_path / "out",
    )  # fmt: skip
    cells = {each.column.name: each for each in result.comparisons}
    assert {cell.column.score[1]: cell.ours for cell in cells.values() if cell.column.average == "category"} == (
        pytest.approx(expected, abs=1e-12)
    )
    assert [name for name, cell in cells.items() if not cell.equal] == ["SWAP Object", "Average"]
    [remark] = [remark for remark in result.remarks if remark.startswith("GPT-4V [33]")]
    assert "swap_obj would be 83.13 %, and the mean over categories 90.95 %" in remark


def _row(label):
    """The columns of SugarCrepe's categories, and what its Table 6 prints in a row."""
    table = get_table("sugarcrepe-6")
    [row] = [row for row in table.rows if row.name == label]
    columns = [column for column in table.columns if column.average == "category"]
    return columns, row.printed[: len(columns)]
