"""What came of a study, for people and for programs: the paper's tables for the toy world, findings, a plot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....hub_datasets.toy_scenes.language import parse
from ....metrics.augmented_accuracy.spec import SPEC as AUGMENTED
from ....metrics.brittleness.spec import SPEC as BRITTLE
from ....metrics.common.storage import write_atomically, write_text
from ....metrics.contract.aggregate import aggregate
from ....metrics.contract.spec import make_examples
from ....metrics.functional.hard_positives import augmented_accuracy, brittleness
from ....metrics.records.results import code_version
from ....metrics.statistics.bootstrap import cluster_bootstrap
from .plots import plot_png
from .study import ARTEFACTS, BASE, Study

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMA = "vl-assay/study"
VERSION = 1
# REPLACE is the mean over all examples, as in the paper, and here as many are of attributes as of relations.
KINDS = {"replace": ("replace_att", "replace_rel"), "swap": ("swap",)}
# Rows of the paper's tables by our variants, None for its rules between groups.
TABLES = {
    "1": (BASE, "plain", None, "negclip-swap", "negclip-replace", None, "hn", "hp+hn", None, "swap-only",
          "replace-only"),
    "3": (BASE, None, "hn-weight-0", "hn-weight-0.25", "hn-weight-0.5", "hn-weight-0.75", None, "hn", "hp+hn"),
}  # fmt: skip
_ARTEFACT_ROWS = (BASE, "plain", "hn", "hn-article", "hn-stop")
_ARTEFACT_HEADS = {"debiased": "debiased negatives", "article": "with a wrong article", "stop": "with a final stop"}
MEASURES = ("original_accuracy", "augmented_accuracy", "brittleness")
_CHANCE = {score.name: score.chance or 0.0 for spec in (AUGMENTED, BRITTLE) for score in spec.scores}
_RESAMPLES = 2000
# Column of the caption that the true one must outscore.
_NEGATIVES = {"original_accuracy": 2, "debiased": 1, "artefact": 2}


class Term(NamedTuple):
    """A variant's mean credit in a sum: `weight` times it; `kind` one of `KINDS` or of `ARTEFACTS`."""

    weight: float
    variant: str
    measure: str
    kind: str


class Claim(NamedTuple):
    """What a paper found, and the sum that shows it here.

    Attributes:
        text: the finding.
        against: what is compared.
        terms: the sum.
        expected: its sign; 0 for "not above 0".
        given: a sum that must be shown to be above 0, or there is nothing to find.
    """

    text: str
    against: str
    terms: tuple[Term, ...]
    expected: int
    given: tuple[Term, ...] = ()


def claims() -> Iterator[Claim]:
    """The papers' findings that the study is for."""
    for measure, text in (
        ("original_accuracy", "HN raises original accuracy"),
        ("brittleness", "HN raises brittleness"),
    ):
        for base in (BASE, "plain"):
            for kind in KINDS:
                yield _difference(text, measure, kind, "hn", base, 1)
    for kind in KINDS:
        yield _difference("HP+HN lowers brittleness against HN", "brittleness", kind, "hp+hn", "hn", -1)
    for kind in KINDS:
        yield _difference("HP+HN raises augmented accuracy against HN", "augmented_accuracy", kind, "hp+hn", "hn", 1)
    for kind in KINDS:
        measure, weights = "original_accuracy", {"hp+hn": 1.0, "hn": -0.5, BASE: -0.5}
        terms = tuple(Term(weight, name, measure, kind) for name, weight in weights.items())
        against = f"{kind.upper()}, original accuracy: hp+hn − ({BASE} + hn) / 2"
        gain = _difference("", measure, kind, "hn", BASE, 1).terms
        yield Claim("HP+HN keeps more than half of HN's gain", against, terms, 1, gain)
    for name, kind in (("swap-only", "replace"), ("replace-only", "swap")):
        for base in (BASE, "plain"):
            yield _difference(f"{name} does not help {kind.upper()}", "original_accuracy", kind, name, base, 0)
    for artefact in ARTEFACTS:
        such = _ARTEFACT_HEADS[artefact]
        for name, text, expected in (
            (f"hn-{artefact}", f"Trained on negatives {such}, HN gains more on such than on debiased ones", 1),
            ("hn", "Trained on negatives without an artefact, HN does not", 0),
        ):
            for base in (BASE, "plain"):
                terms = tuple(
                    Term(sign * weight, variant, measure, artefact)
                    for variant, sign in ((name, 1.0), (base, -1.0))
                    for measure, weight in (("artefact", 1.0), ("debiased", -1.0))
                )
                yield Claim(text, f"{name}, gain over {base}: {such} − debiased", terms, expected)


