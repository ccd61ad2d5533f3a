"""ARO's perturbations of the order of captions and images.

A result depends only on the seed and the caption, so that a dataset can be built in any order and by any number of
processes, and single rows can be rebuilt.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from ....metrics.common.errors import DataError, ModelError, ScoresError, check_known
from .shuffles import IMAGE_SHUFFLES, SHUFFLES, TEXT_SHUFFLES
from .tagging import TAGGERS, Tagged, check_captions, tag, tagger_name

UNITS = ("words", "tokens")
MAX_WORDS = 30

NEEDS_TAGS = SHUFFLES[:2]
_PUNCTUATION = r"""\s!"#$%&()*+,./:;<=>?@\[\\\]^_`{|}~…“”„«»–—"""
_WORD = re.compile(rf"(?:\d+(?:[.,:]\d+)+|[^'’\-{_PUNCTUATION}]+)(?:['’-]+[^'’\-{_PUNCTUATION}]+)*")


class Perturbed(NamedTuple):
    """Captions and their perturbations.

    Attributes:
        captions: the n captions, cleaned in the same way as their perturbations.
        perturbed: for each perturbation the n results; None if no permutation changes the caption.
        tagger: the tagger used and its version; None if no tagger was needed.
    """

    captions: list[str]
    perturbed: dict[str, list[str | None]]
    tagger: str | None


class _Parts(NamedTuple):
    """The units of a caption, the tag of each, and a function that joins units to a text."""

    units: list[str]
    tags: list[str]
    finish: Callable[[Sequence[str]], str]


def perturb(
    captions: Sequence[str],
    perturbations: Sequence[str] = SHUFFLES,
    seed: int = 0,
    *,
    tagger: str = "auto",
    allow_identity: bool = False,
    units: str = "words",
    max_words: int | None = MAX_WORDS,
) -> Perturbed:
    """Permute the words of captions with ARO's perturbations, then clean the results and cut them.

    - ``shuffle_nouns_and_adjectives``: permutes the nouns among themselves, and the adjectives among themselves;
    - ``shuffle_all_but_nouns_and_adjectives``: permutes all other words among themselves;
    - ``shuffle_within_trigrams``: permutes the words within each run of three, counted from the first word;
    - ``shuffle_trigrams``: permutes the runs of three, including a last run of one or two words;
    - ``shuffle_all_words``: permutes all words (ARO, section 3.1; not part of the order benchmarks).

    A permutation is drawn uniformly from the permutations that change the cleaned text, in lower case. A caption of
    more than ``max_words`` words is permuted before it is cut, so that the result and the cut caption may have
    different words. The draw depends only on the seed, the perturbation and the caption.

    Args:
        captions: n texts as released: punctuation helps to tag them.
        perturbations: some of ``TEXT_SHUFFLES``.
        seed: any integer.
        tagger: as for `tagging.tag`.
        allow_identity: whether a permutation may leave the caption unchanged, which is a tie, as in the authors' code.
        units: ``"words"`` permutes words without their punctuation, but with hyphens and apostrophes ("half-pipe",
            "man's"), and cleans with `clean_caption`. ``"tokens"`` is the authors' method: punctuation and clitics
            are tokens, and only ``.!"()*#:;~`` are removed afterwards. Trigrams are of NLTK's tokens ("half-pipe" is
            one token); the first two perturbations permute the tagger's tokens ("half-pipe" is three), and
            ``shuffle_all_words`` the parts between spaces. Results then contain " ," and " 's", which no caption does.
        max_words: the number of words kept, at least 1; None keeps all.

    Returns:
        The cleaned captions and, for each perturbation, n texts or None.

    Raises:
        DataError: a caption that is not text.
        UnknownNameError: a perturbation, tagger or kind of units that does not exist.
        ScoresError: ``max_words`` below 1.
        ModelError: the tagger or, for trigrams of tokens, NLTK is not installed.

    Source: ARO (Yuksekgonul et al., ICLR 2023), sections 2.2 and 3.1, Table 1 and Figure 1; the cut to 30 words and the
    beginning of trigrams follow the authors' code. The paper uses 5 seeds.

    >>> result = perturb(["A dog, two cats"], ["shuffle_trigrams", "shuffle_within_trigrams"])
    >>> result.captions, result.perturbed["shuffle_trigrams"]
    (['a dog two cats'], ['cats a dog two'])
    >>> perturb(["zebras zebras"], ["shuffle_all_words"]).perturbed
    {'shuffle_all_words': [None]}
    """
    check_known("perturbation", perturbations, TEXT_SHUFFLES)
    check_known("tagger", [tagger], TAGGERS)
    _check_cleaning(units, max_words)
    check_captions(captions)
    used = tagger_name(tagger) if set(perturbations) & set(NEEDS_TAGS) else None
    if units == "tokens" and any("trigram" in name for name in perturbations):
        _nltk_tokenizer()
    results: dict[str, list[str | None]] = {name: [] for name in perturbations}
    cleaned = []
    for tagged in tag(captions, tagger) if used else [Tagged(text, (), (), ()) for text in captions]:
        cleaned.append(clean_caption(tagged.text, units, max_words))
        words = _split_words(tagged, max_words) if units == "words" else None
        for name, texts in results.items():
            parts = words or _split_tokens(name, tagged, max_words)
            texts.append(_perturb_one(name, parts, seed, tagged.text, allow_identity))
    return Perturbed(cleaned, results, used)


