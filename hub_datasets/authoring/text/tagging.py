"""Part-of-speech tags of English image captions: by spaCy where it is installed, else by a small tagger of our own.

The plain tagger is word lists, endings of words and some thirty rules about neighbours. It learned from no corpus and
builds no parse. It is meant for short captions of photographs in the manner of COCO and Flickr30k and is no tagger for
English at large: a word that it does not know counts as a noun, and names are common nouns to it. How far it agrees
with spaCy is measured where the agreement matters, in `negatives`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError, ModelError, UnknownNameError
from ....metrics.functional.kernels import name_rows

TAGGERS = ("auto", "spacy", "plain")
SPACY_MODEL = "en_core_web_sm"
# To be raised with every change of the word lists or rules: cards record it beside what was made with it.
PLAIN_VERSION = 1

Span = tuple[int, int]

# Punctuation, hyphens and clitics (n't, 's) stand by themselves, as in the Penn Treebank and with spaCy.
_TOKEN = re.compile(
    r"(?:(?!n['’]t\b)[^\W_])+(?=n['’]t\b)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\d+(?:[.,:]\d+)+|[^\W_]+|\S", re.IGNORECASE
)


class Tagged(NamedTuple):
    """A caption with the tags of its tokens.

    Attributes:
        text: the caption as it came.
        spans: of each token, its first character and the one after its last.
        tags: of each token, its Penn Treebank tag: ``NN``, ``NNS``, ``JJ``, ``VBG`` …
        noun_phrases: those without prepositional phrases, from left to right: (first token, one after the last).
    """

    text: str
    spans: tuple[Span, ...]
    tags: tuple[str, ...]
    noun_phrases: tuple[Span, ...]

    @property
    def words(self) -> list[str]:
        """The text of each token."""
        return [self.text[start:end] for start, end in self.spans]

    @property
    def verb_phrases(self) -> list[Span]:
        """Verbs with the auxiliaries and adverbs before them, as ranges of tokens: "is slowly walking"."""
        letters = ""
        for word, tag, following in zip(self.words, self.tags, [*self.tags[1:], ""], strict=False):
            verb_follows = following.startswith(("VB", "RB"))
            helps = word.lower() in _BE_OR_MODAL or (word.lower() in _HAVE_OR_DO and verb_follows)
            letters += "h" if helps else tag[:1] if tag.startswith(("VB", "RB")) else " "
        return [match.span() for match in re.finditer("(?:[hR]*V)+", letters)]


def tag(captions: Sequence[str], tagger: str = "auto") -> list[Tagged]:
    """Tag captions, each by itself.

    Args:
        captions: n texts, as released; case and punctuation help.
        tagger: ``"spacy"`` is spaCy with the model ``en_core_web_sm``; ``"plain"`` is the tagger of this module;
            ``"auto"`` is spaCy where both are installed and ``"plain"`` otherwise. `tagger_name` tells which.

    Returns:
        The n tagged captions. Both taggers see the same tokens.

    Raises:
        DataError: a caption that is no text; the message names the rows.
        UnknownNameError: a ``tagger`` that is not one of ``TAGGERS``.
        ModelError: ``"spacy"`` where spaCy or its model is not installed.

    Source: ARO (Yuksekgonul et al., ICLR 2023), section 2.2, names spaCy. The plain tagger has no source.

    >>> first, = tag(["a man is riding a brown horse"], "plain")
    >>> first.tags
    ('DT', 'NN', 'VBZ', 'VBG', 'DT', 'JJ', 'NN')
    >>> first.noun_phrases, first.verb_phrases
    (((0, 2), (4, 7)), [(2, 4)])
    """
    check_captions(captions)
    if _choose(tagger) == "spacy":
        return list(_tag_with_spacy(captions))
    return [_tag_plainly(text) for text in captions]


def tagger_name(tagger: str = "auto") -> str:
    """What `tag` uses for that choice, with versions, for a dataset card; raises as `tag` does.

    >>> tagger_name("plain")
    'plain 1'
    """
    if _choose(tagger) == "plain":
        return f"plain {PLAIN_VERSION}"
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("spacy", SPACY_MODEL))


def check_captions(captions: Sequence[str]) -> None:
    """Raise a `DataError` unless the captions are a list of texts."""
    if isinstance(captions, str):
        raise DataError(f"one text came, {captions[:40]!r}; pass a list of captions")
    bad = [not isinstance(caption, str) for caption in captions]
    if any(bad):
        raise DataError(f"a caption is {captions[bad.index(True)]!r} in {name_rows(bad)}; every caption must be a text")


def _choose(tagger: str) -> str:
    if tagger not in TAGGERS:
        raise UnknownNameError("tagger", tagger, TAGGERS)
    missing = [name for name in ("spacy", SPACY_MODEL) if tagger != "plain" and not importlib.util.find_spec(name)]
    if tagger == "spacy" and missing:
        raise ModelError(
            f"the tagger 'spacy' needs {' and '.join(missing)}, which this Python does not have; run "
            f"'pip install spacy' and 'python -m spacy download {SPACY_MODEL}', or choose the tagger 'plain'"
        )
    return "plain" if tagger == "plain" or missing else "spacy"


def _split(text: str) -> tuple[Span, ...]:
    return tuple(match.span() for match in _TOKEN.finditer(text))


@functools.cache
def _load_spacy() -> Any:
    return importlib.import_module("spacy").load(SPACY_MODEL, exclude=["ner", "lemmatizer"])


def _tag_with_spacy(captions: Sequence[str]) -> Iterator[Tagged]:
    model = _load_spacy()
    document = importlib.import_module("spacy.tokens").Doc
    for text in captions:
        spans = _split(text)
        words, spaces = [text[start:end] for start, end in spans], [text[end : end + 1].isspace() for _, end in spans]
        # One caption at a time: in a batch, its neighbours could decide a close call.
        parsed = model(document(model.vocab, words, spaces))
        phrases = tuple((phrase.start, phrase.end) for phrase in parsed.noun_chunks) if words else ()
        yield Tagged(text, spans, tuple(token.tag_ for token in parsed), phrases)


# From here on the plain tagger: its words, then what their neighbours decide.
_CLOSED = {
    "DT": "a an the this these those each every some any no another both all either neither",
    "CD": "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty fifty hundred thousand",
    "IN": "of in on with at by from for near over through behind under around along across against into onto off above"
    " between below beneath underneath beside besides towards toward during about after before while as than like past"
    " within without among amongst amid atop upon via since until because if although though except throughout beyond"
    " alongside unlike per",
    "TO": "to",
    "CC": "and or but nor & plus",
    "PRP": "i you he she it we they me him us them himself herself itself themselves",
    "PRP$": "my your his its our their",
    "WP": "who whom what which whose",
    "WRB": "where when why how",
    "MD": "can could may might must shall should will would 'll 'd",
    "VBZ": "is has does",
    "VBP": "are am have do 're 've 'm",
    "VB": "be",
    "VBD": "was were had did sat stood went came ran saw took rode flew ate drove threw wore fell lay swam swung drew"
    " grew wrote gave began became knelt slept told said thought spoke rose",
    "VBN": "been seen taken ridden eaten driven thrown worn fallen drawn grown written given gone shown hidden frozen"
    " torn blown flown made held cut set put hung caught built lit left laid kept led fed hit spread stuck found bent"
    " sold met brought bought dug spun read hurt split shut",
    "NNS": "people men women children sheep cattle geese feet teeth mice police pants scissors clothes",
    "RP": "up out",
    "RB": "very together early away just so too not n't upside almost really only also now here apart well already"
    " still then ahead forward forwards backwards backward even ever never always often quite rather maybe perhaps once"
    " twice again alone aside indoors outdoors somewhere downhill uphill upstairs downstairs sideways soon later yet"
    " else asleep upright",
}
_BE_OR_MODAL = frozenset([*["is", "are", "was", "were", "be", "been", "being", "am"], *_CLOSED["MD"].split()])
_HAVE_OR_DO = frozenset(["has", "have", "had", "do", "does", "did"])
_ADJECTIVES = """
african american asian automatic bald bare bearded beige big blank blurry bright broken busy calm cheap chilly classic
clean clear cloudy colored contemporary cool creamy crispy crunchy curly cute deep dense different digital dirty distant
dry dusty electric electronic elegant empty entire european extra fancy far fast fat few flat floral fluffy fluorescent
foggy foreign free fresh full funny furry fuzzy german golden good grassy great greek handmade handsome happy
hard healthy heavy high homemade hot huge hungry icy indian indoor industrial inner intricate juicy large last late
leafy little local lone long loose low lower lush many messy metallic mexican mini miniature misty mobile modern more
most muddy multi multiple naked narrow neat new nice official old open opposite ornate other outdoor outer oval overcast
own pale parallel partial plush pointy pretty private quick quiet rainy raw ready real rear residential retro ripe rocky
romantic rough rural rustic rusty salty same sandy scary scenic second several shaggy shiny short similar simple single
skinny slow small smart smooth snowy soft solid spare special spicy steep sticky stormy strange stray striped strong
stuffed suburban such sunlit sunny tabby tall tasty teenage thick thin third tight tiny tired traditional triple ugly
unique unlit unmade upper urban victorian vintage warm wavy wet wide windy wooded wooden worn wrong young
"""
# These stand for a thing where no noun follows: "a bowl of orange", "in the wild".
_ADJECTIVES_OR_NOUNS = """
adult antique black blond blonde blue brown chinese cold dark dead double elderly english female french giant gold gray
green grey grizzly half individual italian japanese male medium middle military neon orange pink plaid plain polar
professional public purple red round silver square sweet tan white whole wild yellow
"""
_VERBS = """
appear bark bend break bring brush capture carry carve chase chew chop clean climb close come contain crouch dive dry
eat enjoy enter fall feel fill find fix flip flow fly fold follow gather get give glide go grab graze greet grow hang
hear hide hold include jump keep kneel know laugh lay lead lean leave let lick lie listen live look lounge lower lunge
make march meet move open pack play plow pose pour prepare pull push put raise reach read reflect relax replace rest
return ride rise roam run sail say see sell serve shine shoot sit sleep speak stand stare start stay stir stretch swim
take talk throw travel try use wait walk watch wear write
"""
# Their base form and their form in -s are nouns unless the neighbours speak for a verb.
_NOUNS_OR_VERBS = """
bat bike block board camp catch check cook cover cross cut cycle dance display dock draw dress drink drive drop face
feature feed fight film finish grill guard guide hand head help herd hike hit hook hug kick kiss land light line load
love match measure mount paddle paint park pass paw pet photograph pick pile pitch place plant point practice race
record roll row set shake share shop show shower skate skateboard ski slice slide smell smile smoke snow snowboard spin
splash spray spread stack step stick stop surf swing tie top touch train trim turn view wash water wave work wrap
"""
# Activities that name the thing after them: a living room, a cutting board.
_ACTIVITIES = """
baking boarding bowling boxing changing clearing cooking covering crossing cutting dining dressing fishing gaming
gardening gathering hiking ironing landing living opening painting parking racing serving setting sewing shopping
skateboarding skiing snowboarding stuffing surfing swimming training waiting washing writing
"""
# Nouns whose endings look like another part of speech's, or like a plural's.
_SINGULARS = """
anything bed bedding birdseed building bus butterfly cable canvas ceiling chess christmas circus class clothing compass
cross dress earring evening everything family flatbed flooring frosting gas glass grass ground housing icing italy jelly
king lens lighting lily mattress mess moped morning nothing pass pudding railing ring series shed shot sled something
spring string table tennis texas thing topping trolley vegetable wedding wing wiring
"""
_ADJECTIVE_ENDINGS = ("ful", "ous", "less", "ish", "ical", "able", "ible", "tive", "sive", "ular", "esque")


@functools.cache
def _lexicon() -> dict[str, str]:
    """Word → its tag, or two tags with a bar between them where the neighbours decide."""
    classes: dict[str, str] = {}
    for verbs, base, third in ((_VERBS, "VB|NN", "VBZ|NNS"), (_NOUNS_OR_VERBS, "NN|VB", "NNS|VBZ")):
        for verb in verbs.split():
            stem = re.sub("(?<=[^aeiou])y$", "i", verb)
            es = stem != verb or verb.endswith(("s", "x", "z", "ch", "sh", "o"))
            classes[verb], classes[stem + ("es" if es else "s")] = base, third
    classes |= dict.fromkeys(_ACTIVITIES.split(), "NN|VBG") | dict.fromkeys(_SINGULARS.split(), "NN")
    classes |= dict.fromkeys(_ADJECTIVES.split(), "JJ") | dict.fromkeys(_ADJECTIVES_OR_NOUNS.split(), "JJ|NN")
    return classes | {word: tag for tag, words in _CLOSED.items() for word in words.split()}


@functools.lru_cache(100_000)
def _class_of(word: str) -> str:
    """The entry of the lexicon, or a guess by the word's ending."""
    lexicon = _lexicon()
    if word in lexicon:
        return lexicon[word]
    if not word[0].isalnum():
        return {"?": ".", "!": ".", ".": ".", ",": ","}.get(word, ":")
    if word[0].isdigit():
        return "CD"
    for ending, tag in (("er", "JJR"), ("est", "JJS")):
        stem = re.sub("i$", "y", word.removesuffix(ending))
        forms = (stem, stem + "e", re.sub(r"(.)\1$", r"\1", stem))
        if word.endswith(ending) and any(lexicon.get(form, "").startswith("JJ") for form in forms):
            return tag
    for tag, endings in (("VBG", "ing"), ("VBN", "ed"), ("RB", "ly"), ("JJ", _ADJECTIVE_ENDINGS)):
        if word.endswith(endings) and len(word) > 3 + (tag != "VBN") and not word.endswith("eed"):
            return tag
    return "NNS" if len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else "NN"