def _difference(text: str, measure: str, kind: str, name: str, base: str, expected: int) -> Claim:
    terms = (Term(1.0, name, measure, kind), Term(-1.0, base, measure, kind))
    return Claim(text, f"{kind.upper()}, {measure.replace('_', ' ')}: {name} − {base}", terms, expected)


def credit(study: Study, variant: str, measure: str, kind: str) -> NDArray[np.float64]:
    """What each example of a kind earned by a measure, 0 or 1: float64 of shape (seeds, n), one row for the base."""
    scores = study.scores[variant][:, _rows(study, kind)]
    if measure in _NEGATIVES:
        return (scores[..., 0] > scores[..., _NEGATIVES[measure]]).astype(np.float64)
    original, positive = scores[..., 0] > scores[..., 2], scores[..., 1] > scores[..., 2]
    if measure == "augmented_accuracy":
        return (original & positive).astype(np.float64)
    tied = (scores[..., :2] == scores[..., 2:]).any(axis=-1)
    return ((original != positive) & ~tied).astype(np.float64)


def _rows(study: Study, kind: str) -> list[int]:
    task, categories = ("hard_positives", KINDS[kind]) if kind in KINDS else (kind, ())
    return [
        row
        for row, example in enumerate(study.examples)
        if example.task == task and (not categories or example.category in categories)
    ]


def findings(study: Study) -> list[dict[str, Any]]:
    """Each claim with its sum, the 95 % interval over scenes, the sum for each seed, and whether it was shown.

    It was where the interval lies on the side of 0 that the paper's finding says and each seed does as well.
    """
    found = []
    for claim in claims():
        if all(term.variant in study.scores for term in claim.terms):
            total = _total(study, claim.terms)
            said = verdict(claim.expected, total["interval"], total["by_seed"])
            if claim.given:
                given = _total(study, claim.given)
                if verdict(1, given["interval"], given["by_seed"]) != "shown":
                    said = "no gain to keep"
            found.append({"claim": claim.text, "compared": claim.against, **total, "verdict": said})
    return found


def _total(study: Study, terms: Sequence[Term]) -> dict[str, Any]:
    """The sum of terms, its interval, and the sum for each seed."""
    values: NDArray[np.float64] = np.zeros((1, 1))
    for weight, *term in terms:
        values = values + weight * credit(study, *term)
    clusters = [study.examples[row].scene for row in _rows(study, terms[0].kind)]
    # From [-2, 2] to the credits that the bootstrap takes.
    low, high = cluster_bootstrap((values.mean(axis=0) + 2) / 4, clusters, resamples=_RESAMPLES).micro
    by_seed = np.broadcast_to(values, (study.size.seeds, values.shape[1])).mean(axis=1)
    return {
        "difference": float(values.mean()),
        "interval": [4 * low - 2, 4 * high - 2],
        "by_seed": by_seed.tolist(),
    }


def verdict(expected: int, interval: Sequence[float], by_seed: Sequence[float]) -> str:
    """What a sum's interval and its values by seed say of a claim about its sign."""
    sign = 0
    if interval[0] > 0 and min(by_seed) > 0:
        sign = 1
    elif interval[1] < 0 and max(by_seed) < 0:
        sign = -1
    if expected == 0:
        return "the opposite" if sign > 0 else "no gain seen"
    return "shown" if sign == expected else "the opposite" if sign else "not shown"