def clean_caption(text: str, units: str = "words", max_words: int | None = MAX_WORDS) -> str:
    """Return a caption in lower case, without punctuation, cut to its first words.

    Units ``"words"`` removes all punctuation but hyphens and apostrophes within words; ``"tokens"`` removes
    ``.!"()*#:;~``, as the code of ARO's authors does. For arguments and errors see `perturb`.

    >>> clean_caption('A man, in "red", on a half-pipe.')
    'a man in red on a half-pipe'
    >>> clean_caption('A man, in "red", on a half-pipe.', "tokens", max_words=4)
    'a man, in red'
    """
    _check_cleaning(units, max_words)
    if units == "words":
        return " ".join(_WORD.findall(text)[:max_words]).lower()
    text = re.sub(r"\s{2,}", " ", re.sub(r'[.!"()*#:;~]', " ", text.lower()))
    return " ".join(text.rstrip("\n").strip(" ").split(" ")[:max_words])


def caption_rng(seed: int, purpose: str, caption: str) -> np.random.Generator:
    """Return a random generator that depends only on the three arguments.

    >>> bool(caption_rng(0, "swap", "a dog").random() == caption_rng(0, "swap", "a dog").random())
    True
    """
    digest = hashlib.blake2b(f"{seed}\0{purpose}\0{caption}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def shuffle_image(
    image: Image.Image,
    shuffle: str,
    key: str,
    seed: int = 0,
    *,
    allow_identity: bool = False,
    black_edges: bool = False,
) -> Image.Image:
    """Copy an image with its rows, columns or patches in another order.

    Args:
        image: of any mode, at least as many pixels wide and high as the grid has columns and rows.
        shuffle: ``"shuffle_rows_4"``, ``"shuffle_columns_4"`` or ``"shuffle_patches_9"`` (3 by 3).
        key: the image's name. The order, drawn uniformly, depends on it, the seed and the shuffle, not on pixels, as
            decoders differ.
        seed: any integer.
        allow_identity: whether the cells may all stay in their places, as in the authors' code.
        black_edges: whether pixels beyond the grid become black, as in the authors' code, or stay.

    Raises:
        UnknownNameError: a shuffle that does not exist.
        DataError: an image smaller than the grid.

    Source: ARO (Yuksekgonul et al., ICLR 2023), section 3.1.

    >>> flag = Image.new("L", (1, 4)); flag.putdata([1, 2, 3, 4])
    >>> sorted(shuffle_image(flag, "shuffle_rows_4", "flag.png").tobytes())
    [1, 2, 3, 4]
    """
    check_known("image shuffle", [shuffle], IMAGE_SHUFFLES)
    columns, rows = IMAGE_SHUFFLES[shuffle]
    width, height = image.width // columns, image.height // rows
    if not width or not height:
        raise DataError(
            f"the image {key!r} has {image.width} × {image.height} pixels, too few for {columns} columns and {rows} "
            "rows; leave it out or enlarge it"
        )
    corners = [(column * width, row * height) for row in range(rows) for column in range(columns)]
    rng = caption_rng(seed, shuffle, key)
    order = rng.permutation(len(corners))
    while not allow_identity and (order == np.arange(len(corners))).all():
        order = rng.permutation(len(corners))
    shuffled = image.copy()
    if black_edges:
        black = Image.new("RGB", image.size)
        shuffled = black.quantize(palette=image) if image.mode == "P" else black.convert(image.mode)
    for corner, source in zip(corners, order, strict=True):
        x, y = corners[source]
        shuffled.paste(image.crop((x, y, x + width, y + height)), corner)
    return shuffled


