"""Hard negatives by rule: NegCLIP's swaps, and CREPE's replaced, swapped and negated atoms.

The rules do not see the image, so a negative may be true of it, and blind models can tell their text from that of
annotators. They are for fine-tuning and stress tests; a benchmark made of them needs an audit (SugarCrepe, section 3).

Agreement with the negatives that NegCLIP's authors released for validation (`valid_neg_clip.tsv`, tagged by spaCy):
made with the plain tagger and `RELEASED_KINDS`, on every other row of the file, which was not used to write the tagger.
By kind: the number released, the number made, and the share of the released ones that are among `swaps`.

    noun_phrase       454    432   84.1%
    singular_noun   2,319  2,296   95.2%
    plural_noun       283    296   98.6%
    gerund            187    207   98.9%
    adverb              8     20  100.0%
    adjective         433    447   83.4%
    all             3,684  3,698   92.9%

The shares of captions by their number of negatives, and of negatives by the number of words moved:

    negatives of a caption       0      1      2      3     4+
      released               0.1%  59.0%  30.4%   9.6%   0.9%
      made                   0.2%  58.5%  30.7%   9.4%   1.2%
    words that change place      2    3-4    5-6     7+
      released              88.2%   4.3%   5.5%   2.0%
      made                  88.3%   4.2%   5.5%   1.9%
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....metrics.common.errors import DataError, ScoresError, check_known
from .articles import adapt_articles, article
from .perturb import caption_rng
from .tagging import Span, Tagged, check_captions, tag

NEGCLIP_KINDS = ("noun_phrase", "noun", "adjective", "adverb", "verb_phrase")
# What the released captions show: nouns of one number, and gerunds for verb phrases.
RELEASED_KINDS = ("noun_phrase", "singular_noun", "plural_noun", "gerund", "adverb", "adjective")
CREPE_KINDS = ("noun", "adjective")
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
    """All exchanges of two elements of a kind in a caption.

    Case, spacing and punctuation stay, a capital at the beginning too, and articles are not adapted ("a umbrella"), as
    in the released negatives. Exchanges of equal words are left out, and so are those of noun phrases that differ in
    one word only.

    Args:
        tagged: from `tagging.tag`.
        kind: one of ``KINDS``. Noun phrases count from three tokens on, verb phrases from one.

    Returns:
        Distinct texts, by the positions of the elements.

    Raises:
        UnknownNameError: a kind that does not exist.

    Source: ARO (Yuksekgonul et al., ICLR 2023), appendix C.1.

    >>> swaps(*tag(["A child petting a big yak."], "plain"), "noun")
    ['A yak petting a big child.']
    """
    words = [word.lower() for word in tagged.words]
    found: dict[str, str] = {}
    for first, second in itertools.combinations(_elements(tagged, kind), 2):
        ours, theirs = words[slice(*first)], words[slice(*second)]
        differing = sum(a != b for a, b in itertools.zip_longest(ours, theirs))
        if first[1] <= second[0] and differing > (kind == "noun_phrase"):
            text = exchange(tagged, first, second)
            found.setdefault(text.lower(), text)
    found.pop(tagged.text.lower(), None)
    return list(found.values())


def negclip_negatives(
    captions: Sequence[str],
    seed: int = 0,
    *,
    kinds: Sequence[str] = NEGCLIP_KINDS,
    most: int = 5,
    tagger: str = "auto",
) -> list[list[Negative]]:
    """NegCLIP's negative captions: for each kind of element, one exchange of two.

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
        ModelError: ``tagger="spacy"`` where spaCy is missing.

    Source: ARO (Yuksekgonul et al., ICLR 2023), section 4 and appendix C.1.

    >>> negclip_negatives(["A child holding a big yak.", "a dog"], tagger="plain")
    [[Negative(kind='noun', caption='A yak holding a big child.')], []]
    """
    _check(kinds, KINDS, "kind of element", most)
    return [
        _choose([(kind, swaps(tagged, kind)) for kind in kinds], tagged.text, "negclip", seed, most)
        for tagged in tag(captions, tagger)
    ]


def crepe_swaps(
    captions: Sequence[str],
    seed: int = 0,
    *,
    kinds: Sequence[str] = CREPE_KINDS,
    most: int = 1,
    tagger: str = "auto",
) -> list[list[Negative]]:
    """CREPE's swaps: two atoms of one type, objects or attributes, are exchanged; at most one negative per type.

    Arguments, result and errors are those of `negclip_negatives`, but "a" and "an" are adapted.

    Source: CREPE (Ma et al., CVPR 2023), productivity, HN-Swap, there on the atoms of a scene graph.

    >>> crepe_swaps(["a red ball on a big box"], kinds=["adjective"], tagger="plain")
    [[Negative(kind='adjective', caption='a big ball on a red box')]]
    """
    found = negclip_negatives(captions, seed, kinds=kinds, most=most, tagger=tagger)
    return [
        [negative._replace(caption=adapt_articles(negative.caption, caption)) for negative in own]
        for caption, own in zip(captions, found, strict=True)
    ]


def crepe_replacements(
    captions: Sequence[str],
    vocabulary: Mapping[str, Sequence[str]],
    seed: int = 0,
    *,
    most: int = 1,
) -> list[list[Negative]]:
    """CREPE's replacements: an atom of the caption is replaced by another one of its type that the caption lacks.

    Terms are matched as whole words, the longest first, in any case, without a tagger. "a" and "an" before a term are
    adapted.

    Args:
        vocabulary: for each type, such as ``"colour"`` or ``"relation"``, its terms: at least two words or phrases.
        captions, seed, most: as for `negclip_negatives`.

    Returns:
        For each caption at most one negative per type, whose kind is the type.

    Raises:
        DataError: a caption that is not a string; a type with fewer than two terms, or an empty term.
        ScoresError: ``most`` below 1.

    Source: CREPE (Ma et al., CVPR 2023), HN-Atom, whose foils come from the scene graphs of Visual Genome.

    >>> crepe_replacements(["A red ball in a car."], {"colour": ["red", "orange"]})
    [[Negative(kind='colour', caption='An orange ball in a car.')]]
    """
    check_captions(captions)
    _check((), (), "type", most)
    terms = {kind: list(dict.fromkeys(term.strip().lower() for term in words)) for kind, words in vocabulary.items()}
    for kind, words in terms.items():
        if len(words) < 2 or "" in words:
            raise DataError(f"the vocabulary of {kind!r} is {list(vocabulary[kind])}; give at least two terms")
    made = []
    for caption in captions:
        groups = []
        for kind, words in terms.items():
            longest_first = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
            found = list(re.finditer(rf"(?<!\w)(?:{longest_first})(?!\w)", caption, re.IGNORECASE))
            present = {match.group().lower() for match in found}
            foils = [term for term in words if term not in present]
            groups.append((kind, [put_in(caption, match.span(), foil) for match in found for foil in foils]))
        made.append(_choose(groups, caption, "replace", seed, most))
    return made


def crepe_negations(
    captions: Sequence[str],
    seed: int = 0,
    *,
    kinds: Sequence[str] = NEGATIONS,
    most: int = 1,
    tagger: str = "auto",
) -> list[list[Negative]]:
    """CREPE's negations: "not" or "no" in one place.

    - ``caption``: "There is no" instead of the article at the beginning of the caption;
    - ``object``: "no" instead of a noun phrase's article, except at the beginning of the caption;
    - ``relation``: "not" before a gerund, or before a preposition after a noun.

    Arguments and errors are those of `negclip_negatives`, with ``kinds`` some of ``NEGATIONS``.

    Returns:
        For each caption at most one negative per kind; none where no template fits, or for a caption with "not" or "no"
        in it, whose negation could be true.

    Source: after CREPE (Ma et al., CVPR 2023), HN-Neg; the templates are ours, in the form of the examples quoted in
    SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), Table 1.

    >>> [negatives] = crepe_negations(["A man riding a horse."], most=3, tagger="plain")
    >>> [negative.caption for negative in negatives]
    ['There is no man riding a horse.', 'A man riding no horse.', 'A man not riding a horse.']
    """
    _check(kinds, NEGATIONS, "kind of negation", most)
    return [
        _choose([(kind, _negations(tagged, kind)) for kind in kinds], tagged.text, "negate", seed, most)
        for tagged in tag(captions, tagger)
    ]


def _check(kinds: Sequence[str], known: Sequence[str], what: str, most: int) -> None:
    check_known(what, kinds, known)
    if most < 1:
        raise ScoresError(f"most is {most}; expected at least 1 negative of a caption")


def _choose(
    groups: Sequence[tuple[str, Sequence[str]]], caption: str, purpose: str, seed: int, most: int
) -> list[Negative]:
    """At most so many distinct negatives, one of each group, which is a kind and its texts."""
    chosen: dict[str, Negative] = {}
    rng = caption_rng(seed, purpose, caption)
    for kind, texts in groups:
        fresh = [text for text in texts if text.lower() not in chosen]
        if fresh:
            text = fresh[int(rng.integers(len(fresh)))]
            chosen[text.lower()] = Negative(kind, text)
    kept = sorted(rng.permutation(len(chosen))[:most].tolist())
    return [list(chosen.values())[place] for place in kept]


def _elements(tagged: Tagged, kind: str) -> list[Span]:
    """Ranges of tokens, from left to right."""
    check_known("kind of element", [kind], KINDS)
    if kind in _TAGS:
        return [(place, place + 1) for place, name in enumerate(tagged.tags) if name in _TAGS[kind]]
    if kind == "noun_phrase":
        return [phrase for phrase in tagged.noun_phrases if phrase[1] - phrase[0] >= _MIN_PHRASE]
    return tagged.verb_phrases


def exchange(tagged: Tagged, first: Span, second: Span) -> str:
    """The caption with two ranges of tokens exchanged; a capital at its beginning stays there."""
    text, spans = tagged.text, tagged.spans
    a, b = spans[first[0]][0], spans[first[1] - 1][1]
    c, d = spans[second[0]][0], spans[second[1] - 1][1]
    left, right = text[a:b], text[c:d]
    if first[0] == 0:
        left, right = _move_capital(left, right)
    return text[:a] + right + text[b:c] + left + text[d:]


def _move_capital(leaving: str, entering: str) -> tuple[str, str]:
    """Keep a capital at the start of the sentence, unless the word has further capitals."""
    if leaving[:1].isupper() and (len(leaving) == 1 or leaving[1:] == leaving[1:].lower()):
        return leaving[:1].lower() + leaving[1:], entering[:1].upper() + entering[1:]
    return leaving, entering


def put_in(caption: str, span: Span, foil: str) -> str:
    """The caption with a range of characters replaced, and an article before it and the first letter adapted."""
    start, end = span
    if not caption[:start].strip():
        _, foil = _move_capital(caption[start:end], foil)
    before = caption[:start]
    match = re.search(r"(?<!\w)(an?)(\s+)$", before, re.IGNORECASE)
    if match:
        before = before[: match.start()] + match[1][0] + article(foil)[1:] + match[2]
    return before + foil + caption[end:]


def _negations(tagged: Tagged, kind: str) -> list[str]:
    text, words = tagged.text, [word.lower() for word in tagged.words]
    if {"not", "no", "n't", "n’t", "without"} & set(words):
        return []
    if kind == "caption":
        match = re.match(r"\s*(?:an?|the|one)\s+(?=\w)", text, re.IGNORECASE)
        return ["There is no " + text[match.end() :]] if match else []
    if kind == "object":
        articles = [first for first, _ in tagged.noun_phrases if first and words[first] in ("a", "an", "the")]
        return [text[: tagged.spans[place][0]] + "no" + text[tagged.spans[place][1] :] for place in articles]
    starts = [
        tagged.spans[place][0]
        for place, (before, name) in enumerate(itertools.pairwise(tagged.tags), 1)
        if name == "VBG" or (name == "IN" and before.startswith("NN") and words[place] != "of")
    ]
    return [text[:start] + "not " + text[start:] for start in starts]
