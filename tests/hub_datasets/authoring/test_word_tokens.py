"""Tokens as NLTK's: by hand, and on real captions against a digest of what NLTK itself made of them."""

from __future__ import annotations

import hashlib
import json

import pytest
from audit_support import negclip_rows, sugarcrepe_rows

from vl_assay.hub_datasets.authoring.text.word_tokens import word_tokenize

# Of the tokens that nltk 3.10.4's `word_tokenize` made of these captions, with Punkt's English abbreviations.
NLTK_TOKENS = "8113d6749a8d51358f8b621bd29f1c1947b9cbc1633d0e6cd12fae859dd64b41"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A half-pipe, a man's dog.", "A half-pipe , a man 's dog ."),
        ("It's 3.5 m and/or 1,000, at 5:54pm: isn't it?", "It 's 3.5 m and/or 1,000 , at 5:54pm : is n't it ?"),
        ('"Lincoln" (or) \'the\' "wall".', "`` Lincoln '' ( or ) ' the ' `` wall '' ."),
        ("dogs' tails -- a man’s & half—pipe", "dogs ' tails -- a man ’ s & half — pipe"),
        ("I cannot, he'd gonna, 'tis rock 'n roll", "I can not , he 'd gon na , ' tis rock 'n roll"),
        ("On Greene St. and W. Centre st.", "On Greene St. and W. Centre st ."),
        ("The clearing. by the grass.. a red.white", "The clearing . by the grass .. a red.white"),
        ("   ", ""),
    ],
)
def test_tokens_by_hand(text, tokens):
    assert word_tokenize(text) == tokens.split()


def test_tokens_of_real_captions_are_nltk_s(shared_data):
    captions = [row["title"] for row in negclip_rows(shared_data)]
    captions += [row[name] for row in sugarcrepe_rows(shared_data) for name in ("caption", "negative_caption")]
    tokens = json.dumps([word_tokenize(caption) for caption in captions])
    assert hashlib.sha256(tokens.encode()).hexdigest() == NLTK_TOKENS
