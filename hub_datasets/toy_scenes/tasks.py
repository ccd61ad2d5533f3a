"""From one scene, an example of every task of the papers.

SugarCrepe's seven hard negatives, hard positives (The Hard Positive Truth, section 3.4), ARO's four order
perturbations (section 2.3), contextual phrase detection with distractor images (TRICD, section 3) and its questions,
Winoground-like groups, CREPE's sets (``sets``) and retrieval (``retrieval``). Labels are computed from the scene:
candidates for negatives that are true are rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..authoring.text.shuffles import SHUFFLES
from .episodes import (
    Episode,
    Rng,
    Row,
    TaskRows,
    absent,
    describe,
    exchange_words,
    pick,
    rng_for,
    sample_episode,
    say,
    with_absent,
    with_phrase,
)
from .language import KIND, MEANING, NounPhrase, Statement, parse, synonym
from .render import box
from .retrieval import retrieval_rows
from .sets import set_rows
from .world import ATTRIBUTES, CANVAS, Scene, exchange_places, exchange_values

CATEGORIES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
HARD_POSITIVE_CATEGORIES = ("replace_att", "replace_obj", "replace_rel", "swap")
DISTRACTORS = ("replace_att", "replace_obj", "swap_att", "swap_obj")


def task_rows(task: str, seed: int, split: str, index: int) -> tuple[Episode, list[Row]]:
    """Return the episode and its rows for one task (a key of `TASKS`), without ids and pictures.

    A value that is a `Scene` stands for its image. The list is empty if the task excludes the scene.
    """
    episode = sample_episode(seed, split, index)
    # The questions are about the images of detection.
    drawn_as = "detection" if task == "vqa" else task
    rng = rng_for(seed, split, index, 1 + list(TASKS).index(drawn_as))
    return episode, list(TASKS[task](episode, rng))


def negative(category: str, episode: Episode, rng: Rng) -> Statement:
    """Return a hard negative of one of SugarCrepe's types (`CATEGORIES`; Table 2), false of the scene."""
    statement, scene = episode.statement, episode.scene
    position = int(rng.integers(2))
    phrase = statement.phrases[position]
    if category == "replace_obj":
        return with_absent(statement, position, "shape", scene, rng)
    if category == "replace_att":
        kind = pick(rng, [k for k in ATTRIBUTES if phrase.word(k) and absent(scene, k)])
        return with_absent(statement, position, kind, scene, rng)
    if category == "replace_rel":
        return replace(statement, relation=say(rng, episode.plan.false_relation))
    if category == "swap_obj":
        return replace(statement, phrases=statement.phrases[::-1])
    if category == "swap_att":
        return exchange_words(statement, 0, 1, episode.plan.contrast)
    if category == "add_att":
        kind = pick(rng, [k for k in ("texture", "colour") if not phrase.word(k)])
        return with_absent(statement, position, kind, scene, rng)
    if category == "add_obj":
        added = NounPhrase((), say(rng, pick(rng, absent(scene, "shape"))))
        added = added.with_word(say(rng, pick(rng, ATTRIBUTES[episode.plan.contrast])))
        return replace(statement, phrases=(*statement.phrases, added))
    raise ValueError(f"unknown category {category!r}; known: {', '.join(CATEGORIES)}")


def _itm(episode: Episode, rng: Rng) -> Iterator[Row]:
    for category in CATEGORIES:
        yield {
            "category": category,
            "image": episode.scene,
            "caption": episode.statement.text,
            "negative_caption": negative(category, episode, rng).text,
        }


def _hard_positives(episode: Episode, rng: Rng) -> Iterator[Row]:
    for category in HARD_POSITIVE_CATEGORIES:
        if category == "swap":
            conjunction = replace(episode.statement, relation=None)
            original, false = conjunction, exchange_words(conjunction, 0, 1, episode.plan.contrast)
            positive = replace(conjunction, phrases=conjunction.phrases[::-1])
        else:
            original, false = episode.statement, negative(category, episode, rng)
            positive = _same_meaning(original, false)
        yield {
            "category": category,
            "image": episode.scene,
            "caption": original.text,
            "positive_caption": positive.text,
            "negative_caption": false.text,
        }


def _same_meaning(original: Statement, false: Statement) -> Statement:
    """Return the original with a synonym of the word that the negative replaces."""
    if original.relation != false.relation:
        return replace(original, relation=synonym(original.relation or ""))
    for position, (ours, theirs) in enumerate(zip(original.phrases, false.phrases, strict=True)):
        for kind in ("shape", *ATTRIBUTES):
            word = ours.word(kind)
            if word and word != theirs.word(kind):
                return with_phrase(original, position, ours.with_word(synonym(word)))
    raise ValueError(f"{false.text!r} replaces no word of {original.text!r}")


