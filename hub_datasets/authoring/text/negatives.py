"""Hard negatives by rule: NegCLIP's swaps, and CREPE's replaced, swapped and negated atoms.

The rules do not see the image, so a negative may be true of it, and blind models can distinguish negatives from
annotators' captions. They are for fine-tuning and stress tests; a benchmark made of them needs an audit (SugarCrepe,
section 3).

Agreement of TextBlob's tags and `RELEASED_KINDS` with the negatives that NegCLIP's authors released for validation
(`valid_neg_clip.tsv`, tagged by spaCy), on every other row of the file, which was not used to correct the tagger:
released: 3,690, made: 3,663, released ones among `swaps`: 92.6%.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....metrics.common.errors import ScoresError, check_known
from .articles import article
from .perturb import caption_rng
from .tagging import Span, Tagged, tag

NEGCLIP_KINDS = ("noun_phrase", "noun", "adjective", "adverb", "verb_phrase")
# The released negatives exchange nouns of the same number, and gerunds instead of verb phrases.
RELEASED_KINDS = ("noun_phrase", "singular_noun", "plural_noun", "gerund", "adverb", "adjective")
NEGATIONS = ("caption", "object", "relation")

_TAGS = {
    "noun": ("NN", "NNS", "NNP", "NNPS"),
    "singular_noun": ("NN",),
    "plural_noun": ("NNS",),
    "adjective": ("JJ", "JJR", "JJS"),
    "adverb": ("RB", "RBR", "RBS"),
    "gerund": ("VBG",),
}
KINDS = (*_TAGS, "noun_phrase", "verb_phrase")
_MIN_PHRASE = 3


class Negative(NamedTuple):
    """A negative caption and its kind."""

    kind: str
    caption: str


def swaps(tagged: Tagged, kind: str) -> list[str]:
    """Return all exchanges of two elements of a kind in a caption: distinct texts, by the positions of the elements.

    Case, spacing, punctuation and a capital at the beginning are kept, and articles are not adapted ("a umbrella"), as
    in the released negatives. Exchanges of equal words, and of noun phrases that differ in only one word, are left out.

    Args:
        tagged: from `tagging.tag`.
        kind: one of ``KINDS``; raises `UnknownNameError`. Noun phrases count from three tokens on.

    Source: ARO (Yuksekgonul et al., ICLR 2023), appendix C.1.

    >>> swaps(*tag(["A child petting a big yak."], "textblob"), "noun")
    ['A yak petting a big child.']
    """
    words = [word.lower() for word in tagged.words]
    exchanges: dict[str, str] = {}
    for first, second in itertools.combinations(_elements(tagged, kind), 2):
        pairs = list(itertools.zip_longest(words[slice(*first)], words[slice(*second)]))
        if first[1] <= second[0] and sum(a != b for a, b in pairs) > (kind == "noun_phrase"):
            text = exchange(tagged, first, second)
            exchanges.setdefault(text.lower(), text)
    exchanges.pop(tagged.text.lower(), None)
    return list(exchanges.values())


def negclip_negatives(
    captions: Sequence[str],
    seed: int = 0,
    *,
    kinds: Sequence[str] = NEGCLIP_KINDS,
    most: int = 5,
    tagger: str = "auto",
) -> list[list[Negative]]:
    """Make NegCLIP's negative captions: for each kind of element, one exchange of two.

    Args:
        captions: n texts as released.
        seed: any integer. A caption's negatives do not depend on other captions.
        kinds: the kinds of elements, some of ``KINDS``, in the order of the negatives. ``RELEASED_KINDS`` follows the
            released file, which exchanges nouns of one number, and gerunds instead of whole verb phrases.
        most: the largest number of negatives of a caption, at least 1; of more, a random choice is kept.
        tagger: as for `tagging.tag`.

    Returns:
        For each caption its distinct negatives; none for a caption without two elements of a kind, which NegCLIP leaves
        out of training.

    Raises:
        DataError: a caption that is not a string.
        UnknownNameError: a kind or tagger that does not exist.
        ScoresError: ``most`` below 1.
        ModelError: the tagger is not installed.

    Source: ARO (Yuksekgonul et al., ICLR 2023), section 4 and appendix C.1.

    >>> negclip_negatives(["A child holding a big yak.", "a dog"], tagger="textblob")
    [[Negative(kind='noun', caption='A yak holding a big child.')], []]
    """
    check_known("kind of element", kinds, KINDS)
    if most < 1:
        raise ScoresError(f"most is {most}; expected at least 1 negative of a caption")
    return [
        choose({kind: swaps(tagged, kind) for kind in kinds}, tagged.text, "negclip", seed, most)
        for tagged in tag(captions, tagger)
    ]


def replacements(caption: str, terms: Sequence[str]) -> list[str]:
    """Return the caption with each of the terms in it replaced by each term that it lacks (CREPE's REPLACE).

    Terms are matched as whole words, the longest first, in any case, without a tagger. "a" and "an" before a term are
    adapted.

    Args:
        caption: a text.
        terms: at least two words or phrases of one type, such as colours, in lower case.

    Source: CREPE (Ma et al., CVPR 2023), HN-Atom, whose foils come from the scene graphs of Visual Genome.

    >>> replacements("A red ball in a car.", ["red", "orange"])
    ['An orange ball in a car.']
    """
    longest_first = "|".join(map(re.escape, sorted(terms, key=len, reverse=True)))
    matches = list(re.finditer(rf"(?<!\w)(?:{longest_first})(?!\w)", caption, re.IGNORECASE))
    present = {match.group().lower() for match in matches}
    foils = [term for term in terms if term not in present]
    return [put_in(caption, match.span(), foil) for match in matches for foil in foils]


def negations(tagged: Tagged, kind: str) -> list[str]:
    """Return the caption with "not" or "no" in one place (CREPE's NEGATE); none for a caption that has a negation.

    - ``caption``: "There is no" instead of the article at the beginning of the caption;
    - ``object``: "no" instead of a noun phrase's article, except at the beginning of the caption;
    - ``relation``: "not" before a gerund, or before a preposition after a noun.

    Source: after CREPE (Ma et al., CVPR 2023), HN-Neg; the templates are ours, in the form of the examples quoted in
    SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), Table 1.

    >>> [riding] = tag(["A man riding a horse."], "textblob")
    >>> [text for kind in NEGATIONS for text in negations(riding, kind)]
    ['There is no man riding a horse.', 'A man riding no horse.', 'A man not riding a horse.']
    """
    check_known("kind of negation", [kind], NEGATIONS)
    text, words = tagged.text, [word.lower() for word in tagged.words]
    if {"not", "no", "n't", "n’t", "without"} & set(words):
        return []
    if kind == "caption":
        match = re.match(r"\s*(?:an?|the|one)\s+(?=\w)", text, re.IGNORECASE)
        return ["There is no " + text[match.end() :]] if match else []
    if kind == "object":
        articles = [first for first, _ in tagged.noun_phrases if first and words[first] in ("a", "an", "the")]
        return [text[: tagged.spans[index][0]] + "no" + text[tagged.spans[index][1] :] for index in articles]
    starts = [
        tagged.spans[index][0]
        for index, (before, name) in enumerate(itertools.pairwise(tagged.tags), 1)
        if name == "VBG" or (name == "IN" and before.startswith("NN") and words[index] != "of")
    ]
    return [text[:start] + "not " + text[start:] for start in starts]


def choose(groups: Mapping[str, Sequence[str]], caption: str, purpose: str, seed: int, most: int = 1) -> list[Negative]:
    """Draw at most `most` distinct negatives of a caption, at most one per kind; `groups` are the texts by kind.

    The draw depends only on the caption, the purpose and the seed.
    """
    negatives: dict[str, Negative] = {}
    rng = caption_rng(seed, purpose, caption)
    for kind, texts in groups.items():
        fresh = [text for text in texts if text.lower() not in negatives]
        if fresh:
            text = fresh[int(rng.integers(len(fresh)))]
            negatives[text.lower()] = Negative(kind, text)
    drawn = sorted(rng.permutation(len(negatives))[:most].tolist())
    return [list(negatives.values())[index] for index in drawn]


def exchange(tagged: Tagged, first: Span, second: Span) -> str:
    """Exchange two ranges of tokens of a caption; a capital at its beginning stays there."""
    text, spans = tagged.text, tagged.spans
    a, b = spans[first[0]][0], spans[first[1] - 1][1]
    c, d = spans[second[0]][0], spans[second[1] - 1][1]
    left, right = text[a:b], text[c:d]
    if first[0] == 0:
        left, right = _move_capital(left, right)
    return text[:a] + right + text[b:c] + left + text[d:]


def put_in(caption: str, span: Span, foil: str) -> str:
    """Replace a range of characters of a caption, and adapt an article before it and the case of the first letter."""
    start, end = span
    if not caption[:start].strip():
        _, foil = _move_capital(caption[start:end], foil)
    before = caption[:start]
    match = re.search(r"(?<!\w)(an?)(\s+)$", before, re.IGNORECASE)
    if match:
        before = before[: match.start()] + match[1][0] + article(foil)[1:] + match[2]
    return before + foil + caption[end:]


def _elements(tagged: Tagged, kind: str) -> list[Span]:
    """Return the ranges of tokens of a kind, from left to right."""
    check_known("kind of element", [kind], KINDS)
    if kind in _TAGS:
        return [(index, index + 1) for index, name in enumerate(tagged.tags) if name in _TAGS[kind]]
    if kind == "noun_phrase":
        return [phrase for phrase in tagged.noun_phrases if phrase[1] - phrase[0] >= _MIN_PHRASE]
    return tagged.verb_phrases


def _move_capital(leaving: str, entering: str) -> tuple[str, str]:
    """Keep a capital at the start of the sentence, unless the word has further capitals."""
    if leaving[:1].isupper() and (len(leaving) == 1 or leaving[1:] == leaving[1:].lower()):
        return leaving[:1].lower() + leaving[1:], entering[:1].upper() + entering[1:]
    return leaving, entering
