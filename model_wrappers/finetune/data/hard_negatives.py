"""Hard negatives and hard positives for training captions: by rule, exact from a known scene, or from files."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....hub_datasets.authoring.data.candidates import Candidate, read_candidates
from ....hub_datasets.authoring.generate.generate import POSITIVE_KINDS as _POSITIVE_RULES
from ....hub_datasets.authoring.generate.rules import RULE_KINDS, make_by_rule
from ....hub_datasets.authoring.text.negatives import negclip_negatives
from ....hub_datasets.authoring.text.perturb import caption_rng
from ....hub_datasets.toy_scenes.episodes import absent, say, with_absent, with_phrase
from ....hub_datasets.toy_scenes.language import MEANING, NounPhrase, Statement, parse, synonym
from ....hub_datasets.toy_scenes.world import ATTRIBUTES, RELATIONS, Scene
from ....metrics.common.errors import DataError
from .samples import ImageOpener, Sample

if TYPE_CHECKING:
    import numpy as np

NEGCLIP = "negclip"
SCENE_KINDS = ("scene:swap", "scene:replace")
# SugarCrepe's and Hard Positives' coarse kinds.
_NEGATIVE_GROUPS = {
    "swap": ("swap_obj", "swap_att"),
    "replace": ("replace_obj", "replace_att", "replace_rel"),
    "add": ("add_obj", "add_att"),
}
_POSITIVE_GROUPS = {"swap": ("positive_swap",), "replace": ("positive_replace",)}
_NEGATIVE_RULES = tuple(kind for kind in RULE_KINDS if kind not in _POSITIVE_RULES)
NEGATIVE_KINDS = (NEGCLIP, *_NEGATIVE_GROUPS, *_NEGATIVE_RULES, *SCENE_KINDS)
POSITIVE_KINDS = (*_POSITIVE_GROUPS, *_POSITIVE_RULES, *SCENE_KINDS)
# As many as NegCLIP has (ARO, appendix C.1).
_MOST = 5
# The time of rules grows faster than the text, and no text tower reads that much.
_LONGEST = 2000

# Makes texts of one kind for a row.
_Maker = Callable[[Sample], Iterable[str]]


def add_hard_captions(
    rows: Sequence[Sample],
    images: ImageOpener,
    negatives: Sequence[str],
    positives: Sequence[str],
    files: Sequence[str | Path],
    seed: int,
) -> tuple[list[Sample], int]:
    """Add negatives and positives, from files and by kind, to the source's samples, without duplicates.

    A negative that is a caption or positive of the same image is left out, and so is a positive that equals its
    caption. Texts are compared without case, repeated spaces and a final period.

    Returns:
        The rows; and how many negatives of the source were left out.

    Raises:
        DataError: a scene kind for images without a scene; a file of candidates with none for these captions.
    """
    generated = [_from_file(Path(path), rows) for path in files]
    makers = {is_positive: [made[is_positive] for made in generated] for is_positive in (False, True)}
    captions = list(dict.fromkeys(row.caption for row in rows))
    kinds = [(False, kind) for kind in _expand(negatives, _NEGATIVE_GROUPS)]
    kinds += [(True, kind) for kind in _expand(positives, _POSITIVE_GROUPS)]
    for is_positive, kind in kinds:
        by_scene = kind in SCENE_KINDS
        made = _by_scene(kind, images, seed, is_positive) if by_scene else _by_rule(kind, captions, seed)
        makers[is_positive].append(made)
    rows = [row._replace(positives=_merge(row, row.positives, makers[True], [row.caption])) for row in rows]
    true: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        true[row.image].update(map(_normalised, (row.caption, *row.positives)))
    lost = sum(_normalised(text) in true[row.image] for row in rows for text in row.negatives)
    rows = [row._replace(negatives=_merge(row, row.negatives, makers[False], true[row.image])) for row in rows]
    return rows, lost


def _expand(names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Groups as their kinds, deduplicated."""
    return list(dict.fromkeys(kind for name in names for kind in groups.get(name, (name,))))


def _merge(row: Sample, texts: Iterable[str], makers: Iterable[_Maker], excluded: Iterable[str]) -> tuple[str, ...]:
    """A row's own texts and those made for it, deduplicated, without the excluded ones."""
    merged: dict[str, str] = {}
    for text in itertools.chain(texts, *(make(row) for make in makers)):
        merged.setdefault(_normalised(text), text)
    for text in excluded:
        merged.pop(_normalised(text), None)
    return tuple(merged.values())


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(" .")


def _by_rule(kind: str, captions: Sequence[str], seed: int) -> _Maker:
    captions = [caption for caption in captions if len(caption) <= _LONGEST]
    if kind == NEGCLIP:
        texts = [
            [negative.caption for negative in negatives] for negatives in negclip_negatives(captions, seed, most=_MOST)
        ]
    else:
        made = make_by_rule(kind, captions, seed, most=_MOST)
        texts = [[outcome[0] for outcome in outcomes if isinstance(outcome, tuple)] for outcomes in made]
    by_caption = dict(zip(captions, texts, strict=True))
    return lambda row: by_caption.get(row.caption, ())


