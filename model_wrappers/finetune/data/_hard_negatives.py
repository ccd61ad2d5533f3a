"""Hard negatives and hard positives for training captions: by rule, exactly where the scene is known, or from files."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

from ....hub_datasets.authoring.data.candidates import Candidate, read_candidates
from ....hub_datasets.authoring.generate.generate import POSITIVE_KINDS as _POSITIVE_RULES
from ....hub_datasets.authoring.generate.rules import RULE_KINDS, make_by_rule
from ....hub_datasets.authoring.text.negatives import negclip_negatives
from ....hub_datasets.authoring.text.perturb import caption_rng
from ....metrics.common.errors import DataError, UnknownNameError
from .reading import Images, Row

if TYPE_CHECKING:
    import numpy as np

    from ....hub_datasets.toy_scenes.language import Phrase, Statement
    from ....hub_datasets.toy_scenes.world import Scene

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
# Rules take time that grows faster than the text; no text tower reads so much.
_LONGEST = 2000

# What makes texts of one kind for a row.
_Maker = Callable[[Row], Iterable[str]]


def check_kinds(negatives: Sequence[str], positives: Sequence[str]) -> None:
    """Raise `UnknownNameError` for a kind that does not exist."""
    for what, kinds, known in (("negatives", negatives, NEGATIVE_KINDS), ("positives", positives, POSITIVE_KINDS)):
        for kind in kinds:
            if kind not in known:
                raise UnknownNameError(f"kind of {what}", kind, known)


def add_material(
    rows: Sequence[Row],
    images: Images,
    negatives: Sequence[str],
    positives: Sequence[str],
    files: Sequence[str | Path],
    seed: int,
) -> tuple[list[Row], int]:
    """The rows with the negatives and positives of kinds and files added to those that they came with.

    No text comes twice. A negative that is a true caption or a positive of the same image is left out, and so is a
    positive that is the caption itself. Also how many negatives the rows came with that were left out for it.

    Raises:
        DataError: a kind for scenes where images show none; a file of candidates with none for these captions.
    """
    makers = _makers(rows, images, {False: negatives, True: positives}, files, seed)
    rows = [row._replace(positives=_unlike(row.positives, [row.caption], row, makers[True])) for row in rows]
    true: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        true[row.image].update(map(_plain, (row.caption, *row.positives)))
    lost = sum(_plain(text) in true[row.image] for row in rows for text in row.negatives)
    rows = [row._replace(negatives=_unlike(row.negatives, true[row.image], row, makers[False])) for row in rows]
    return rows, lost


def _makers(
    rows: Sequence[Row],
    images: Images,
    groups: Mapping[bool, Sequence[str]],
    files: Sequence[str | Path],
    seed: int,
) -> dict[bool, list[_Maker]]:
    """What makes negatives (False) and positives (True): first what files have, then the kinds in their order."""
    captions = list(dict.fromkeys(row.caption for row in rows))
    generated = [_from_file(Path(path), rows) for path in files]
    makers = {is_positive: [own[is_positive] for own in generated] for is_positive in (False, True)}
    wanted = [(is_positive, kind) for is_positive, names in groups.items() for kind in _kinds(names, is_positive)]
    console = Console(stderr=True)
    for is_positive, kind in track(
        wanted, "making negatives and positives", console=console, disable=not console.is_terminal, transient=True
    ):
        if kind in SCENE_KINDS:
            makers[is_positive].append(_by_scene(kind, images, seed, is_positive=is_positive))
        else:
            makers[is_positive].append(_by_rule(kind, captions, seed))
    return makers


def _kinds(names: Sequence[str], is_positive: bool) -> list[str]:
    """The kinds that names stand for, each once."""
    groups = _POSITIVE_GROUPS if is_positive else _NEGATIVE_GROUPS
    return list(dict.fromkeys(kind for name in names for kind in groups.get(name, (name,))))


def _unlike(own: Iterable[str], known: Iterable[str], row: Row, makers: Iterable[_Maker]) -> tuple[str, ...]:
    """A row's own texts and those that are made for it, without repetitions and without those that are known."""
    found: dict[str, str] = {}
    for text in itertools.chain(own, *(make(row) for make in makers)):
        found.setdefault(_plain(text), text)
    for text in known:
        found.pop(_plain(text), None)
    return tuple(found.values())


def _plain(text: str) -> str:
    """What two texts share that differ in dress alone."""
    return " ".join(text.casefold().split()).rstrip(" .")


def _by_rule(kind: str, captions: Sequence[str], seed: int) -> _Maker:
    captions = [caption for caption in captions if len(caption) <= _LONGEST]
    if kind == NEGCLIP:
        texts = [[each.caption for each in own] for own in negclip_negatives(captions, seed, most=_MOST)]
    else:
        made = make_by_rule(kind, captions, seed, most=_MOST)
        texts = [[outcome[0] for outcome in own if isinstance(outcome, tuple)] for own in made]
    by_caption = dict(zip(captions, texts, strict=True))
    return lambda row: by_caption.get(row.caption, ())


def _captions_of_several_images(rows: Iterable[Row]) -> set[str]:
    images: dict[str, str] = {}
    return {row.caption for row in rows if images.setdefault(row.caption, row.image) != row.image}


