"""From a caption to the yes/no question whether it is true of an image (TRICD, appendix C.2), by rules."""

from __future__ import annotations

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
_IRREGULAR = {"people", "men", "women", "children", "mice", "geese", "feet", "teeth", "oxen", "wolves", "leaves"}
_SINGULAR_ENDINGS = ("ss", "us", "is")
_A_BEFORE_VOWEL = ("uni", "use", "usu", "eu", "one", "ukulele", "utensil")
_AN_BEFORE_H = ("hour", "honest", "heir", "honor", "honour")


def caption_question(caption: str) -> str:
    """Ask whether there is what a noun phrase names, in the form of TRICD's released questions.

    "There is …" is turned round; a caption that starts with a determiner gets "is there" or "are there", a plural
    "are there", any other "is there a" or "is there an". As in the release, the question keeps the letters of the
    caption and ends without a mark.

    The rules know no dictionary: mass nouns get an article, too ("is there a water"), and a caption that is a full
    sentence gives no good question. The authors checked theirs by hand; do the same.

    Args:
        caption: a noun phrase in English; outer white space is left out.

    Returns:
        The question.

    Raises:
        ValueError: the caption is empty.

    Examples:
        >>> caption_question("zebras fighting")
        'are there zebras fighting'
        >>> caption_question("elephant with trunk tied around food")
        'is there an elephant with trunk tied around food'
        >>> caption_question("There are two dogs on a sofa.")
        'are there two dogs on a sofa'
    """
    text = caption.strip().rstrip(".").rstrip()
    words = text.lower().split()
    if not words:
        raise ValueError(f"the caption {caption!r} is empty. Pass a noun phrase, such as 'dog on a sailboat'.")
    if len(words) > 2 and words[0] == "there" and words[1] in ("is", "are"):
        return f"{words[1]} there {text.split(maxsplit=2)[2]}"
    is_plural = words[0] in _PLURAL or _is_plural(_head(words))
    if is_plural or words[0] in _ARTICLES | _SOME:
        return f"{'are' if is_plural else 'is'} there {text}"
    return f"is there {_article(words[0])} {text}"


def _head(words: list[str]) -> str:
    """The last word of the noun phrase that the caption starts with: what comes before a preposition or a verb."""
    for place in range(1, len(words)):
        word, following = words[place], words[place + 1 : place + 2]
        is_participle = word.endswith("ing") or (word.endswith("ed") and (not following or following[0] in _BREAKS))
        if word in _BREAKS or is_participle:
            return words[place - 1]
    return words[-1]


def _is_plural(noun: str) -> bool:
    return noun in _IRREGULAR or (len(noun) > 3 and noun.endswith("s") and not noun.endswith(_SINGULAR_ENDINGS))


def _article(word: str) -> str:
    starts_with_vowel = word[0] in "aeiou" and not word.startswith(_A_BEFORE_VOWEL)
    return "an" if starts_with_vowel or word.startswith(_AN_BEFORE_H) else "a"
