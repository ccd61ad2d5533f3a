"""ARO: matching accuracy by relation, attribute pair or word order, with the averages of the paper."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from ..common.errors import ScoresError, check_known
from ..estimation.aggregate import metric_function
from ..estimation.checks import Labels, as_list, cluster_codes, label_codes
from ..estimation.spec import Described, Examples, make_examples
from .matching import match_scores

# For each task, the least number of examples with which a category enters the macro average.
MIN_COUNTS = {"relation": 1, "attribution": 25, "order": 1}


# The relations of the two halves of Table 2, and those that the authors leave out as symmetric, from their repository
# (MIT licence).
_RELATIONS = json.loads(Path(__file__).with_name("aro_relations.json").read_text(encoding="utf-8"))
SPATIAL, VERBS, SYMMETRIC = (frozenset(_RELATIONS[name]) for name in ("spatial", "verb", "symmetric"))


@metric_function()
def aro_accuracy(
    scores: ArrayLike,
    correct: ArrayLike,
    *,
    task: str = "relation",
    ties: str = "wrong",
    keep_symmetric: bool = False,
    min_count: int | None = None,
    **labels: Unpack[Described],
) -> Examples:
    """Compute matching accuracy with ARO's macro averages; higher is better.

    The macro average is the unweighted mean over relations (VG-Relation) or attribute pairs (VG-Attribution). Two kinds
    of categories are excluded from averages, and counted in the result:

    - symmetric relations, such as "next to": both captions are true, so these examples are in no score;
    - categories with fewer than `min_count` examples: they are in ``accuracy`` and ``per_category``, but not in the
      macro averages.

    Args:
        scores: array-like of shape (n, k), k >= 2; higher means a better match. VG-Relation and VG-Attribution have two
            captions, Order has five.
        correct: array-like of shape (n,), the column of the correct caption in each row.
        task: ``"relation"``, ``"attribution"`` or ``"order"``. With ``"relation"`` the categories are relations, the
            symmetric ones are left out, and the spatial relations and verbs of the paper's Table 2 get averages.
        ties: how a tie for the highest score counts: ``"wrong"`` 0, ``"half"`` 1 over the number of captions that share
            it, ``"right"`` 1.
        keep_symmetric: count the symmetric relations like any other.
        min_count: least number of examples with which a category enters the macro average, at least 1; by default 25
            for attribute pairs, as in the authors' code, and 1 for the other tasks.
        labels: categories (the relation, or the attribute pair as text or as a list of two: ["small", "brown"] counts
            as "small & brown"), clusters; and further options: see ``aggregate.SummaryOptions``.

    Returns:
        ``accuracy``, ``macro_accuracy`` (``None`` when no category has enough examples), ``tie_rate``, ``n`` (examples
        that count), ``per_category``, ``per_group`` (``spatial`` and ``verb`` for relations), ``n_symmetric`` (examples
        left out), ``rare`` (categories not in the macro average, with their counts), and with ``confidence`` the
        intervals.

    Raises:
        ScoresError: invalid scores, indices, labels or options, or only symmetric relations.
        UnknownNameError: an unknown task or tie policy.

    Source: When and why vision-language models behave like bags-of-words (Yuksekgonul et al., ICLR 2023), sections
    2.1 to 2.3, appendix A.1 and Tables 2 and 5.

    >>> scores = [[2, 1], [1, 2], [2, 1], [2, 1]]
    >>> result = aro_accuracy(scores, [0] * 4, categories=["on", "on", "eating", "next to"])
    >>> result["macro_accuracy"], result["n"], result["n_symmetric"]
    (0.75, 3, 1)
    """
    check_known("ARO task", [task], tuple(MIN_COUNTS))
    least = MIN_COUNTS[task] if min_count is None else min_count
    if not isinstance(least, int | np.integer) or least < 1:
        raise ScoresError(f"min_count is {least!r}; it must be a whole number of at least 1")
    values, tied = match_scores(scores, correct, ties)
    categories = labels.get("categories")
    relations = None if categories is None else _category_names(categories, len(values))
    kept = np.ones(len(values), dtype=bool)
    if task == "relation" and relations is not None and not keep_symmetric:
        kept = np.array([relation not in SYMMETRIC for relation in relations])
    if not kept.any():
        raise ScoresError(
            "all relations are symmetric, so that both captions are true; pass others, or keep_symmetric=True to count "
            "them all the same"
        )
    rows = np.flatnonzero(kept)
    counted = None if relations is None else [relations[row] for row in rows]
    counts = Counter(counted or ())
    rare = {name: n for name, n in counts.items() if n < least}
    examples = make_examples(
        {"accuracy": values[rows]},
        tied[rows],
        rows=rows,
        categories=counted,
        clusters=cluster_codes(labels.get("clusters"), len(values))[rows],
        left_out=dict.fromkeys(np.flatnonzero(~kept).tolist(), "symmetric relation"),
        chance={"accuracy": 1 / np.shape(scores)[1]},
        rare=dict.fromkeys(rare, f"fewer than {least} examples"),
        facts=lambda numbers: {} if numbers is not None else {"n_symmetric": int((~kept).sum()), "rare": rare},
    )
    groups = {} if task != "relation" or counted is None else {"spatial": SPATIAL, "verb": VERBS}
    members = {
        name: [category for category in examples.categories if category in group] for name, group in groups.items()
    }
    return replace(
        examples, parts={"per_group": {name: categories for name, categories in members.items() if categories}}
    )


def _category_names(categories: Labels, n: int) -> list[str]:
    """Return the names of categories; a list, such as a pair of attributes, becomes one name."""
    joined = [
        _joined(label) if isinstance(label, list | tuple | np.ndarray) else label for label in as_list(categories)
    ]
    names, codes = label_codes(joined, n, "categories")
    return [names[code] for code in codes]


def _joined(parts: Labels) -> str | None:
    """Join several names into one; None, a missing label, if one of them is missing."""
    names = ["" if label is None or (isinstance(label, float) and math.isnan(label)) else str(label) for label in parts]
    return " & ".join(names) if all(names) else None