_NOUNS = ("NN", "NNS")
_NOUN_LIKE = ("NN", "NNS", "JJ|NN", "NN|VB", "NNS|VBZ", "VB|NN", "NN|VBG")
_OPENERS = ("DT", "PRP$", "JJ", "JJR", "JJS", "CD", "POS")
_COMPLEMENTS = ("DT", "PRP$", "PRP", "IN", "TO", "RP", "RB", "VBG", "CD")


class _Place(NamedTuple):
    """What decides a word's tag: its class, the class after it, and what stands before it."""

    kind: str
    following: str
    tags: list[str]
    words: list[str]
    before: str
    subject: str
    opened: bool
    noun_follows: bool


def _plain_tags(words: Sequence[str]) -> tuple[str, ...]:
    lowered = [word.lower().replace("’", "'") for word in words]
    classes = [_class_of(word) for word in lowered]
    tags: list[str] = []
    for number, (word, kind, following) in enumerate(zip(lowered, classes, [*classes[1:], ""], strict=False)):
        before = tags[-1] if tags else ""
        subject = next((tag for tag in reversed(tags) if tag != "RB"), "")
        opened, noun_follows = before in _OPENERS, following in _NOUN_LIKE
        place = _Place(kind, following, tags, ["", *lowered[:number]], before, subject, opened, noun_follows)
        tags.append(_by_word(word, place) or _by_class(place))
    return tuple(tags)


