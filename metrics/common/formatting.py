"""Format numbers and names as text, the same in tables, pages and cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MISSING = "–"


def percent(value: float | None) -> str:
    """Format a fraction in per cent, without the sign; a dash for None and NaN.

    >>> percent(0.8428), percent(None)
    ('84.3', '–')
    """
    return MISSING if value is None or value != value else f"{100 * value:.1f}"


def points(value: float | None) -> str:
    """Format a difference of fractions in percentage points, with its sign; a dash for None and NaN.

    >>> points(-0.001)
    '-0.1'
    """
    return MISSING if value is None or value != value else f"{100 * value:+.1f}"


def interval(bounds: Sequence[float] | None, signed: bool = False) -> str:
    """Format an interval of fractions in per cent, or with `signed` of differences in points; a dash for None.

    >>> interval([0.8337, 0.8512])
    '83.4 – 85.1'
    """
    if bounds is None:
        return MISSING
    return " – ".join(points(bound) if signed else percent(bound) for bound in bounds)


def p_value(value: float | None) -> str:
    """Format a p-value with three decimals; empty for None.

    >>> p_value(0.0004), p_value(0.25)
    ('< 0.001', '0.250')
    """
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def words(name: str) -> str:
    """Return the name of a score in words.

    >>> words("macro_f1")
    'macro f1'
    """
    return name.replace("_", " ")


def distinguished(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for each item that distinguishes it from the others; identical items get a number.

    >>> distinguished([{"seed": 1}, {"seed": 2}, {"seed": 2}]), distinguished([{"seed": 1}])
    (['seed 1', 'seed 2 #2', 'seed 2 #3'], [''])
    """
    keys = dict.fromkeys(key for fact in facts for key in fact)
    differ = [key for key in keys if any(fact.get(key) != facts[0].get(key) for fact in facts)]
    labels = [", ".join(f"{key} {fact[key]}" for key in differ if key in fact) for fact in facts]
    return [
        text if labels.count(text) == 1 else f"{text} #{number}".strip() for number, text in enumerate(labels, start=1)
    ]


def distinct_labels(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for each model: its name, followed by what distinguishes it from models of the same name.

    Args:
        models: descriptions with a ``name`` each, such as the model section of predictions.

    Returns:
        Labels in the order of the models; identical descriptions are numbered.

    >>> distinct_labels([{"name": "clip", "dtype": "float32"}, {"name": "clip", "dtype": "float16"}])
    ['clip (dtype float32)', 'clip (dtype float16)']
    """
    labels = []
    for number, model in enumerate(models):
        alike = [candidate for candidate in models if candidate["name"] == model["name"]]
        differ = [
            key
            for key in model
            if isinstance(model[key], str | int | float | bool) and any(o.get(key) != model[key] for o in alike)
        ]
        facts = ", ".join(f"{key} {model[key]}" for key in differ)
        label = f"{model['name']} ({facts})" if facts else str(model["name"])
        labels.append(label if label not in labels else f"{label} #{number + 1}")
    return labels
