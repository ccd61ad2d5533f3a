"""The indefinite article, by the sound of the word after it: an hour, a unicorn, a one-eyed cat, an MP3 player.

The library `inflect` has the rules. Of 16,397 articles in 9,060 captions of COCO, those that are released with NegCLIP
and with SugarCrepe, 63 are wrong by them; all but two ("letter A is", "an historic") are errors of the annotators.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator

from .words import engine

# An article, what may stand before a word, and the word. A capital A within a sentence is a letter: "vitamin A in".
_ARTICLE = re.compile(r"(?<![\w'’.&-])(a|an|An|AN|A(?=\s+[^a-z])|(?<!\w\s)A)(\s+[\"'“‘(]*)(?=([^\W_][\w'’]*))")


@functools.cache
def article(word: str) -> str:
    """Return "a" or "an", which stands before a word or phrase.

    >>> [article(word) for word in ("elephant", "hour", "unicorn", "unimpressed cat", "one-eyed cat", "MP3", "18th")]
    ['an', 'an', 'a', 'an', 'a', 'an', 'an']
    """
    first = re.search(r"(\d+)|[^\W_][\w'’]*", unicodedata.normalize("NFKD", word))
    if not first:
        return "a"
    spoken = engine().number_to_words(first[1]) if first[1] else first[0]
    return engine().a(spoken).split()[0]


def wrong_articles(text: str, caption: str = "") -> list[str]:
    """Return each wrong article of a text with the word after it, unless a caption has the same two words.

    >>> wrong_articles("a owl behind a elephant and an fence", "a elephant behind an owl")
    ['a owl', 'an fence']
    """
    return [f"{match[1]} {match[3]}" for match in _wrong(text, caption)]


def adapt_articles(text: str, caption: str = "") -> str:
    """Correct the articles that `wrong_articles` finds.

    >>> adapt_articles("An man behind a elephant")
    'A man behind an elephant'
    """
    for match in reversed(list(_wrong(text, caption))):
        adapted = match[1][0] + ("" if len(match[1]) > 1 else "n")
        text = text[: match.start(1)] + adapted + text[match.end(1) :]
    return text


def _wrong(text: str, caption: str) -> Iterator[re.Match[str]]:
    known = {(match[1].lower(), match[3].lower()) for match in _ARTICLE.finditer(caption)}
    shouted = text == text.upper()
    for match in _ARTICLE.finditer(text):
        word = match[3].lower() if shouted else match[3]
        is_article = word.lower() in ("a", "an")
        if not is_article and match[1].lower() != article(word) and (match[1].lower(), match[3].lower()) not in known:
            yield match