def _check_cleaning(units: str, max_words: int | None) -> None:
    check_known("kind of units", [units], UNITS)
    if max_words is not None and max_words < 1:
        raise ScoresError(f"max_words is {max_words}; pass how many words to keep, at least 1, or None for all")


@functools.cache
def _nltk_tokenizer() -> Callable[[str], list[str]]:
    """Return a function like NLTK's `word_tokenize`, which needs no model of sentence ends.

    Of 16,555 captions of NegCLIP's and SugarCrepe's releases, 3 have other tokens, all around an abbreviation.
    """
    try:
        from nltk.tokenize import NLTKWordTokenizer, PunktSentenceTokenizer
    except ImportError as error:
        raise ModelError("the tokens of ARO's authors need NLTK: pip install 'vl-assay[authoring]'") from error
    sentences, words = PunktSentenceTokenizer(), NLTKWordTokenizer()
    return lambda text: [word for sentence in sentences.tokenize(text) for word in words.tokenize(sentence)]


def _split_tokens(name: str, tagged: Tagged, max_words: int | None) -> _Parts:
    """Return the units of the authors' code: the tagger's tokens, parts between spaces, or NLTK's tokens."""
    if name in NEEDS_TAGS:
        tokens = tagged.words
    else:
        tokens = tagged.text.split() if name == "shuffle_all_words" else _nltk_tokenizer()(tagged.text)
    return _Parts(
        tokens, list(tagged.tags), lambda tokens_in_order: clean_caption(" ".join(tokens_in_order), "tokens", max_words)
    )


def _split_words(tagged: Tagged, max_words: int | None) -> _Parts:
    """Return words, each with the tag of its last token that is no clitic: the tag of "pipe" for "half-pipe's"."""
    words, tags, index = [], [], 0
    for match in _WORD.finditer(tagged.text):
        kind = ""
        while index < len(tagged.spans) and tagged.spans[index][0] < match.end():
            start, end = tagged.spans[index]
            token = tagged.text[start:end].lower()
            if token[0] not in "'’-" and token not in ("n't", "n’t"):
                kind = tagged.tags[index]
            index += 1
        words.append(match.group())
        tags.append(kind)
    return _Parts(words, tags, lambda words_in_order: " ".join(words_in_order[:max_words]).lower())


def _perturb_one(name: str, parts: _Parts, seed: int, caption: str, allow_identity: bool) -> str | None:
    """Draw a permutation; return None if none changes the text."""
    rng = caption_rng(seed, name, caption)
    runs, blocks = _blocks(name, parts)
    unchanged = parts.finish(parts.units)

    def result(order: Mapping[int, int]) -> str:
        """Return the text with some runs replaced by others."""
        units_in_order = (unit for run in range(len(runs)) for unit in runs[order.get(run, run)])
        return parts.finish([parts.units[unit] for unit in units_in_order])

    def draw() -> str:
        permuted = [zip(block, rng.permutation(block).tolist(), strict=True) for block in blocks]
        return result(dict(itertools.chain.from_iterable(permuted)))

    text = draw()
    if allow_identity or text != unchanged:
        return text
    # If no exchange of two runs changes the text, no permutation does.
    words = [[parts.units[unit].lower() for unit in run] for run in runs]
    exchanges = (pair for block in blocks for pair in itertools.combinations(block, 2))
    if all(words[a] == words[b] or result({a: b, b: a}) == unchanged for a, b in exchanges):
        return None
    while text == unchanged:
        text = draw()
    return text


def _blocks(name: str, parts: _Parts) -> tuple[list[list[int]], list[list[int]]]:
    """Return the runs of units that stay together, and the lists of runs that are permuted with one another."""
    indices = list(range(len(parts.units)))
    trigrams = [indices[start : start + 3] for start in indices[::3]]
    if name == "shuffle_trigrams":
        return trigrams, [list(range(len(trigrams)))]
    if name == "shuffle_all_words":
        blocks = [indices]
    elif name == "shuffle_within_trigrams":
        blocks = trigrams
    else:
        blocks = [[index for index in indices if parts.tags[index].startswith(kind)] for kind in ("NN", "JJ")]
        if name != "shuffle_nouns_and_adjectives":
            blocks = [sorted(set(indices).difference(*blocks))]
    return [[index] for index in indices], blocks
