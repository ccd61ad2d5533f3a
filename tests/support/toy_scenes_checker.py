"""A checker of toy_scenes that shares nothing with the code that it checks: its own lexicon, parser and geometry."""

import functools
import itertools
import json
import re

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
