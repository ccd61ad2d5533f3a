"""A or an: by the sound of the next word, and against what people wrote."""

from __future__ import annotations

import pytest
from audit_support import negclip_rows, sugarcrepe_rows

from vl_assay.hub_datasets.authoring.text import articles
from vl_assay.hub_datasets.authoring.text.articles import adapt_articles, article, wrong_articles


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("an", "elephant owl hour honest heir unimpressed urn 8 80s 11th 18-wheeler MP3 HD lcd x-ray SUV étude"),
        ("a", "dog house unicorn uniform useful utensil European one one-eyed once 1 110 UFO TV u-turn t-shirt St."),
    ],
)
def test_the_article_follows_the_sound(form, words):
    assert {word: article(word) for word in words.split()} == dict.fromkeys(words.split(), form)
    assert wrong_articles(" ".join(f"{form} {word}" for word in words.split())) == []


@pytest.mark.parametrize(
    ("text", "adapted"),
    [
        ("behind a elephant, an fence", "behind an elephant, a fence"),
        ('A "old" dog and an (new) cat', 'An "old" dog and a (new) cat'),
        ("AN MAN ON A OLD BUS", "A MAN ON An OLD BUS"),
        ("an historic town, an NBA game, a NASA rocket, an 1800s house", None),
        ("vitamin A is in a cat's ear at 5 a.m. on plan-a early", None),
        ("a a a", None),
        ("a", None),
        ("a $5 bill", None),
    ],
)
def test_only_wrong_articles_are_adapted(text, adapted):
    assert adapt_articles(text) == (adapted or text)
    assert bool(wrong_articles(text)) == bool(adapted)


def test_an_article_that_the_caption_has_wrong_stays_wrong():
    assert adapt_articles("a owl near a elephant", "A owl near the sea") == "a owl near an elephant"


def test_the_rules_agree_with_what_people_wrote_as_the_module_says(shared_data):
    captions = [row["title"] for row in negclip_rows(shared_data)]
    captions += [row["caption"] for row in sugarcrepe_rows(shared_data)]
    captions = list(dict.fromkeys(captions))
    wrong = sum(len(wrong_articles(caption)) for caption in captions)
    assert f"articles in {len(captions):,} captions" in articles.__doc__
    assert f"call\n{wrong} wrong" in articles.__doc__
