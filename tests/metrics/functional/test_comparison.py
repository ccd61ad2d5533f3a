"""Two models compared as a user of `evaluate` does it, against the definitions, and on released answers."""

import math

import pytest
from cards import card_rows, card_text

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.modules.discovery import load_metric

# The first model is right in rows 0 to 3 and wrong in 4 and 5; the second is right in 0 and 4, and ties in 5.
FIRST = [[2, 1], [1, 2], [5, 3], [0, 4], [1, 3], [4, 0]]
SECOND = [[3, 1], [3, 1], [3, 5], [4, 0], [9, 8], [2, 2]]
CORRECT = [0, 1, 0, 1, 0, 1]
LABELS = ["swap", "swap", "add", "add", "add", "add"]
IMAGES = ["a", "a", "b", "b", "c", "c"]


def compute(first=FIRST, second=SECOND, references=CORRECT, **options):
    return load_metric("paired_difference").compute(
        predictions1=first, predictions2=second, references=references, **options
    )


def test_scores_by_arithmetic():
    result = compute(clusters=IMAGES, categories=LABELS)
    assert (result["accuracy1"], result["accuracy2"]) == (4 / 6, 2 / 6)
    assert result["difference"] == pytest.approx(2 / 6, abs=1e-15)
    assert (result["wins"], result["losses"], result["agreement"]) == (3, 1, 2 / 6)
    assert (result["tie_rate1"], result["tie_rate2"]) == (0.0, 1 / 6)
    assert (result["n"], result["n_clusters"], result["confidence"]) == (6, 3, 0.95)
    # 4 of 4 or 0 of 4 in 2 of 16 cases, 3 or 1 of 4 in 8 more.
    assert (result["mcnemar_p_value"], result["mcnemar_method"]) == (10 / 16, "exact")
    # Sums over images: a 1, b 2, c -1, in all 2. |±1 ±2 ±1| is 4, 2, 2 or 0 in 2, 2, 2 and 2 of the 8 exchanges.
    assert result["permutation_p_value"] == 6 / 8
    # Residuals of the images' sums from 2 * 1/3: 1/3, 4/3, -5/3. Their squares sum up to 42/9; times 3/2 is 7.
    assert result["standard_error"] == pytest.approx(math.sqrt(7) / 6)
    # 1.959964 + 0.841621 = 2.801585
    assert result["smallest_detectable_difference"] == pytest.approx(2.801585 * math.sqrt(7) / 6, abs=1e-6)
    swap, add = result["per_category"]["swap"], result["per_category"]["add"]
    assert (swap["difference"], swap["wins"], swap["losses"], swap["n"], swap["n_clusters"]) == (0.5, 1, 0, 2, 1)
    assert (add["difference"], add["wins"], add["losses"], add["n"], add["n_clusters"]) == (0.25, 2, 1, 4, 2)
    assert (swap["tie_rate2"], add["tie_rate2"]) == (0.0, 1 / 4)
    # One image: always as far; ±2 ±1: 3, 1, -1, -3, and at least 1 in all four.
    assert (swap["permutation_p_value"], add["permutation_p_value"]) == (1.0, 1.0)


REMEDY = "give every answer a number, such as 1 for yes and 0 for no"


@pytest.mark.parametrize(
    ("first", "second", "references", "message"),
    [
        (["yes", "no"], [1, 0], [1, 0], rf"predictions1: 'yes' in rows 0, 1 .*{REMEDY}"),
        # A number in quotes would be read as one, and "1.0" and "1" as equal: refused like any text.
        (["1", "0"], [1, 0], [1, 0], r"predictions1: '1' in rows 0, 1 .* is text"),
        ([1, math.nan], [1, 0], [1, 0], r"predictions1: an answer is NaN or infinite in row 1 .*put a wrong answer"),
        ([1, 0], [1, 0], [1, math.nan], r"references: an answer is NaN or infinite in row 1 .*leave out an example"),
        ([[1, 2]] * 2, [[math.inf, 2], [2, 1]], [0, 0], r"predictions2: the scores are NaN or infinite in row 0"),
        # Three captions from one model and two from the other: column 2 is a caption of the first alone.
        ([[1, 2, 3]] * 2, [[1, 2]] * 2, [0, 2], r"predictions2: the index of the correct caption is 2 in row 1"),
    ],
)
def test_unusable_predictions_are_rejected_with_the_model_the_rows_and_the_remedy(first, second, references, message):
    with pytest.raises(ScoresError, match=message):
        compute(first, second, references)


def test_released_answers_against_the_shorter_caption_are_what_the_card_says(gpt4v):
    pairs = {
        name: [(each["correct"], len(each["caption"]) < len(each["negative_caption"])) for each in part]
        for name, part in gpt4v.items()
    }
    pairs["all"] = [pair for part in pairs.values() for pair in part]
    first, second = ([int(pair[place]) for pair in pairs["all"]] for place in (0, 1))
    labels, images = zip(*((name, each["filename"]) for name, part in gpt4v.items() for each in part), strict=True)
    result = compute(first, second, [1] * len(first), categories=[*labels], clusters=[*images], resamples=200)
    parts = result["per_category"] | {"all": result}
    for row, (name, part) in zip(card_rows("paired_difference", "category"), parts.items(), strict=True):
        wins, losses = pairs[name].count((True, False)), pairs[name].count((False, True))
        right = [100 * sum(column) / len(pairs[name]) for column in zip(*pairs[name], strict=True)]
        shares = (*right, right[0] - right[1])
        assert row == [
            name.replace("_", " "), str(len(pairs[name])), *(f"{share:.2f}" for share in shares), str(wins), str(losses)
        ]  # fmt: skip
        assert (part["wins"], part["losses"], part["n"]) == (wins, losses, len(pairs[name]))
        found = (part["accuracy1"], part["accuracy2"], part["difference"])
        assert [100 * value for value in found] == pytest.approx(shares, abs=1e-9)
    assert (result["n"], result["n_clusters"]) == (7512, len(set(images))) == (7512, 1561)
    assert max(part["p_value_holm"] for part in result["per_category"].values()) < 0.001
    assert "All seven differences have a `p_value_holm` below 0.001" in card_text("paired_difference")
