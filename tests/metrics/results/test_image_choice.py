"""One caption, several images, of which the first is right: such rows are scored as those of one image are."""

import pytest
from report_support import write

from vl_assay.hub_datasets import Example, Task, TaskData, errors, report
from vl_assay.hub_datasets.authoring.audit.blind import blind_levels
from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.metrics.records.schema import MatchingRow as Row
from vl_assay.metrics.results.errors.outcomes import matching_margin
from vl_assay.space_app.submissions.copies import margins


def row(name, scores, images="xyz"):
    return Row(name, "c", "c", list(images), [0], None if scores is None else [[score] for score in scores])


# Right by 0.2, wrong by 0.1, a tie of the right image with the last; and one without an image.
ROWS = [
    row("a", [0.9, 0.7, 0.1]),
    row("b", [0.4, 0.5, 0.3]),
    row("c", [0.5, 0.1, 0.5]),
    row("d", None, ["x", "", "z"]),
]


@pytest.fixture
def predictions(tmp_path):
    return write(tmp_path / "p.parquet", ROWS, "aro", task="order", model="m", metrics={"itm_accuracy": {}})


def test_a_tie_of_images_is_wrong_unless_it_is_split(predictions):
    assert [each.scores for each in read_predictions(predictions).rows] == [each.scores for each in ROWS]
    [result], [half] = report([predictions]), report([predictions], ties="half")
    assert (result.scores["accuracy"], result.scores["tie_rate"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert half.scores["accuracy"] == pytest.approx((1 + 0 + 1 / 2) / 3)
    assert (result.missing, result.chance["accuracy"]) == (1, pytest.approx(1 / 3))


def test_margins_are_between_images(predictions):
    expected = [pytest.approx(0.2), pytest.approx(-0.1), 0]
    assert [matching_margin(each, 1) for each in ROWS[:3]] == expected
    assert margins(ROWS[:3]).tolist() == expected
    [task] = errors(predictions, images=False).tasks
    assert len(task.rows) == 3


def test_text_alone_ties_on_all_images():
    examples = [Example("a", "c", "c", ("x", "y", "z", "u"), ("a long caption",))]
    task = Task("t", {"itm_accuracy": {}}, images=("image_0", "image_1"), captions=("caption",))
    levels = blind_levels(TaskData("aro", task, ("c",), "test", examples=examples))
    assert levels["itm_accuracy"]["accuracy"] == pytest.approx(1 / 4)


def test_several_images_with_several_captions_are_for_other_metrics(tmp_path):
    square = Row("s", "c", "c", ["x", "y"], [0, 1], [[1.0, 0.0], [0.0, 1.0]])
    path = write(tmp_path / "p.parquet", [square], "aro", task="order", metrics={"itm_accuracy": {}})
    with pytest.raises(PredictionsError, match=r"'s' has 2 images with several captions; .* one caption with several"):
        report([path])