def _by_word(word: str, place: _Place) -> str:
    """The tag of a word with rules of its own, or nothing."""
    before, following, noun_follows = place.before, place.following, place.noun_follows
    match word:
        case "'s":
            is_verb = before in ("PRP", "EX", "WP") and not noun_follows
            return "VBZ" if is_verb or following == "VBG" else "POS"
        case "that":
            return "DT" if noun_follows and before not in _NOUNS else "WDT"
        case "her":
            return "PRP$" if noun_follows or following in ("JJ", "VBN") else "PRP"
        case "there":
            return "EX" if following in ("VBZ", "VBP", "VBD", "MD") else "RB"
        case "one":
            return "NN" if following in ("VBZ", "MD", "VBD") else "CD"
        case "back":
            return "NN" if place.opened else "RB"
        case "outside" | "inside":
            return "JJ" if before == "DT" and noun_follows else "RB" if word == "outside" or following == "IN" else "IN"
        case "close" | "nearby" | "next":
            return "JJ" if noun_follows and before else "NN" if before == "DT" and following == "RP" else "RB"
        case "front" | "light":
            return "JJ" if following.startswith("JJ") or (noun_follows and word == "front") else "NN"
        case "fast" | "hard" | "high" | "low" if not noun_follows and before in ("VBG", "RB", "VBZ"):
            return "RB"
        case "straight":
            return "JJ" if noun_follows else "RB"
        case "down":
            return "RB" if place.words[-1] == "upside" else "IN" if noun_follows or following in _OPENERS else "RP"
        case "left" | "right":
            return "JJ" if noun_follows else "NN" if place.opened else "VBN" if word == "left" else "RB"
    return ""


