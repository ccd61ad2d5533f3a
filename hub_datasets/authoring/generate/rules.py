"""Candidates made by rule, without a language model: what ARO's and CREPE's negatives are like, for comparison.

Rules know neither the image nor what is sensible, so such candidates can often be told from what people write
(SugarCrepe, section 3 and Table 5). Words are exchanged within the lists of this module; of a list, the terms that
occur in the captions at hand are taken where they are two or more, so that a candidate has no word that no caption has.
With the lexicon ``wordnet``, new objects are the sisters of a noun (other kinds of what it is a kind of), and synonyms
are those of the first sense; that needs nltk and its corpus.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....metrics.common.errors import ModelError, UnknownNameError
from ..text.articles import adapt_articles, article
from ..text.negatives import crepe_negations, crepe_replacements, crepe_swaps, exchange, put_in
from ..text.perturb import caption_rng, perturb
from ..text.tagging import Span, Tagged, tag
from .checks import KINDS, Rejected, check, conform, find, split

# Beside the kinds that a model makes: SugarCrepe's Table 5 has negated and shuffled captions too.
RULE_KINDS = (*KINDS, "negate", "shuffle")
LEXICONS = ("builtin", "wordnet")

# Within a list no two terms can be true of the same thing, as far as a list can tell.
OBJECTS: dict[str, Sequence[str]] = {
    "adult": ("man", "woman"),
    "adults": ("men", "women"),
    "child": ("boy", "girl"),
    "children": ("boys", "girls"),
    "sportsman": ("skier", "surfer", "skateboarder", "snowboarder", "cyclist"),
    "animal": ("cat", "dog", "horse", "cow", "sheep", "bird", "elephant", "giraffe", "zebra", "bear", "duck", "monkey"),
    "animals": ("cats", "dogs", "horses", "cows", "birds", "elephants", "giraffes", "zebras", "bears", "ducks"),
    "vehicle": ("car", "bus", "truck", "train", "bicycle", "motorcycle", "boat", "airplane", "tractor"),
    "furniture": ("table", "chair", "bed", "sofa", "bench", "shelf", "cabinet", "lamp", "mirror"),
    "food": ("pizza", "sandwich", "cake", "salad", "apple", "banana", "donut", "hot dog", "carrot", "soup", "bread"),
    "vessel": ("plate", "bowl", "cup", "bottle", "vase", "basket", "bucket", "pan"),
    "device": ("laptop", "phone", "camera", "television", "clock", "refrigerator", "oven", "radio"),
    "sport": ("skateboard", "surfboard", "frisbee", "ball", "kite", "racket", "bat", "umbrella", "backpack"),
    "place": ("street", "beach", "field", "kitchen", "bathroom", "forest", "bedroom", "river", "bridge"),
    "shape": ("circle", "square", "triangle", "star", "cross", "ring", "diamond", "pill"),
    "shape by another name": ("disc", "box", "wedge", "pentagram", "plus", "hoop", "rhombus", "capsule"),
}
ATTRIBUTES: dict[str, Sequence[str]] = {
    "colour": ("red", "blue", "green", "yellow", "purple", "orange", "pink", "black", "white", "brown", "gray"),
    "colour by another name": ("crimson", "azure", "emerald", "golden", "violet", "amber", "rose", "ebony"),
    "size": ("small", "big"),
    "size by another name": ("little", "large"),
    "length": ("long", "short"),
    "texture": ("plain", "striped", "dotted", "checkered"),
    "texture by another name": ("solid", "lined", "spotted", "checked"),
    "material": ("wooden", "metal", "plastic", "stone", "leather", "brick"),
    "age": ("old", "new"),
    "wetness": ("wet", "dry"),
    "dirt": ("clean", "dirty"),
    "state": ("open", "closed"),
    "filling": ("empty", "full"),
    "number": ("two", "three", "four", "five", "six"),
}
RELATIONS: dict[str, Sequence[str]] = {
    "side": ("left of", "right of"),
    "height": ("above", "below"),
    "height by another name": ("over", "under"),
    "depth": ("in front of", "behind"),
    "distance": ("next to", "far from"),
    # With their articles, as "on" by itself may be the beginning of "on top of".
    "place of a thing": ("on a", "under a", "inside a"),
    "place of the thing": ("on the", "under the", "inside the"),
    "comparison": ("larger than", "smaller than"),
    "comparison by another name": ("bigger than", "smaller than"),
    "action": ("holding", "pushing", "riding", "watching", "washing", "throwing", "catching", "feeding"),
    "posture": ("sitting", "standing", "lying", "walking", "running", "jumping", "sleeping"),
}
# Both ways round; the pairs of Hard Positives' Tables 4 to 6 that hold for every sense, and others of the kind.
SYNONYMS: tuple[tuple[str, str], ...] = (
    ("next to", "beside"),
    ("under", "beneath"),
    ("behind", "to the rear of"),
    ("above", "over"),
    ("left of", "to the left of"),
    ("right of", "to the right of"),
    ("larger than", "bigger than"),
    ("holding", "grasping"),
    ("sitting", "seated"),
    ("walking", "strolling"),
    ("hanging", "dangling"),
    ("big", "large"),
    ("small", "little"),
    ("huge", "enormous"),
    ("wet", "damp"),
    ("red", "crimson"),
    ("green", "emerald"),
    ("sofa", "couch"),
    ("bicycle", "bike"),
    ("airplane", "plane"),
    ("television", "tv"),
    ("photo", "picture"),
    ("child", "kid"),
    ("children", "kids"),
    ("several", "a number of"),
    ("automobile", "car"),
    ("rock", "stone"),
    ("street", "road"),
)
# What is added to an object; of a place that only a relation names, such as the right in "to the right of", nothing is.
_ADDED = ("colour", "size")
_NO_OBJECTS = frozenset(["left", "right", "top", "front", "back", "side", "middle", "center", "edge", "end", "rear"])

# A candidate with what is known of it; those of each caption.
_Found = tuple[str, dict[str, Any]]
_Made = list[list[_Found]]


def make_by_rule(
    kind: str, captions: Sequence[str], seed: int = 0, *, most: int = 1, lexicon: str = "builtin"
) -> list[list[_Found | Rejected]]:
    """The candidates of one kind that rules make of captions.

    Args:
        kind: one of ``RULE_KINDS``.
        captions: n texts.
        seed: any integer; a caption's candidates depend on it and on the other captions' words.
        most: how many candidates a caption may have, at least 1.
        lexicon: ``"builtin"`` or ``"wordnet"``.

    Returns:
        For each caption between one and `most` candidates with what is known of each, or why there is none.

    Raises:
        UnknownNameError: a kind or lexicon that does not exist.
        ModelError: ``"wordnet"`` where nltk or its corpus is missing; the message says how to get it.
    """
    for what, name, known in (("kind of candidates", kind, RULE_KINDS), ("lexicon", lexicon, LEXICONS)):
        if name not in known:
            raise UnknownNameError(what, name, known)
    made = _makers(lexicon)[kind](captions, seed, most)
    return [_checked(kind, caption, found) for caption, found in zip(captions, made, strict=True)]


def _makers(lexicon: str) -> Mapping[str, Callable[[Sequence[str], int, int], _Made]]:
    words = _open_wordnet() if lexicon == "wordnet" else None
    return {
        "replace_obj": functools.partial(_replace, OBJECTS) if words is None else functools.partial(_sisters, words),
        "replace_att": functools.partial(_replace, ATTRIBUTES),
        "replace_rel": functools.partial(_replace, RELATIONS),
        "swap_obj": functools.partial(_swap, "noun"),
        "swap_att": functools.partial(_swap, "adjective"),
        "add_obj": _add_objects,
        "add_att": _add_attributes,
        "positive_replace": functools.partial(_paraphrase, words),
        "positive_swap": _swap_joined,
        "negate": _negate,
        "shuffle": _shuffle,
    }


def _checked(kind: str, caption: str, found: list[_Found]) -> list[_Found | Rejected]:
    if not found:
        return [Rejected("not possible", "no rule fits")]
    outcomes: list[_Found | Rejected] = []
    for text, detail in found:
        try:
            if kind in KINDS:
                check(kind, caption, text, [detail["old"]] if "old" in detail else (), detail.get("new", ""))
            outcomes.append((conform(caption, text), detail))
        except Rejected as error:
            outcomes.append(error)
    return outcomes


def _at_hand(vocabulary: Mapping[str, Sequence[str]], captions: Sequence[str]) -> dict[str, Sequence[str]]:
    """Of each list the terms that some caption has, where they are at least two, else all."""
    grams = {
        " ".join(words[at : at + length])
        for words in (split(caption).lower for caption in captions)
        for length in (1, 2, 3)
        for at in range(len(words) - length + 1)
    }
    present = {kind: [term for term in terms if term in grams] for kind, terms in vocabulary.items()}
    return {kind: found if len(found) > 1 else vocabulary[kind] for kind, found in present.items()}


def _replace(vocabulary: Mapping[str, Sequence[str]], captions: Sequence[str], seed: int, most: int) -> _Made:
    found = crepe_replacements(captions, _at_hand(vocabulary, captions), seed, most=most)
    return [[(each.caption, {"rule": f"replaced by another {each.kind}"}) for each in own] for own in found]


def _swap(kind: str, captions: Sequence[str], seed: int, most: int) -> _Made:
    found = crepe_swaps(captions, seed, kinds=[kind], most=most, tagger="plain")
    return [
        [
            (each.caption, {"rule": f"two {each.kind}s exchanged"})
            for each in own
            if _directions(each.caption) == _directions(caption)
        ]
        for caption, own in zip(captions, found, strict=True)
    ]


def _directions(caption: str) -> list[tuple[int, str]]:
    """Words of place and where they are: to the tagger they are nouns, but "a ring of a left" is no swap of objects."""
    return [(place, word) for place, word in enumerate(split(caption).lower) if word in _NO_OBJECTS]


def _negate(captions: Sequence[str], seed: int, most: int) -> _Made:
    found = crepe_negations(captions, seed, most=most, tagger="plain")
    return [[(each.caption, {"rule": f"{each.kind} negated"}) for each in own] for own in found]


def _shuffle(captions: Sequence[str], seed: int, most: int) -> _Made:
    [shuffled] = perturb(captions, ["shuffle_all_words"], seed=seed, max_words=None).perturbed.values()
    return [[] if text is None else [(text, {"rule": "words shuffled"})] for text in shuffled]


def _add_objects(captions: Sequence[str], seed: int, most: int) -> _Made:
    """ "and a dog" after a noun phrase, of a list that has its last word."""
    vocabulary = _at_hand(OBJECTS, captions)

    def texts(tagged: Tagged) -> Iterator[_Found]:
        for first, end in tagged.noun_phrases:
            noun, place = tagged.words[end - 1].lower(), tagged.spans[end - 1][1]
            for terms in vocabulary.values():
                if tagged.words[first].lower() in ("a", "an", "the", "one") and noun in terms:
                    for term in terms:
                        if term not in map(str.lower, tagged.words):
                            added = f"{tagged.text[:place]} and {article(term)} {term}{tagged.text[place:]}"
                            yield added, {"new": term}

    return _drawn(captions, seed, most, "add_obj", "an object added", texts)


def _add_attributes(captions: Sequence[str], seed: int, most: int) -> _Made:
    """A colour, say, right after an article: a dog becomes a red dog."""
    vocabulary = _at_hand({kind: ATTRIBUTES[kind] for kind in _ADDED}, captions)

    def texts(tagged: Tagged) -> Iterator[_Found]:
        for first, end in tagged.noun_phrases:
            opening = tagged.words[first].lower()
            inside = [word.lower() for word in tagged.words[first:end]]
            if opening not in ("a", "an", "the") or end - first < 2 or _NO_OBJECTS & set(inside):
                continue
            (start, after), following = tagged.spans[first], tagged.spans[first + 1][0]
            for terms in vocabulary.values():
                for term in terms if not set(terms) & set(inside) else ():
                    own = opening if opening == "the" else article(term)
                    rest = f"{tagged.text[after:following]}{term} {tagged.text[following:]}"
                    yield tagged.text[:start] + own + rest, {"new": term}

    return _drawn(captions, seed, most, "add_att", "an attribute added", texts)


def _paraphrase(wordnet: Any, captions: Sequence[str], seed: int, most: int) -> _Made:
    def texts(tagged: Tagged) -> Iterator[_Found]:
        words = split(tagged.text)
        for pair in SYNONYMS:
            for old, new in (pair, pair[::-1]):
                for at in find(words.lower, split(old).lower):
                    # "to the left of" has "left of" in it, which is no place for another "to the".
                    if old in new and words.lower[max(at - 2, 0) : at] == ["to", "the"]:
                        continue
                    start, end = words.spans[at][0], words.spans[at + len(old.split()) - 1][1]
                    yield put_in(tagged.text, (start, end), new), {"old": old, "new": new}
        if wordnet is not None:
            for (start, end), word, name in zip(tagged.spans, tagged.words, tagged.tags, strict=True):
                for new in _lemmas(wordnet.synsets(word.lower(), pos=_POS.get(name, "v"))[:1]) if name in _POS else ():
                    if new != word.lower():
                        yield put_in(tagged.text, (start, end), new), {"old": word, "new": new}

    return _drawn(captions, seed, most, "positive_replace", "a synonym", texts)


def _swap_joined(captions: Sequence[str], seed: int, most: int) -> _Made:
    """Noun phrases, or adjectives, on both sides of "and"."""

    def texts(tagged: Tagged) -> Iterator[_Found]:
        adjectives = [(at, at + 1) for at, name in enumerate(tagged.tags) if name == "JJ"]
        for at, word in enumerate(tagged.words):
            if word.lower() == "and":
                for parts in (tagged.noun_phrases, adjectives):
                    left, right = _ending(parts, at), _beginning(parts, at + 1)
                    if left and right:
                        yield adapt_articles(exchange(tagged, left, right), tagged.text), {}

    return _drawn(captions, seed, most, "positive_swap", "order around 'and'", texts)


def _ending(parts: Sequence[Span], at: int) -> Span | None:
    return next((part for part in parts if part[1] == at), None)


def _beginning(parts: Sequence[Span], at: int) -> Span | None:
    return next((part for part in parts if part[0] == at), None)


def _drawn(
    captions: Sequence[str],
    seed: int,
    most: int,
    purpose: str,
    rule: str,
    texts: Callable[[Tagged], Iterator[_Found]],
) -> _Made:
    """At most so many of the texts that can be made of each caption, at random."""
    made: _Made = []
    for tagged in tag(captions, "plain"):
        found = list(dict(texts(tagged)).items())
        order: np.ndarray = caption_rng(seed, purpose, tagged.text).permutation(len(found))[:most]
        made.append([(found[place][0], {"rule": rule, **found[place][1]}) for place in order.tolist()])
    return made


_POS = {"NN": "n", "JJ": "a"}


def _sisters(wordnet: Any, captions: Sequence[str], seed: int, most: int) -> _Made:
    """Nouns in the place of a noun: other kinds of what its first sense is a kind of."""

    def texts(tagged: Tagged) -> Iterator[_Found]:
        for (start, end), word, name in zip(tagged.spans, tagged.words, tagged.tags, strict=True):
            for sense in wordnet.synsets(word.lower(), pos="n")[:1] if name == "NN" else ():
                own = {lemma.lower() for lemma in _lemmas([sense])}
                sisters = [sister for parent in sense.hypernyms() for sister in parent.hyponyms() if sister != sense]
                for new in _lemmas(sisters):
                    if new not in own:
                        yield put_in(tagged.text, (start, end), new), {"old": word, "new": new}

    return _drawn(captions, seed, most, "replace_obj", "a sister in WordNet", texts)


def _lemmas(synsets: Sequence[Any]) -> list[str]:
    """The plain words of synsets, without names."""
    names = [name.replace("_", " ") for synset in synsets for name in synset.lemma_names()]
    return [name for name in names if name == name.lower() and len(name.split()) < 3]


def _open_wordnet() -> Any:
    try:
        from nltk.corpus import wordnet  # pyright: ignore[reportMissingImports]

        wordnet.synsets("dog", pos="n")
    except (ImportError, LookupError) as error:
        raise ModelError(
            "the lexicon 'wordnet' needs nltk and its corpus; run 'pip install nltk' and 'python -m nltk.downloader "
            f"wordnet', or choose the lexicon 'builtin' ({type(error).__name__})"
        ) from error
    return wordnet
