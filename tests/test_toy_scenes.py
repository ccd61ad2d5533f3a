"""The toy world: every label of every task is exact, the grammar is sound, and no blind rule finds the negatives.

The checker below shares nothing with the code that it checks: its own lexicon, its own parser, its own geometry.
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import stats
from statsmodels.stats.contingency_tables import SquareTable

from vl_assay.hub_datasets.toy_scenes import language, tasks, world
from vl_assay.hub_datasets.toy_scenes.builder import VERSION
from vl_assay.hub_datasets.toy_scenes.language import Phrase, Statement, parse
from vl_assay.hub_datasets.toy_scenes.render import box, read_scene, render, to_png
from vl_assay.hub_datasets.toy_scenes.tasks import TASKS, sample_episode, task_rows
from vl_assay.hub_datasets.toy_scenes.world import Scene, Thing

# One line for each kind; words of one meaning side by side, the scene's own word first.
LEXICON = {
    kind: [[word.strip() for word in meaning.split(",")] for meaning in line.split("|")]
    for kind, line in {
        "size": "small, little | big, large",
        "texture": "plain, solid | striped, lined | dotted, spotted | checkered, checked",
        "colour": "red, crimson | blue, azure | green, emerald | yellow, golden | purple, violet | orange, amber "
        "| pink, rose | black, ebony",
        "shape": "circle, disc | square, box | triangle, wedge | star, pentagram | cross, plus | ring, hoop "
        "| diamond, rhombus | pill, capsule",
        "relation": "left of, to the left of | right of, to the right of | above, over | below, under "
        "| inside, within | larger than, bigger than",
    }.items()
}
MEANINGS = {kind: {word: group[0] for group in groups for word in group} for kind, groups in LEXICON.items()}
ADJECTIVES = ("size", "texture", "colour")
# Level of the tests of chance, of which there are dozens.
RARE = 1e-4
# Of the first hundred scenes of test in all tasks; another digest needs another VERSION.
PUBLISHED = "2d73b01d56c540f7"


# --- the checker ------------------------------------------------------------------------------------------


def one_of(kind):
    return "|".join(sorted(MEANINGS[kind], key=len, reverse=True))


PHRASE = re.compile(
    "(?P<article>an?) " + "".join(f"((?P<{k}>{one_of(k)}) )?" for k in ADJECTIVES) + f"(?P<shape>{one_of('shape')})"
)
RELATION = re.compile(f" ({one_of('relation')}) (?=an? )")


@functools.lru_cache(4096)
def understand(text):
    """A caption as (phrases, relation): phrases are dicts from kind to word; None where it breaks the grammar."""
    head, *tail = text.split(" and ")
    first, *rest = RELATION.split(head)
    relation = rest[0] if rest else None
    texts = [first, *rest[1:], *tail]
    matches = [PHRASE.fullmatch(part) for part in texts]
    if len(rest) not in (0, 2) or len(texts) < 2 or not all(matches):
        return None
    phrases = []
    for match in matches:
        words = match.groupdict()
        starts_with_vowel = match.group().split()[1][0] in "aeiou"
        if (words.pop("article") == "an") != starts_with_vowel:
            return None
        phrases.append({kind: word for kind, word in words.items() if word})
    return phrases, relation


def extent(thing):
    """The square in which a thing is drawn, XYXY."""
    half = {"small": 9, "big": 19}[thing["size"]]
    return thing["x"] - half, thing["y"] - half, thing["x"] + half, thing["y"] + half


def stands(relation, a, b):
    """Whether two things stand in a relation, by their squares."""
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = extent(a), extent(b)
    return {
        "left of": ax2 <= bx1,
        "right of": bx2 <= ax1,
        "above": ay2 <= by1,
        "below": by2 <= ay1,
        "inside": bx1 <= ax1 and by1 <= ay1 and ax2 <= bx2 and ay2 <= by2,
        "larger than": ax2 - ax1 > bx2 - bx1,
    }[relation]


def true(text, things):
    """Whether a caption is true of a scene; all shapes of a scene differ, so that a noun names one thing."""
    understood = understand(text)
    if understood is None:
        return False
    phrases, relation = understood
    named = []
    for phrase in phrases:
        meant = {kind: MEANINGS[kind][word] for kind, word in phrase.items()}
        found = [thing for thing in things if all(thing[kind] == value for kind, value in meant.items())]
        if len(found) != 1 or found[0] in named:
            return False
        named += found
    return relation is None or stands(MEANINGS["relation"][relation], *named[:2])


def things_of(scene):
    return json.loads(scene.to_json())["things"]


def word_applies(word, things):
    """Whether one word is true of the scene, for a reader who knows no order."""
    for kind in (*ADJECTIVES, "shape"):
        if word in MEANINGS[kind]:
            return any(thing[kind] == MEANINGS[kind][word] for thing in things)
    for phrase, relation in MEANINGS["relation"].items():
        if word in phrase.split() and word not in ("to", "the", "of", "than"):
            return any(stands(relation, a, b) for a, b in itertools.permutations(things, 2))
    assert word in ("a", "an", "and", "to", "the", "of", "than"), word
    return True


def difference(text, other):
    """What was replaced, as {(place, kind): (word, other word)}; None where the two differ in shape."""
    (phrases, relation), (others, other_relation) = understand(text), understand(other)
    if len(phrases) != len(others) or [p.keys() for p in phrases] != [p.keys() for p in others]:
        return None
    pairs = {(0, "relation"): (relation, other_relation)}
    pairs |= {(i, kind): (p[kind], others[i][kind]) for i, p in enumerate(phrases) for kind in p}
    return {place: words for place, words in pairs.items() if words[0] != words[1]}


def added(text, other):
    """The kinds of word that the other caption has more of, by its phrases in order."""
    phrases, others = understand(text)[0], understand(other)[0]
    assert understand(text)[1] == understand(other)[1]
    assert all(p.items() <= o.items() for p, o in zip(phrases, others, strict=False))
    return [sorted(o.keys() - p.keys()) for p, o in itertools.zip_longest(phrases, others, fillvalue={})]


def class_of(word):
    for kind in (*ADJECTIVES, "shape"):
        if word in MEANINGS[kind]:
            return "noun" if kind == "shape" else "adjective"
    return word


# --- what must hold for the rows of each task --------------------------------------------------------------


def check_scene(things):
    assert 2 <= len(things) <= 4
    assert len({thing["shape"] for thing in things}) == len(things)
    for a in things:
        assert all(0 <= side <= 128 for side in extent(a))
    for a, b in itertools.combinations(things, 2):
        beside = any(stands(relation, a, b) for relation in ("left of", "right of", "above", "below"))
        assert beside or stands("inside", a, b) or stands("inside", b, a)
        for axis in "xy":
            assert not 3 < abs(a[axis] - b[axis]) < 38


def check_itm(things, rows):
    assert [row["category"] for row in rows] == sorted(
        ["add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj"]
    )
    for row in rows:
        assert true(row["caption"], things)
        assert not true(row["negative_caption"], things)
        check_category(row["category"], row["caption"], row["negative_caption"])


def check_category(category, caption, negative):
    if category.startswith("add"):
        extra = added(caption, negative)
        if category == "add_obj":
            assert extra[:2] == [[], []]
            assert len(extra) == 3
        else:
            assert sorted(extra) in ([[], ["colour"]], [[], ["texture"]])
        return
    changed = difference(caption, negative)
    if category == "swap_obj":
        (a, b), relation = understand(caption)
        assert understand(negative) == ([b, a], relation)
    elif category in ("swap_att", "swap"):
        [((first, kind), (a, b)), ((second, same_kind), (c, d))] = changed.items()
        assert (first, second, kind) == (0, 1, same_kind)
        assert kind in ADJECTIVES
        assert (a, b) == (d, c)
    else:
        [(_, kind)] = changed
        assert kind in {"replace_obj": ["shape"], "replace_att": ADJECTIVES, "replace_rel": ["relation"]}[category]
        [(old, new)] = changed.values()
        assert MEANINGS[kind][old] != MEANINGS[kind][new]
    if category.startswith("swap"):
        assert Counter(caption.split()) == Counter(negative.split())


def check_hard_positives(things, rows):
    assert [row["category"] for row in rows] == ["replace_att", "replace_obj", "replace_rel", "swap"]
    for row in rows:
        caption, positive, negative = row["caption"], row["positive_caption"], row["negative_caption"]
        assert true(caption, things)
        assert true(positive, things)
        assert not true(negative, things)
        assert len({caption, positive, negative}) == 3
        check_category(row["category"], caption, negative)
        if row["category"] == "swap":
            (a, b), relation = understand(caption)
            assert relation is None
            assert understand(positive) == ([b, a], None)
        else:
            [(place, (word, synonym))] = difference(caption, positive).items()
            assert difference(caption, negative).keys() == {place}
            assert MEANINGS[place[1]][word] == MEANINGS[place[1]][synonym]


def check_order(things, rows):
    [row] = rows
    words = row["caption"].split()
    assert true(row["caption"], things)
    for negative in row["negative_captions"]:
        assert negative != row["caption"]
        assert not true(negative, things)
        assert sorted(negative.split()) == sorted(words)
    slots, others, within, whole = (negative.split() for negative in row["negative_captions"])
    assert [class_of(word) for word in slots] == [class_of(word) for word in words]
    for word, moved in zip(words, others, strict=True):
        assert word == moved or {"noun", "adjective"}.isdisjoint({class_of(word), class_of(moved)})
    trigrams = [words[i : i + 3] for i in range(0, len(words), 3)]
    for i, trigram in enumerate(trigrams):
        assert sorted(within[3 * i : 3 * i + 3]) == sorted(trigram)
    assert any(list(itertools.chain(*order)) == whole for order in itertools.permutations(trigrams))


def check_detection(things, rows):
    positive, distractor = rows
    assert (positive["positive"], distractor["positive"]) == (True, False)
    assert positive["caption"] == distractor["caption"]
    assert positive["type"] == distractor["type"]
    assert positive["type"] in ("replace_att", "replace_obj", "swap_att", "swap_obj")
    assert things_of(positive["image"]) == things
    assert true(positive["caption"], things)
    assert not true(distractor["caption"], things_of(distractor["image"]))
    check_scene(things_of(distractor["image"]))
    phrases, _ = understand(positive["caption"])
    assert len(positive["phrases"]) == len(distractor["phrases"]) == len(phrases) == 2
    for phrase, lacking, words in zip(positive["phrases"], distractor["phrases"], phrases, strict=True):
        assert positive["caption"][phrase["start"] : phrase["end"]] == phrase["text"]
        assert PHRASE.fullmatch(phrase["text"])
        assert phrase["text"].split()[1:] == [words[kind] for kind in (*ADJECTIVES, "shape") if kind in words]
        [thing] = (t for t in positive["image"].things if t.shape == MEANINGS["shape"][words["shape"]])
        x1, y1, x2, y2 = box(thing)
        assert phrase["boxes"] == [[x1, y1, x2 - x1, y2 - y1]]
        assert lacking == phrase | {"boxes": []}


def check_groups(things, rows):
    [row] = rows
    assert row["tag"] in ("swap_att", "swap_obj")
    scenes = [things_of(row["image_0"]), things_of(row["image_1"])]
    assert scenes[0] == things
    captions = [row["caption_0"], row["caption_1"]]
    assert [[true(caption, scene) for caption in captions] for scene in scenes] == [[True, False], [False, True]]
    assert Counter(captions[0].split()) == Counter(captions[1].split())


def check_captions(things, rows):
    [row] = rows
    assert len(row["captions"]) == 5
    for caption in row["captions"]:
        assert true(caption, things), caption


CHECKS = {
    "itm": check_itm,
    "hard_positives": check_hard_positives,
    "order": check_order,
    "detection": check_detection,
    "groups": check_groups,
    "captions": check_captions,
}


@pytest.fixture
def one_draw(monkeypatch):
    """Let the six tasks of a scene share one draw of it; that they would draw the same is a test of its own."""
    monkeypatch.setattr(tasks, "sample_episode", functools.lru_cache(1)(sample_episode))


def test_every_task_is_checked():
    assert list(TASKS) == list(CHECKS)


@pytest.mark.parametrize(("split", "start"), [("test", 0), ("validation", 0), *(("train", 1000 * k) for k in range(8))])
def test_every_label_of_every_task_is_exact(split, start, one_draw):
    for index in range(start, start + 1000):
        for task, check in CHECKS.items():
            episode, rows = task_rows(task, 0, split, index)
            things = things_of(episode.scene)
            if task == "itm":
                check_scene(things)
            check(things, rows)


def test_the_checker_can_say_no():
    scene = [
        {"shape": "ring", "colour": "red", "size": "big", "texture": "plain", "x": 23, "y": 64},
        {"shape": "star", "colour": "blue", "size": "small", "texture": "dotted", "x": 64, "y": 64},
    ]
    assert true("a crimson hoop to the left of an azure star", scene)
    assert true("a spotted pentagram and a big solid red ring", scene)
    for text in (
        "a crimson hoop to the right of an azure star",
        "a blue hoop left of a red star",
        "a ring left of a circle",
        "a crimson hoop to the left of a azure star",
        "a red crimson hoop left of a star",
        "a ring left of a star and a ring",
        "a ring",
    ):
        assert not true(text, scene), text


# --- scenes are fixed by their numbers ----------------------------------------------------------------------


def rows_as_text(task, seed, split, index):
    _, rows = task_rows(task, seed, split, index)
    return json.dumps(rows, default=lambda scene: scene.to_json())


def test_a_scene_does_not_depend_on_what_was_drawn_before():
    indices = [7, 3, 11]
    once = {i: [rows_as_text(task, 0, "test", i) for task in TASKS] for i in indices}
    again = {i: [rows_as_text(task, 0, "test", i) for task in reversed(TASKS)][::-1] for i in sorted(indices)}
    assert once == again
    pictures = [to_png(sample_episode(0, "test", i).scene) for i in indices]
    assert pictures[::-1] == [to_png(sample_episode(0, "test", i).scene) for i in indices[::-1]]


def test_scenes_do_not_depend_on_the_hash_seed():
    code = (
        "import hashlib, json; from vl_assay.hub_datasets.toy_scenes.tasks import TASKS, task_rows; "
        "rows = [task_rows(t, 0, 'test', i)[1] for t in TASKS for i in range(10)]; "
        "print(hashlib.sha256(json.dumps(rows, default=lambda s: s.to_json()).encode()).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_published_rows_change_only_with_the_version(one_draw):
    digest = hashlib.sha256()
    for index, task in itertools.product(range(100), TASKS):
        digest.update(rows_as_text(task, 0, "test", index).encode())
    assert (VERSION, digest.hexdigest()[:16]) == ("1.0.0", PUBLISHED)


def test_splits_and_seeds_share_no_scene():
    scenes = {
        (seed, split): {sample_episode(seed, split, i).scene.to_json() for i in range(1000)}
        for seed, split in [(0, "train"), (0, "validation"), (0, "test"), (1, "test")]
    }
    assert all(len(found) == 1000 for found in scenes.values())
    for one, other in itertools.combinations(scenes.values(), 2):
        assert not one & other


@given(st.integers(0, 2**32), st.sampled_from(["train", "validation", "test"]), st.integers(0, 10**9))
def test_a_scene_survives_json(seed, split, index):
    scene = sample_episode(seed, split, index).scene
    assert Scene.from_json(scene.to_json()) == scene


# --- pictures -----------------------------------------------------------------------------------------------


def drawn_extent(thing):
    """XYXY of the pixels that a thing changes."""
    pixels = np.asarray(render(Scene((thing,)))).astype(int)
    ys, xs = np.nonzero(np.abs(pixels - pixels[0, 0]).sum(axis=2))
    return xs.min(), ys.min(), xs.max() + 1, ys.max() + 1


@pytest.mark.parametrize("size", world.SIZES)
@pytest.mark.parametrize("shape", world.SHAPES)
def test_boxes_are_tight_around_the_pixels(shape, size):
    for texture, x, y in itertools.product(world.TEXTURES, (22, 65), (23, 104)):
        thing = Thing(shape, "green", size, texture, x, y)
        assert box(thing) == pytest.approx(drawn_extent(thing), abs=1.5)


@pytest.mark.parametrize("kind", ["shape", *world.ATTRIBUTES])
def test_things_that_differ_in_one_value_look_different(kind):
    values = world.SHAPES if kind == "shape" else world.ATTRIBUTES[kind]
    thing = {"shape": "ring", "colour": "red", "size": "small", "texture": "striped", "x": 64, "y": 64}
    pictures = {render(Scene((Thing(**thing | {kind: value}),))).tobytes() for value in values}
    assert len(pictures) == len(values)


def test_what_is_inside_is_drawn_on_top():
    inner = Thing("circle", "red", "small", "plain", 64, 64)
    outer = Thing("square", "blue", "big", "plain", 64, 64)
    alone = render(Scene((inner,))).getpixel((64, 64))
    assert {render(Scene(order)).getpixel((64, 64)) for order in ((inner, outer), (outer, inner))} == {alone}


def test_a_png_carries_its_scene_and_another_format_does_not():
    scene = sample_episode(0, "test", 0).scene
    image = Image.open(io.BytesIO(to_png(scene)))
    assert read_scene(image) == scene
    assert image.convert("RGB").tobytes() == render(scene).tobytes()
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, format="JPEG")
    assert read_scene(Image.open(buffer)) is None
    assert read_scene(render(scene)) is None


# --- language -----------------------------------------------------------------------------------------------

words = {kind: st.sampled_from(sorted(MEANINGS[kind])) for kind in MEANINGS}


@st.composite
def statements(draw):
    def phrase():
        adjectives = [draw(st.none() | words[kind]) for kind in ADJECTIVES]
        return Phrase(tuple(word for word in adjectives if word), draw(words["shape"]))

    phrases = tuple(phrase() for _ in range(draw(st.integers(2, 4))))
    return Statement(phrases, draw(st.none() | words["relation"]))


@given(statements())
def test_parsing_undoes_writing(statement):
    assert parse(statement.text) == statement


@given(statements())
def test_the_grammar_is_the_one_that_the_checker_reads(statement):
    phrases, relation = understand(statement.text)
    assert relation == statement.relation
    assert [tuple(phrase.values()) for phrase in phrases] == [(*p.adjectives, p.noun) for p in statement.phrases]


@given(statements(), st.integers(0, 2**32))
def test_shuffled_words_parse_only_where_the_checker_reads_them(statement, seed):
    order = np.random.default_rng(seed).permutation(len(statement.text.split()))
    text = " ".join(np.array(statement.text.split())[order])
    assert (parse(text) is None) == (understand(text) is None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a ring",
        "ring above star",
        "a ring above",
        "a ring above a star and",
        "a ring above a star now",
        "and a ring above a star",
        "a ring a star",
        "a ring above below a star",
        "a ring above a star above a circle",
        "a ring and a star above a circle",
        "a azure ring above a star",
        "an red ring above a star",
        "the ring above a star",
        "a red blue ring above a star",
        "a red red ring above a star",
        "a red striped ring above a star",
        "a red big ring above a star",
        "a ring red above a star",
        "a red above a star",
        "a ring left a star",
        "a ring to the left a star",
        "a ring the left of a star",
        "a ring larger a star",
        "a grey ring above a star",
        "a ring, a star",
        "A ring above a star",
    ],
)
def test_what_is_not_in_the_grammar_does_not_parse(text):
    assert parse(text) is None
    assert understand(text) is None


def test_every_meaning_has_two_words_of_its_own():
    ours = {group[0]: tuple(group) for groups in LEXICON.values() for group in groups}
    assert ours == language.SYNONYMS
    every = [word for pair in language.SYNONYMS.values() for word in pair]
    assert len(set(every)) == len(every) == 2 * len(language.SYNONYMS)
    assert not language.FUNCTION_WORDS & {word for word in every if " " not in word}
    assert set(ours) == {*world.SHAPES, *world.RELATIONS, *itertools.chain(*world.ATTRIBUTES.values())}


def test_synonyms_come_in_pairs():
    for first, second in language.SYNONYMS.values():
        assert (language.synonym(first), language.synonym(second)) == (second, first)


def test_single_words_apply_as_the_checker_says():
    vocabulary = sorted({w for kind in MEANINGS.values() for phrase in kind for w in phrase.split()})
    for index in range(100):
        scene = sample_episode(0, "test", index).scene
        for word in vocabulary:
            assert language.applies(word, scene) == word_applies(word, things_of(scene)), word
    assert not language.applies("grey", scene)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e, rng: tasks.negative("replace", e, rng), "unknown category 'replace'; known: add_att, add_obj"),
        (lambda e, rng: tasks.distractor("add_att", e, rng), "unknown distractor 'add_att'; known: replace_att"),
        (lambda e, rng: tasks.shuffle_words("shuffle", ["a"], rng), "unknown perturbation 'shuffle'; known: shuffle_"),
        (lambda e, rng: world.holds("near", *e.scene.things[:2]), "unknown relation 'near'; known: left of"),
    ],
)
def test_unknown_names_answer_with_the_known_ones(call, message):
    with pytest.raises(ValueError, match=message):
        call(sample_episode(0, "test", 0), np.random.default_rng(0))


# --- blind readers ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pairs():
    """(caption, negative) of 6,000 scenes by category of itm; (hard positive, negative) as "hard <category>"."""
    found = {}
    for index in range(6000):
        for row in task_rows("itm", 7, "train", index)[1]:
            found.setdefault(row["category"], []).append((row["caption"], row["negative_caption"]))
        for row in task_rows("hard_positives", 7, "train", index)[1]:
            pair = row["positive_caption"], row["negative_caption"]
            found.setdefault(f"hard {row['category']}", []).append(pair)
    return found


def same_margins(pairs):
    """p of the Stuart-Maxwell test that first and second words of pairs have one distribution."""
    labels = sorted(set(itertools.chain(*pairs)))
    table = np.zeros((len(labels), len(labels)))
    for one, other in pairs:
        table[labels.index(one), labels.index(other)] += 1
    return SquareTable(table, shift_zeros=False).homogeneity().pvalue


# Both sizes are there where a caption names one, so that no size can be replaced: 16 colours and 8 textures.
@pytest.mark.parametrize(("category", "number"), [("replace_rel", 12), ("replace_obj", 16), ("replace_att", 24)])
def test_words_replace_and_are_replaced_alike(category, number, pairs):
    changes = [next(iter(difference(*pair).values())) for pair in pairs[category]]
    assert len(set(itertools.chain(*changes))) == number
    for kind in MEANINGS:
        of_kind = [words for words in changes if words[0] in MEANINGS[kind]]
        assert not of_kind or same_margins(of_kind) > RARE


def test_relations_in_captions_are_uniform(pairs):
    counts = Counter(MEANINGS["relation"][understand(caption)[1]] for caption, _ in pairs["replace_rel"])
    assert len(counts) == 6
    assert stats.chisquare(list(counts.values())).pvalue > RARE


@pytest.mark.parametrize("category", ["swap_obj", "swap_att"])
@pytest.mark.parametrize("relation", world.RELATIONS)
def test_what_stands_where_is_alike_in_captions_and_swaps(category, relation, pairs):
    understood = [(understand(caption), understand(negative)[0][1]) for caption, negative in pairs[category]]
    seconds = [(p[1], other) for (p, word), other in understood if MEANINGS["relation"][word] == relation]
    for kind in ("shape", *ADJECTIVES):
        moved = [(p[kind], other[kind]) for p, other in seconds if kind in p and p[kind] != other[kind]]
        assert len(moved) < 10 or same_margins(moved) > RARE


def features(text):
    """The words of a caption and its ordered pairs of words: more than most blind models see."""
    found = text.split()
    return {*found, *itertools.combinations(found, 2), ("words", len(found))}


def blind_accuracy(pairs, trained):
    """How often naive Bayes, trained on the first pairs, prefers the caption in the others; a tie counts half."""
    counts = [Counter(), Counter()]
    for pair in pairs[:trained]:
        for count, text in zip(counts, pair, strict=True):
            count.update(features(text))
    odds = {f: np.log((counts[0][f] + 1) / (counts[1][f] + 1)) for f in counts[0] | counts[1]}
    gaps = [np.subtract(*(sum(odds.get(f, 0) for f in features(text)) for text in pair)) for pair in pairs[trained:]]
    return float(np.mean(np.where(np.abs(gaps) < 1e-9, 0.5, np.greater(gaps, 0))))


BALANCED = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
HARD = ("hard replace_att", "hard replace_obj", "hard replace_rel", "hard swap")


@pytest.mark.parametrize("category", BALANCED + HARD)
def test_a_trained_blind_reader_is_at_chance(category, pairs):
    # 2,000 pairs: a standard deviation of 1.1 points.
    assert blind_accuracy(pairs[category], 4000) == pytest.approx(0.5, abs=0.035)


@pytest.mark.parametrize("category", ["add_att", "add_obj"])
def test_length_gives_added_words_away_as_the_card_says(category, pairs):
    assert all(len(caption.split()) < len(negative.split()) for caption, negative in pairs[category])
    assert blind_accuracy(pairs[category], 4000) > 0.99