def shuffle_words(perturbation: str, words: list[str], rng: Rng) -> list[str]:
    """Draw an ARO order perturbation (`SHUFFLES`; ARO, section 2.3 and Table 1), which may be the identity."""
    if perturbation == "shuffle_trigrams":
        trigrams = [words[i : i + 3] for i in range(0, len(words), 3)]
        return [word for i in rng.permutation(len(trigrams)) for word in trigrams[i]]
    if perturbation == "shuffle_within_trigrams":
        groups = [list(range(i, min(i + 3, len(words)))) for i in range(0, len(words), 3)]
    else:
        kinds = [KIND.get(MEANING.get(word, ""), "other") for word in words]
        nouns = [i for i, kind in enumerate(kinds) if kind == "shape"]
        adjectives = [i for i, kind in enumerate(kinds) if kind in ATTRIBUTES]
        if perturbation == "shuffle_nouns_and_adjectives":
            groups = [nouns, adjectives]
        elif perturbation == "shuffle_all_but_nouns_and_adjectives":
            groups = [[i for i in range(len(words)) if i not in nouns and i not in adjectives]]
        else:
            raise ValueError(f"unknown perturbation {perturbation!r}; known: {', '.join(SHUFFLES)}")
    shuffled = list(words)
    for slots in groups:
        for slot, source in zip(slots, rng.permutation(slots), strict=True):
            shuffled[slot] = words[int(source)]
    return shuffled


def _order(episode: Episode, rng: Rng) -> Iterator[Row]:
    words = episode.statement.text.split()
    false = []
    for perturbation in SHUFFLES:
        while True:
            text = " ".join(shuffle_words(perturbation, words, rng))
            meant = parse(text)
            if text != episode.statement.text and not (meant and meant.is_true_of(episode.scene)):
                break
        false.append(text)
    yield {
        "image": episode.scene,
        "caption": episode.statement.text,
        "negative_captions": false,
        "perturbations": list(SHUFFLES),
    }


def distractor(kind: str, episode: Episode, rng: Rng) -> Scene:
    """Return a scene similar to the episode's, of which the episode's caption is false (`DISTRACTORS`)."""
    scene, statement = episode.scene, episode.statement
    if kind == "swap_att":
        return exchange_values(scene, episode.plan.contrast)
    if kind == "swap_obj":
        return exchange_places(scene, episode.plan.relation)
    position = int(rng.integers(2))
    if kind == "replace_obj":
        change = {"shape": pick(rng, absent(scene, "shape"))}
    elif kind == "replace_att":
        attributes = [k for k in ATTRIBUTES if statement.phrases[position].word(k) and absent(scene, k)]
        attribute = pick(rng, attributes)
        change = {attribute: pick(rng, absent(scene, attribute))}
    else:
        raise ValueError(f"unknown distractor {kind!r}; known: {', '.join(DISTRACTORS)}")
    things = list(scene.things)
    things[position] = replace(things[position], **change)
    return Scene(tuple(things))


def _detection(episode: Episode, rng: Rng) -> Iterator[Row]:
    kind = str(rng.choice(DISTRACTORS))
    caption = episode.statement.text
    starts = [0, len(caption) - len(episode.statement.phrases[1].text)]
    for positive in (True, False):
        phrases = []
        for phrase, thing, start in zip(episode.statement.phrases, episode.scene.things, starts, strict=False):
            x1, y1, x2, y2 = box(thing)
            # Unique in a split, from 1, as in TRICD.
            phrase_id = 4 * episode.index + 2 * (not positive) + len(phrases) + 1
            phrases.append(
                {
                    "text": phrase.text,
                    "start": start,
                    "end": start + len(phrase.text),
                    "phrase_id": phrase_id,
                    "boxes": [[x1, y1, x2 - x1, y2 - y1]] if positive else [],
                }
            )
        yield {
            "image": episode.scene if positive else distractor(kind, episode, rng),
            "caption": caption,
            "phrases": phrases,
            "positive": positive,
            "type": kind,
            "width": CANVAS,
            "height": CANVAS,
            "overruns": False,
        }


def _vqa(episode: Episode, rng: Rng) -> Iterator[Row]:
    """Yield the captions and images of detection as yes-or-no questions, as in TRICD (appendix C.2)."""
    for row in _detection(episode, rng):
        yield {
            "image": row["image"],
            "question": f"is there {row['caption']}",
            "answer": row["positive"],
            "type": row["type"],
        }


def _groups(episode: Episode, rng: Rng) -> Iterator[Row]:
    tag = str(rng.choice(("swap_att", "swap_obj")))
    yield {
        "tag": tag,
        "image_0": episode.scene,
        "caption_0": episode.statement.text,
        "image_1": distractor(tag, episode, rng),
        "caption_1": negative(tag, episode, rng).text,
    }


def _captions(episode: Episode, rng: Rng) -> Iterator[Row]:
    """Yield positive captions of several forms with random synonyms, for training."""
    scene, relation = episode.scene, episode.plan.relation
    brief = [describe(rng, thing, episode.plan.named) for thing in scene.things]
    full = [describe(rng, thing, tuple(ATTRIBUTES)) for thing in scene.things[:2]]
    shuffled = [brief[int(i)] for i in rng.permutation(len(brief))]
    statements = (
        episode.statement,
        Statement(tuple(brief[:2]), say(rng, relation)),
        Statement(tuple(full), say(rng, relation)),
        Statement(tuple(full[::-1])),
        Statement(tuple(shuffled)),
    )
    yield {"image": scene, "captions": [statement.text for statement in statements]}


# A task's index determines its random numbers: new tasks go to the end.
TASKS: dict[str, TaskRows] = {
    "itm": _itm,
    "hard_positives": _hard_positives,
    "order": _order,
    "detection": _detection,
    "groups": _groups,
    "captions": _captions,
    "retrieval": retrieval_rows,
    "sets": set_rows,
    "vqa": _vqa,
}