def document(study: Study) -> dict[str, Any]:
    """All figures of a study, as ``study.json`` has them; scores are fractions in [0, 1]."""
    every = dict.fromkeys(name for table in TABLES.values() for name in table if name in study.scores)
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "code": code_version(),
        "size": asdict(study.size),
        "confidence": 0.95,
        "rows": {str(name): _row(study, str(name)) for name in every},
        "artefact": {name: _artefact_row(study, name) for name in _ARTEFACT_ROWS if name in study.scores},
        "form_alone": _form_alone(study),
        "findings": findings(study),
    }


def _row(study: Study, name: str) -> dict[str, Any]:
    """The row of a variant in the tables of *The Hard Positive Truth*; the seeds' examples are judged together."""
    row: dict[str, Any] = {"label": _label(study, name)}
    for kind in KINDS:
        rows = _rows(study, kind)
        scores = study.scores[name][:, rows]
        examples = [study.examples[place] for place in rows] * len(scores)
        options: dict[str, Any] = {
            "categories": [example.category for example in examples],
            "clusters": [example.scene for example in examples],
            "confidence": 0.95,
            "resamples": _RESAMPLES,
        }
        accuracy = augmented_accuracy(scores.reshape(-1, 3), **options)
        brittle = brittleness(scores.reshape(-1, 3), **options)
        sources = {
            **dict.fromkeys(("original_accuracy", "augmented_accuracy", "gap"), accuracy),
            "brittleness": brittle,
        }
        row[kind] = {
            "scores": {key: source[f"macro_{key}"] for key, source in sources.items()},
            "intervals": {key: source[f"macro_{key}_interval"] for key, source in sources.items()},
            "by_seed": {key: credit(study, name, key, kind).mean(axis=1).tolist() for key in MEASURES},
            "by_category": {
                category: {key: source["per_category"][category][key] for key, source in sources.items()}
                for category in KINDS[kind]
            },
            "tie_rate": brittle["tie_rate"],
        }
    return row


def _artefact_row(study: Study, name: str) -> dict[str, Any]:
    """How often the true caption outscores the negative, as it is and with each artefact."""
    # The pairs of each artefact are the same but for it.
    credits = {"debiased": credit(study, name, "debiased", "article")}
    credits |= {artefact: credit(study, name, "artefact", artefact) for artefact in ARTEFACTS}
    clusters = [study.examples[row].scene for row in _rows(study, "article")]
    means = {key: each.mean(axis=0) for key, each in credits.items()}
    examples = make_examples(means, np.zeros(len(clusters)), clusters=clusters)
    result = aggregate(examples, confidence=0.95, resamples=_RESAMPLES)
    return {
        "label": _label(study, name),
        "scores": {key: result[key] for key in credits},
        "intervals": {key: result[f"{key}_interval"] for key in credits},
        "by_seed": {key: each.mean(axis=1).tolist() for key, each in credits.items()},
    }


def _form_alone(study: Study) -> dict[str, float]:
    """How often a reader who only knows how captions are written tells the true one; half the time where he cannot."""
    found: dict[str, float] = {}
    for artefact in ARTEFACTS:
        texts = np.array([study.examples[row].captions for row in _rows(study, artefact)])
        follows = np.vectorize(lambda text: parse(text) is not None)(texts).astype(float)
        found["debiased"], found[artefact] = (0.5 + (follows[:, :1] - follows[:, 1:]) / 2).mean(axis=0).tolist()
    return found


def _label(study: Study, name: str) -> str:
    return next((variant.label for variant in study.variants if variant.name == name), name)


