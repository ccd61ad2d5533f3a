"""What an answer of a server says: its log-probabilities, its yes or no, its choice; and what is none."""

from __future__ import annotations

import doctest
import math

import pytest

from vl_assay.model_wrappers.serving import answers
from vl_assay.model_wrappers.serving.answers import (
    UNLISTED,
    answer_score,
    choice_scores,
    parse_answer,
    read_answer,
    yes_log_odds,
    yes_no_log_odds,
)


def listed(**probabilities):
    return [(token.replace("_", " "), math.log(p)) for token, p in probabilities.items()]


def completion(text="Yes", tokens=(("Yes", -0.1),), **fields):
    top = [{"token": token, "logprob": value} for token, value in tokens or ()]
    logprobs = {"content": [{"top_logprobs": top}]} if tokens is not None else None
    choice = {"message": {"content": text}, "logprobs": logprobs}
    return {"choices": [choice], "model": "m", "system_fingerprint": None, "usage": None} | fields


def test_the_example_of_the_docstring_is_right():
    assert doctest.testmod(answers).failed == 0


def test_spellings_of_yes_are_added_and_words_that_begin_alike_are_not():
    # 0.3 + 0.1 + 0.1 of yes: log 0.5 / 0.5 = 0, whatever "Yesterday" and "YES" have.
    odds = yes_log_odds(listed(Yes=0.3, yes=0.1, _Yes=0.1, Yesterday=0.2, YES=0.1))
    assert odds == pytest.approx(0, abs=1e-12)
    assert yes_log_odds([("▁Yes", math.log(0.5))]) == pytest.approx(0)
    assert yes_log_odds([("ĠYes", math.log(0.5))]) == pytest.approx(0)


def test_confident_answers_are_told_apart_where_one_less_p_is_lost_in_rounding():
    # A server's single precision has p = 1 for both; the others listed tell 1 - p: 1e-9 and 1e-10.
    sure = [("Yes", 0.0), ("No", math.log(1e-9))], [("Yes", 0.0), ("No", math.log(1e-10))]
    assert yes_log_odds(sure[0]) == pytest.approx(-math.log(1e-9))
    assert yes_log_odds(sure[1]) > yes_log_odds(sure[0])
    assert math.isfinite(yes_log_odds([("Yes", 0.0)]))


def test_a_listed_yes_is_above_one_that_is_not_listed():
    assert yes_log_odds([("No", -1e-9), ("Yes", -200.0)]) > UNLISTED
    assert yes_log_odds([("No", -1e-9), ("Yes", -9999.0)]) == UNLISTED  # OpenAI's value for impossible tokens


def test_a_written_no_is_the_opposite_of_yes_for_a_question_alone():
    assert answer_score("No", is_question=False) == 0
    assert answer_score("No", is_question=True) == -1


def test_a_question_has_the_difference_of_yes_and_no_with_a_bound_for_the_unlisted_word():
    assert yes_no_log_odds(listed(Yes=0.6, _no=0.2, No=0.1)) == pytest.approx(math.log(0.6 / 0.3))
    # No is not listed: it has at most 0.05, which the least listed token has, and at most what is left, 0.01.
    assert yes_no_log_odds(listed(Yes=0.8, Maybe=0.05)) == pytest.approx(math.log(0.8 / 0.05))
    assert yes_no_log_odds(listed(Yes=0.79, Maybe=0.2)) == pytest.approx(math.log(0.79 / 0.01))
    assert yes_no_log_odds(listed(No=0.8, Maybe=0.05)) == pytest.approx(-math.log(0.8 / 0.05))
    assert yes_no_log_odds(listed(Maybe=0.5)) == 0


def test_a_caption_scores_the_share_of_orders_that_chose_it_and_nothing_where_one_order_chose_none():
    captions = ["a cat", "a dog"]
    assert choice_scores(["A", "B"], captions) == [1, 0]  # in the reverse order B is the cat
    assert choice_scores(["A", "A"], captions) == [0.5, 0.5]  # it prefers the first place
    assert choice_scores(["A", "neither"], captions) == [0, 0]
    assert choice_scores(["A", None], captions) == [0, 0]


def test_a_completion_is_read_with_who_answered_and_comes_back_from_the_journal():
    usage = {"prompt_tokens": 7, "completion_tokens": 1}
    answer = read_answer(completion(system_fingerprint="fp", usage=usage), needs_logprobs=True)
    assert answer == ("Yes", (("Yes", -0.1),), "m fp", 7, 1)
    kept = {**answer._asdict(), "logprobs": [["Yes", -0.1]]}  # as JSON has it
    assert parse_answer(kept) == answer
    with pytest.raises(ValueError, match="more than 1"):
        parse_answer({**kept, "logprobs": [["Yes", 0.0], ["yes", 0.0]]})


@pytest.mark.parametrize(
    "tokens",
    [[("Yes", 0.5)], [("Yes", math.nan)], [("Yes", "0")], [(3, -1.0)], [("Yes", True)], [("a", -0.1), ("b", -0.1)]],
)
def test_log_probabilities_that_are_none_are_errors(tokens):
    with pytest.raises((ValueError, TypeError)):
        read_answer(completion(tokens=tokens), needs_logprobs=False)


def test_missing_log_probabilities_are_an_error_only_where_they_are_needed():
    for without in (completion(tokens=None), completion(tokens=())):
        assert read_answer(without, needs_logprobs=False).logprobs == ()
        with pytest.raises(ValueError, match="no log-probabilities"):
            read_answer(without, needs_logprobs=True)