def _by_class(place: _Place) -> str:
    before, following, noun_follows = place.before, place.following, place.noun_follows
    match place.kind:
        case "JJ|NN":
            alone = not noun_follows and following not in ("JJ", "VBN", "VBG", "CC", ",", ":")
            return "NN" if alone and (place.opened or place.words[-1] == "of") else "JJ"
        case "NN|VB" | "VB|NN":
            return _noun_or_base(place)
        case "NNS|VBZ" | "VBZ|NNS":
            return _plural_or_third(place)
        case "NN|VBG":
            names_it = noun_follows and before not in ("VBZ", "VBP") and place.words[-1] != "while"
            return "NN" if names_it or place.opened else "VBG"
        case "VBG" if before in ("DT", "PRP$") and not noun_follows and following != "JJ":
            return "NN"
        case "VBN" if place.opened or before in ("", "IN", "CC", ","):
            return "JJ" if noun_follows or following == "JJ" else "VBN"
        case "VBN" if following in ("DT", "PRP$") and before in _NOUNS:
            return "VBD"
        case "NNS" if following in ("DT", "PRP$") and before in ("NN", "WDT") and "VBZ" not in place.tags:
            return "VBZ"
    return place.kind


def _noun_or_base(place: _Place) -> str:
    verbal = place.kind == "VB|NN"
    infinitive = place.before == "TO" and place.following and place.words[-2] != "next"
    if infinitive or place.subject == "MD" or place.words[-1] in ("not", "n't"):
        return "VB"
    if place.subject in ("NNS", "PRP", "WP", "WDT") and (verbal or place.following in _COMPLEMENTS):
        return "VBP"
    if place.before == "CC" and "VBP" in place.tags and place.following in _COMPLEMENTS:
        return "VBP"
    return "VBP" if verbal and place.following in ("DT", "PRP$") and not place.opened else "NN"