def _from_file(path: Path, rows: Sequence[Row]) -> dict[bool, _Maker]:
    """The candidates of a file, by whether they are positives.

    They belong to a caption, and where several images have that, to the one of the same name if they name one.
    """
    shared = _captions_of_several_images(rows)

    def key(row: Row | Candidate) -> tuple[str, str]:
        return row.caption, Path(row.image).stem if row.caption in shared else ""

    candidates = read_candidates(path)
    known = {each for row in rows for each in (key(row), (row.caption, ""))}
    if known.isdisjoint(map(key, candidates)):
        raise DataError(
            f"{path} has candidates, but none for a caption of the training data; captions are compared to the letter, "
            "and so are the names of images where several have one caption"
        )
    found: dict[bool, dict[tuple[str, str], list[str]]] = {False: defaultdict(list), True: defaultdict(list)}
    for candidate in candidates:
        found[candidate.is_positive][key(candidate)].append(candidate.candidate)

    def maker(*, is_positive: bool) -> _Maker:
        texts = found[is_positive]
        return lambda row: [*texts.get(key(row), ()), *texts.get((row.caption, ""), ())]

    return {False: maker(is_positive=False), True: maker(is_positive=True)}


def _by_scene(kind: str, images: Images, seed: int, *, is_positive: bool) -> _Maker:
    """Texts whose truth follows from the scene; none for captions outside its grammar."""
    from ....hub_datasets.toy_scenes import language

    parse = functools.lru_cache(language.parse)

    def make(row: Row) -> Iterable[str]:
        scene, statement = images.scene(row.image), parse(row.caption)
        if scene is None:
            raise DataError(
                f"the kind {kind!r} is made from the scene of an image of toy_scenes, which {row.image} is not; "
                f"take {kind.removeprefix('scene:')!r}, which is made by rule"
            )
        if statement is None:
            return []
        if is_positive:
            return [each.text for each in _POSITIVES[kind](statement)]
        rng = caption_rng(seed, kind, f"{row.image}\0{row.caption}")
        return [each.text for each in _NEGATIVES[kind](statement, scene, rng) if _could_be(each)]

    return make


def _swapped(statement: Statement, scene: Scene, rng: np.random.Generator) -> Iterator[Statement]:
    """Two phrases exchanged, if a relation is between them, or their words of one attribute."""
    from ....hub_datasets.toy_scenes.language import MEANING
    from ....hub_datasets.toy_scenes.world import ATTRIBUTES

    made: list[Statement] = []
    for i, j in itertools.combinations(range(len(statement.phrases)), 2):
        first, second = statement.phrases[i], statement.phrases[j]
        if statement.relation is not None:
            made.append(_with(statement, {i: second, j: first}))
        for kind in ATTRIBUTES:
            ours, theirs = first.word(kind), second.word(kind)
            if ours and theirs and MEANING[ours] != MEANING[theirs]:
                made.append(_with(statement, {i: first.with_word(theirs), j: second.with_word(ours)}))
    return (each for each in made if not each.is_true_of(scene))


def _replaced(statement: Statement, scene: Scene, rng: np.random.Generator) -> Iterator[Statement]:
    """Each word in turn replaced by one that is true of nothing in the scene, and the relation by a false one."""
    from ....hub_datasets.toy_scenes.episodes import absent, say, with_absent
    from ....hub_datasets.toy_scenes.language import MEANING, Statement
    from ....hub_datasets.toy_scenes.world import ATTRIBUTES, RELATIONS

    for place, phrase in enumerate(statement.phrases):
        for kind in ("shape", *ATTRIBUTES):
            if phrase.word(kind) and absent(scene, kind):
                yield with_absent(statement, place, kind, scene, rng)
    if statement.relation is not None:
        others = [each for each in RELATIONS if each != MEANING[statement.relation]]
        for place in rng.permutation(len(others)).tolist():
            made = Statement(statement.phrases, say(rng, others[place]))
            if _could_be(made) and not made.is_true_of(scene):
                yield made
                return


def _exchanged(statement: Statement) -> Iterator[Statement]:
    """Two phrases around "and", in the other order (The Hard Positive Truth, section 3.4)."""
    if statement.relation is None:
        for i, j in itertools.combinations(range(len(statement.phrases)), 2):
            yield _with(statement, {i: statement.phrases[j], j: statement.phrases[i]})


def _reworded(statement: Statement) -> Iterator[Statement]:
    """One word, or the relation, in the other words of its meaning."""
    from ....hub_datasets.toy_scenes.language import Statement, synonym

    for place, phrase in enumerate(statement.phrases):
        for word in (*phrase.adjectives, phrase.noun):
            yield _with(statement, {place: phrase.with_word(synonym(word))})
    if statement.relation is not None:
        yield Statement(statement.phrases, synonym(statement.relation))


def _with(statement: Statement, changed: Mapping[int, Phrase]) -> Statement:
    from ....hub_datasets.toy_scenes.episodes import with_phrase

    for place, phrase in changed.items():
        statement = with_phrase(statement, place, phrase)
    return statement


def _could_be(statement: Statement) -> bool:
    """Whether the sizes that a statement names allow for its relation; else it would give itself away."""
    from ....hub_datasets.toy_scenes.language import MEANING

    relation = MEANING[statement.relation] if statement.relation else ""
    never = {"inside": ("big", "small"), "larger than": ("small", "big")}.get(relation, ())
    named = (MEANING[phrase.word("size") or ""] if phrase.word("size") else "" for phrase in statement.phrases)
    return not any(size == wrong for size, wrong in zip(named, never, strict=False))


_NEGATIVES = {"scene:swap": _swapped, "scene:replace": _replaced}
_POSITIVES = {"scene:swap": _exchanged, "scene:replace": _reworded}