def write_study(study: Study, folder: Path) -> list[Path]:
    """Write ``study.json``, ``study.md`` and, with matplotlib, ``study.png`` into a folder; their paths."""
    found = document(study)
    paths = [folder / "study.json", folder / "study.md"]
    write_text(paths[0], json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_text(paths[1], to_markdown(found))
    try:
        picture = plot_png(found)
    except ModuleNotFoundError:
        return paths
    write_atomically(folder / "study.png", picture)
    return [*paths, folder / "study.png"]


def _sections(found: Mapping[str, Any]) -> Iterator[tuple[str, list[str], list[list[str] | None]]]:
    """Heading, column heads and rows of each table; None for a line between groups."""
    head = ["", *(f"{kind.upper()} {key}" for key in ("original", "augmented", "brittleness ↓") for kind in KINDS)]
    chance = ["random choice", *(_percent(_CHANCE[key]) for key in MEASURES for _ in KINDS)]
    for table, names in TABLES.items():
        rows: list[list[str] | None] = []
        for name in names:
            if name is None:
                rows.append(None)
            elif name in found["rows"]:
                rows.append(_line(found["rows"][name]))
        yield f"Table {table} of The Hard Positive Truth, for the toy world (%)", head, [*rows, None, chance]
    head = ["accuracy on", *_ARTEFACT_HEADS.values()]
    cells = [[row["label"], *(_cell(row, key) for key in row["scores"])] for row in found["artefact"].values()]
    alone = ["the form alone", *(_percent(value) for value in found["form_alone"].values())]
    yield "SugarCrepe's point: negatives with an artefact, in training and test (%)", head, [*cells, None, alone]
    head = ["finding", "compared", "difference, points", "by seed", "here"]
    lines: list[list[str] | None] = [
        [
            each["claim"],
            each["compared"],
            f"{_points(each['difference'])} [{', '.join(map(_points, each['interval']))}]",
            ", ".join(map(_points, each["by_seed"])),
            each["verdict"],
        ]
        for each in found["findings"]
    ]
    yield "Findings of the papers", head, lines


def _line(row: Mapping[str, Any]) -> list[str]:
    return [row["label"], *(_cell(row[kind], key) for key in MEASURES for kind in KINDS)]


def _cell(part: Mapping[str, Any], key: str) -> str:
    low, high = part["intervals"][key]
    return f"{_percent(part['scores'][key])} [{_percent(low)}, {_percent(high)}]"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")


def _remarks(found: Mapping[str, Any]) -> list[str]:
    size = found["size"]
    steps = size["epochs"] * max(size["captions"] // size["batch_size"], 1)
    seeds = "1 seed" if size["seeds"] == 1 else f"{size['seeds']} seeds"
    return [
        f"{seeds} for each variant; {size['captions']:,} captions, {steps} steps of {size['batch_size']} at a learning "
        f"rate of {size['learning_rate']:g}; tested on {size['scenes']:,} scenes of the test split.",
        "Intervals: 95 %, over scenes, of the mean over seeds. What another seed changes shows in the values by seed.",
        "A finding is shown where the interval lies on its side of 0 and so does each seed; nothing is corrected for "
        "the number of comparisons. That no gain is seen does not prove that there is none: the interval says how "
        "large it may be.",
        "REPLACE has attributes and relations together, as in the paper; here there are as many of each.",
    ]


def to_markdown(found: Mapping[str, Any]) -> str:
    """The tables as Markdown."""
    parts = ["# Hard negatives and hard positives, in miniature", *_remarks(found)]
    for heading, head, rows in _sections(found):
        lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in rows if row is not None]
        parts += [f"## {heading}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def print_study(found: Mapping[str, Any]) -> None:
    """Print the same to the terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    for heading, head, rows in _sections(found):
        table = Table(title=escape(heading), title_justify="left")
        for column in head:
            table.add_column(column)
        for row in rows:
            if row is None:
                table.add_section()
            else:
                table.add_row(*(escape(cell.replace(" [", "\n[")) for cell in row))
        console.print(table)
    for remark in _remarks(found):
        console.print(remark, markup=False)