def _plural_or_third(place: _Place) -> str:
    before, following, acting = place.before, place.following, place.subject in ("NN", "NNS", "PRP", "WP", "WDT")
    if place.opened or before == "IN":
        return "NNS"
    acts = place.kind == "VBZ|NNS" and acting
    governs = following in ("DT", "PRP$", "PRP", "JJ", "JJ|NN", "CD") and (acting or before == "CC")
    goes_on = before == "CC" and "VBZ" in place.tags and following in _COMPLEMENTS
    return "VBZ" if acts or governs or goes_on or before in ("PRP", "WP", "WDT", "RB") else "NNS"


def _tag_plainly(text: str) -> Tagged:
    spans = _split(text)
    tags = _plain_tags([text[start:end] for start, end in spans])
    return Tagged(text, spans, tags, tuple(_noun_phrases(text, spans, tags)))


_LETTERS = {"DT": "D", "PRP$": "D", "NN": "N", "NNS": "N", "POS": "P", "RB": "R", "CC": "C", ",": "C", "VBN": "E"}
_LETTERS |= {"VBG": "G", "JJ": "J", "JJR": "J", "JJS": "J", "CD": "J"}
# An opening, modifiers, a noun, and more nouns with what may stand between them: a well-known, bright red school bus.
_NOUN_PHRASE = re.compile("D*(?:J|H|R(?=[JE])|E(?=[NJH])|(?<=[DJ])G(?=[NJ])|(?<=J)C(?=J))*N(?:(?:[PH][JE]*|E)?N)*")


def _noun_phrases(text: str, spans: Sequence[Span], tags: Sequence[str]) -> Iterator[Span]:
    letters = ""
    for place, ((start, end), tag) in enumerate(zip(spans, tags, strict=True)):
        hyphen = text[start:end] == "-" and place > 0 and spans[place - 1][1] == start
        # In "snow covered trees" a participle stands between nouns, whatever its tag.
        participle = tag == "JJ" and text[start:end].endswith("ed") and letters.endswith("N")
        letters += "H" if hyphen else "E" if participle else _LETTERS.get(tag, " ")
    yield from (match.span() for match in _NOUN_PHRASE.finditer(letters))
