"""The NaturalBench builder: which caption is right of which image, what is a defect, and what its tasks score."""

import pytest
import sources_naturalbench as sources
from builder_support import Small

from vl_assay.hub_datasets import get_benchmark
from vl_assay.metrics.functional.questions import paired_question_accuracy

SCORES = ("group_accuracy", "question_accuracy", "image_accuracy", "accuracy")


@pytest.fixture
def small(tmp_path):
    return Small("naturalbench", tmp_path)


def accuracies(row, answers):
    """The scores of a model that prefers the captions with `answers`, of both questions on each image."""
    captions = [row[column] for column in get_benchmark("naturalbench").tasks[0].captions]
    table = [
        [float(caption.endswith(f"Answer: {given[number % 2]}")) for number, caption in enumerate(captions)]
        for given in answers
    ]
    result = paired_question_accuracy([table])
    return [result[name] for name in SCORES]


def test_the_release_s_answers_are_all_right_and_one_answer_for_both_images_wins_half(small):
    for number, (record, row) in enumerate(zip(sources.records(), small.rows(with_images=False), strict=True)):
        assert [row["filename_0"], row["filename_1"]] == [f"{number:04}_0.jpg", f"{number:04}_1.jpg"]
        first, second = ([record[f"Image_{image}_Question_{question}"] for question in (0, 1)] for image in (0, 1))
        assert accuracies(row, [first, second]) == [1, 1, 1, 1]
        assert accuracies(row, [first, first]) == [0, 0, 1 / 2, 1 / 2]
        assert accuracies(row, [[first[0]] * 2] * 2) == [0, 0, 0, 1 / 2]


def test_the_answers_columns_decide_whichever_answer_comes_first(small):
    record = sources.records(1)[0]
    turned = {"Image_0_Question_0": "No", "Image_1_Question_0": "Yes"}
    sources.write_questions(small.folder, [record | turned, record])
    first, second = small.rows(with_images=False)
    assert first["caption_0"] == second["other_caption_0"] == "Question: Is cup 0 on image 0? Answer: No"
    assert first["other_caption_0"] == second["caption_0"] == "Question: Is cup 0 on image 0? Answer: Yes"
    for row in (first, second):
        assert row["caption_1"] == "Question: Is cup 0 on image 1? Answer: Yes"
        assert row["other_caption_1"] == "Question: Is cup 0 on image 1? Answer: No"


def test_a_question_with_one_answer_is_a_defect_that_stays_and_is_wrong(small):
    first, second = sources.records(2)
    broken = second | {"Image_1_Question_1": "b "}
    sources.write_questions(small.folder, [first, broken])
    rows = small.rows(with_images=False)
    assert [row["defect"] for row in rows] == [None, "question 1 has one answer on both images"]