def _from_file(path: Path, rows: Sequence[Sample]) -> dict[bool, _Maker]:
    """The candidates of a file, by whether they are positives.

    A candidate belongs to its caption; where several images share the caption and the candidate names an image, to
    the image with the same file stem.
    """
    image_of: dict[str, str] = {}
    shared = {row.caption for row in rows if image_of.setdefault(row.caption, row.image) != row.image}

    def key(row: Sample | Candidate) -> tuple[str, str]:
        return row.caption, Path(row.image).stem if row.caption in shared else ""

    candidates = read_candidates(path)
    known = {caption_key for row in rows for caption_key in (key(row), (row.caption, ""))}
    if known.isdisjoint(map(key, candidates)):
        raise DataError(
            f"{path} has candidates, but none for a caption of the training data; captions are compared to the letter, "
            "and so are the names of images where several have one caption"
        )
    by_sign: dict[bool, dict[tuple[str, str], list[str]]] = {False: defaultdict(list), True: defaultdict(list)}
    for candidate in candidates:
        by_sign[candidate.is_positive][key(candidate)].append(candidate.candidate)

    def make(texts: Mapping[tuple[str, str], list[str]], row: Sample) -> list[str]:
        return [*texts.get(key(row), ()), *texts.get((row.caption, ""), ())]

    return {is_positive: functools.partial(make, texts) for is_positive, texts in by_sign.items()}


def _by_scene(kind: str, images: ImageOpener, seed: int, is_positive: bool) -> _Maker:
    """Texts that are true or false by the scene; none for captions outside the grammar of toy_scenes."""
    parsed = functools.lru_cache(parse)

    def make(row: Sample) -> Iterable[str]:
        scene, statement = images.scene(row.image), parsed(row.caption)
        if scene is None:
            raise DataError(
                f"the kind {kind!r} is made from the scene of an image of toy_scenes, which {row.image} is not; "
                f"use {kind.removeprefix('scene:')!r}, which is made by rule"
            )
        if statement is None:
            return []
        if is_positive:
            return [positive.text for positive in _POSITIVES[kind](statement)]
        rng = caption_rng(seed, kind, f"{row.image}\0{row.caption}")
        return [negative.text for negative in _NEGATIVES[kind](statement, scene, rng) if _is_plausible(negative)]

    return make


def _swap(statement: Statement, scene: Scene, rng: np.random.Generator) -> Iterator[Statement]:
    """Two phrases of a relation exchanged, or two phrases' words of one attribute."""
    swapped: list[Statement] = []
    for i, j in itertools.combinations(range(len(statement.phrases)), 2):
        first, second = statement.phrases[i], statement.phrases[j]
        if statement.relation is not None:
            swapped.append(_with(statement, {i: second, j: first}))
        for attribute in ATTRIBUTES:
            ours, theirs = first.word(attribute), second.word(attribute)
            if ours and theirs and MEANING[ours] != MEANING[theirs]:
                swapped.append(_with(statement, {i: first.with_word(theirs), j: second.with_word(ours)}))
    return (candidate for candidate in swapped if not candidate.is_true_of(scene))


def _replace(statement: Statement, scene: Scene, rng: np.random.Generator) -> Iterator[Statement]:
    """Each word in turn replaced by one that is true of nothing in the scene, and the relation by a false one."""
    for index, phrase in enumerate(statement.phrases):
        for attribute in ("shape", *ATTRIBUTES):
            if phrase.word(attribute) and absent(scene, attribute):
                yield with_absent(statement, index, attribute, scene, rng)
    if statement.relation is not None:
        relations = [relation for relation in RELATIONS if relation != MEANING[statement.relation]]
        for index in rng.permutation(len(relations)).tolist():
            replaced = Statement(statement.phrases, say(rng, relations[index]))
            if _is_plausible(replaced) and not replaced.is_true_of(scene):
                yield replaced
                return


def _reorder(statement: Statement) -> Iterator[Statement]:
    """Two phrases around "and", in the other order (The Hard Positive Truth, section 3.4)."""
    if statement.relation is None:
        for i, j in itertools.combinations(range(len(statement.phrases)), 2):
            yield _with(statement, {i: statement.phrases[j], j: statement.phrases[i]})


def _paraphrase(statement: Statement) -> Iterator[Statement]:
    """One word, or the relation, replaced by its synonym."""
    for index, phrase in enumerate(statement.phrases):
        for word in (*phrase.adjectives, phrase.noun):
            yield _with(statement, {index: phrase.with_word(synonym(word))})
    if statement.relation is not None:
        yield Statement(statement.phrases, synonym(statement.relation))


def _with(statement: Statement, changed: Mapping[int, NounPhrase]) -> Statement:
    for index, phrase in changed.items():
        statement = with_phrase(statement, index, phrase)
    return statement


def _is_plausible(statement: Statement) -> bool:
    """Return whether the named sizes allow the relation; otherwise the text would show that it is false."""
    relation = MEANING[statement.relation] if statement.relation else ""
    never = {"inside": ("big", "small"), "larger than": ("small", "big")}.get(relation, ())
    sizes = (MEANING[phrase.word("size") or ""] if phrase.word("size") else "" for phrase in statement.phrases)
    return not any(size == wrong for size, wrong in zip(sizes, never, strict=False))


_NEGATIVES = {"scene:swap": _swap, "scene:replace": _replace}
_POSITIVES = {"scene:swap": _reorder, "scene:replace": _paraphrase}
