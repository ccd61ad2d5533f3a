"""From a caption to the yes/no question whether it is true of an image (TRICD, appendix C.2), by rules."""

from __future__ import annotations

from ....metrics.common.errors import DataError
from .articles import article
from .tagging import Tagged, tag
from .words import singular

_ARTICLES = {"a", "an", "the", "another", "one", "no", "his", "her", "its", "their", "this", "that", "each", "every"}
_PLURAL = {"two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "many", "several", "these", "those"}
_SOME = {"some", "any"}
_PREPOSITIONS = {
    "about", "above", "across", "after", "against", "along", "among", "around", "as", "at", "behind", "below",
    "beneath", "beside", "between", "beyond", "by", "down", "during", "for", "from", "in", "infront", "inside",
    "into", "near", "next", "of", "off", "on", "onto", "on-top", "out", "outside", "over", "past", "through", "to",
    "toward", "towards", "under", "underneath", "up", "upon", "with", "within", "without",
}  # fmt: skip
_BREAKS = _PREPOSITIONS | {"and", "or", "but", "that", "which", "who", "while", "is", "are", "was", "were"}
_SINGULAR_ENDINGS = ("ss", "us", "is", "a")
_FINITE = ("VBZ", "VBP")


def caption_question(caption: str) -> str:
    """Ask whether there is what a noun phrase names, in the form of TRICD's released questions.

    "There is …" is turned round; a caption that starts with a determiner gets "is there" or "are there", a plural
    "are there", any other "is there a" or "is there an". As in the release, the question keeps the letters of the
    caption and ends without a mark. The question for a sentence in the present is whether it is true; the release has
    no such captions.

    The rules know no dictionary: mass nouns get an article, too ("is there a water"), and verbs are found by TextBlob,
    which needs the extra ``authoring``. The authors checked their questions by hand; do the same.

    Args:
        caption: a noun phrase or a sentence in English; outer white space is left out.

    Returns:
        The question.

    Raises:
        DataError: the caption is empty.

    Examples:
        >>> caption_question("zebras fighting")
        'are there zebras fighting'
        >>> caption_question("elephant with trunk tied around food")
        'is there an elephant with trunk tied around food'
        >>> caption_question("There are two dogs on a sofa.")
        'are there two dogs on a sofa'
        >>> caption_question("The dog sits and the cat stands.")
        'is it true that the dog sits and the cat stands'
    """
    text = caption.strip().rstrip(".").rstrip()
    words = text.lower().split()
    if not words:
        raise DataError(f"the caption {caption!r} is empty. Pass a noun phrase, such as 'dog on a sailboat'.")
    if len(words) > 2 and words[0] == "there" and words[1] in ("is", "are"):
        return f"{words[1]} there {text.split(maxsplit=2)[2]}"
    [tagged] = tag([text], "textblob")
    if _is_sentence(tagged):
        begins_with_article = words[0] in _ARTICLES | _PLURAL | _SOME
        return f"is it true that {text[0].lower() + text[1:] if begins_with_article else text}"
    is_plural = words[0] in _PLURAL or _is_plural(_head(words))
    if is_plural or words[0] in _ARTICLES | _SOME:
        return f"{'are' if is_plural else 'is'} there {text}"
    return f"is there {article(words[0])} {text}"


def _is_sentence(tagged: Tagged) -> bool:
    """Return whether a verb in the present follows the first noun phrase, before any participle: "a dog sits"."""
    if not tagged.noun_phrases or tagged.noun_phrases[0][0] != 0:
        return False
    ends = {end for _, end in tagged.noun_phrases}
    for index, name in enumerate(tagged.tags):
        if name in ("VBG", "VBN", "VBD", "WP", "WDT") or tagged.words[index].lower() in ("that", "which", "who"):
            return False
        # TextBlob tags the verb of a plural as a base form.
        is_plural = tagged.tags[index - 1].startswith("NNS") or "and" in tagged.words[:index]
        if index in ends and (name in _FINITE or (name == "VB" and is_plural)):
            return True
    return False


def _head(words: list[str]) -> str:
    """Return the last word of the caption's first noun phrase, which ends before a preposition or a verb."""
    for index in range(1, len(words)):
        word, following = words[index], words[index + 1 : index + 2]
        is_participle = word.endswith("ing") or (word.endswith("ed") and (not following or following[0] in _BREAKS))
        if word in _BREAKS or is_participle:
            return words[index - 1]
    return words[-1]


def _is_plural(noun: str) -> bool:
    return singular(noun) != noun and len(noun) > 2 and not noun.endswith(_SINGULAR_ENDINGS)
