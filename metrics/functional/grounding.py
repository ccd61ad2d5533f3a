"""Phrase grounding and group recall, from rows of boxes to results (TRICD)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from ..estimation.aggregate import metric_function
from ..estimation.checks import Labels, as_list, label_codes, name_rows, refuse
from ..estimation.spec import Described, Examples, make_examples
from .boxes import RELEASED_FORMATS, BoxFormat, PredictedBoxes, Truths, read_boxes
from .cpd import Rows, positive_flags
from .detection import any_box_hits
from .ranking import HitRanks, check_depths, hit_ranks, recall_at, tied_at

PhraseKeys = Sequence[Mapping[Any, Any]]

# A number for each box and for each truth.
_Sides = tuple[NDArray[np.intp], NDArray[np.intp]]


@metric_function()
def grounding_recall(
    predictions: Rows,
    references: Rows,
    *,
    box_format: BoxFormat = RELEASED_FORMATS,
    ks: Sequence[int] | int = (1, 5, 10),
    ties: str = "wrong",
    **labels: Unpack[Described],
) -> Examples:
    """Compute the share of phrases with a correct box among their k most confident, on positive rows; higher is better.

    A box is right when its IoU with any ground-truth box of its phrase is at least 0.5. The examples are the phrases
    with ground truth: rows without it are negatives, and in no score.

    Args:
        predictions, references, box_format: see ``boxes.read_boxes``.
        ks: numbers of boxes.
        ties: which of equally confident boxes come first: ``"wrong"`` the wrong ones, ``"right"`` the right ones,
            ``"half"`` the probability of success over all orders.
        labels: categories, clusters (one label per row; by default the row); and further options: see
            ``aggregate.SummaryOptions``.

    Returns:
        ``recall_at_<k>`` for each k, in [0, 1], with ``macro_`` averages; ``tie_rate`` (share of phrases for which a
        tie decides at some k), ``n`` (phrases), ``n_positive`` (positive rows), ``n_abstained`` (phrases without any
        predicted box, which are misses), ``per_category``, and with ``confidence`` the intervals.

    Raises:
        ScoresError: rows that cannot be read, no ground truth at all, or labels or options that cannot be used.
        UnknownNameError: an unknown tie policy or box format.

    Source: TRICD (Kamath, Price et al., 2023), section 6.2 and Table 5; the any-box protocol of MDETR.

    >>> prediction = {"boxes": [[9, 9, 11, 11], [0, 0, 4, 4]], "scores": [0.9, 0.8], "phrase_ids": [1, 1]}
    >>> result = grounding_recall([prediction], [{"boxes": [[0, 0, 4, 4]], "phrase_ids": [1]}])
    >>> result["recall_at_1"], result["recall_at_5"]
    (0.0, 1.0)
    """
    detections, truths = read_boxes(predictions, references, box_format)
    phrases = _Phrases(detections, truths, (detections.rows, truths.rows), _keys(detections, truths, None))
    return phrases.recalls(ks, ties, labels, {"n_positive": len(np.unique(truths.rows))})


@metric_function()
def group_recall_at_1(
    predictions: Rows,
    references: Rows,
    *,
    pair_ids: Labels,
    positive: ArrayLike,
    phrase_keys: PhraseKeys | None = None,
    box_format: BoxFormat = RELEASED_FORMATS,
    ties: str = "wrong",
    **labels: Unpack[Described],
) -> Examples:
    """Compute recall@1 with the boxes of an image and its distractors pooled by phrase.

    The boxes of a positive row and of its distractor rows (the same caption with another image) are pooled phrase by
    phrase. A phrase succeeds when the most confident box of all comes from the positive row, with an IoU of at least
    0.5 with any ground-truth box of the phrase. Higher is better.

    Args:
        predictions, references, box_format: see ``boxes.read_boxes``.
        pair_ids: one label per row; the rows of a caption, its positive and its distractors, share it.
        positive: one flag per row, true where the caption is true of the image: once in each pair.
        phrase_keys: for each row a mapping from phrase id to what identifies the phrase in the caption, such as its
            character spans (TRICD's field ``phrases``, unchanged), where the rows of a pair number their phrases
            differently; ``None`` where they share the phrase ids. Keys are compared as JSON.
        ties: how a phrase counts where boxes share the highest confidence: ``"wrong"`` 1 if all of them are right,
            ``"right"`` 1 if one of them is (the authors' code favours the positive image so), ``"half"`` the right
            ones' share.
        labels: categories, clusters (one label per row; by default the pair); and further options: see
            ``aggregate.SummaryOptions``.

    Returns:
        ``recall_at_1`` in [0, 1] with its ``macro_`` average, ``tie_rate``, ``n`` (phrases), ``n_pairs``,
        ``n_abstained`` (phrases for which neither row has a box, which are misses), ``per_category``, and with
        ``confidence`` the intervals.

    Raises:
        ScoresError: rows that cannot be read, a pair without exactly one positive row or without a distractor, ground
            truth on a distractor, a phrase without a key or without its counterpart, phrase ids that no pair shares,
            or labels or options that cannot be used; the message names the rows.
        UnknownNameError: an unknown tie policy or box format.

    Source: TRICD (Kamath, Price et al., 2023), appendix A and Table 6.

    >>> found = {"boxes": [[0, 0, 4, 4]], "scores": [0.9], "phrase_ids": [1]}
    >>> mistaken = {"boxes": [[5, 5, 9, 9]], "scores": [0.8], "phrase_ids": [1]}
    >>> truth, nothing = {"boxes": [[0, 0, 4, 4]], "phrase_ids": [1]}, {"boxes": [], "phrase_ids": []}
    >>> group_recall_at_1([found, mistaken], [truth, nothing], pair_ids=[1, 1], positive=[True, False])["recall_at_1"]
    1.0
    """
    detections, truths = read_boxes(predictions, references, box_format)
    flags = positive_flags(positive, np.bincount(truths.rows, minlength=truths.n_rows))
    pairs = label_codes(pair_ids, truths.n_rows, "pair ids")[1]
    _check_pairs(pairs, flags)
    table = None if phrase_keys is None else _key_table(phrase_keys, truths.n_rows)
    keys = _keys(detections, truths, table)
    if table is not None:
        _check_counterparts(table, pairs, truths)
    phrases = _Phrases(detections, truths, (pairs[detections.rows], pairs[truths.rows]), keys)
    on_distractors = phrases.asked[~flags[detections.rows]]
    if table is None and len(on_distractors) and not on_distractors.any():
        raise ScoresError(
            f"none of the {len(on_distractors)} boxes on distractors has the phrase id of a phrase with ground truth "
            "in its pair; where rows number their phrases differently, as in TRICD's files, pass phrase_keys"
        )
    return phrases.recalls((1,), ties, labels, {"n_pairs": int(flags.sum())})


class _Phrases:
    """The phrases with ground truth as queries, with the ranks of their boxes.

    Each box and truth names its phrase by two numbers: its row or pair of rows, and the phrase's key in it.
    """

    def __init__(self, detections: PredictedBoxes, truths: Truths, groups: _Sides, keys: _Sides) -> None:
        if not len(truths.rows):
            raise ScoresError("no row has a ground-truth box; recall needs the positive rows")
        count = int(max(keys[0].max(initial=0), keys[1].max())) + 1
        wanted, given = (group * count + key for group, key in zip(groups, keys, strict=True))
        phrases, first = np.unique(given, return_index=True)
        queries = np.searchsorted(phrases, wanted)
        queries[queries == len(phrases)] = 0
        self.asked = asked = phrases[queries] == wanted
        hits = any_box_hits(detections, truths)
        self.ranks: HitRanks = hit_ranks(queries[asked], detections.scores[asked], hits[asked], len(phrases))
        self.rows = truths.rows[first]
        self.names = [f"phrase {name}" for name in truths.phrase_ids[first].tolist()]
        self.n_rows = truths.n_rows
        self.abstained = len(phrases) - len(np.unique(queries[asked]))

    def recalls(self, ks: Sequence[int] | int, ties: str, labels: Described, counts: Mapping[str, int]) -> Examples:
        """Compute recall at each k; the labels are given per row."""
        depths = check_depths(ks)
        row_labels: dict[str, Any] = {"clusters": np.arange(self.n_rows)}
        row_labels |= {name: values for name, values in labels.items() if values is not None}
        for name, values in row_labels.items():
            as_listed = as_list(values)
            if len(as_listed) != self.n_rows:
                raise ScoresError(f"got {len(as_listed)} {name} for {self.n_rows} rows; pass one label per row")
            row_labels[name] = [as_listed[row] for row in self.rows]
        facts = {**counts, "n_abstained": self.abstained}
        return make_examples(
            {f"recall_at_{k}": recall_at(self.ranks, k, ties) for k in depths},
            np.any([tied_at(self.ranks, k) for k in depths], axis=0),
            rows=self.rows,
            names=self.names,
            facts=lambda numbers: facts if numbers is None else {},
            **row_labels,
        )


def _check_pairs(pairs: NDArray[np.intp], positive: NDArray[np.bool_]) -> None:
    problems = {
        "belong to a pair without exactly one positive row": np.bincount(pairs, positive) != 1,
        "belong to a pair without a distractor": np.bincount(pairs) < 2,
    }
    for problem, bad in problems.items():
        message = "{rows} {what}; give the positive row of a caption and its distractors one pair id"
        refuse(bad[pairs], message, what=problem)


def _keys(detections: PredictedBoxes, truths: Truths, table: list[dict[int, str]] | None) -> _Sides:
    """Return the number of the phrase key of each box and of each truth."""
    if table is None:
        codes = np.unique(np.concatenate([detections.phrase_ids, truths.phrase_ids]), return_inverse=True)[1]
        return codes[: len(detections.rows)], codes[len(detections.rows) :]
    phrase_numbers = {
        key: index for index, key in enumerate(dict.fromkeys(key for row in table for key in row.values()))
    }
    return _look_up(detections, table, phrase_numbers), _look_up(truths, table, phrase_numbers)


def _look_up(
    side: PredictedBoxes | Truths, table: list[dict[int, str]], numbers: Mapping[str, int]
) -> NDArray[np.intp]:
    phrases, inverse = np.unique(np.stack([side.rows, side.phrase_ids]), axis=1, return_inverse=True)
    codes = np.array([numbers.get(table[row].get(name, ""), -1) for row, name in phrases.T.tolist()], dtype=np.intp)
    if (codes < 0).any():
        row, name = phrases[:, codes < 0][:, 0].tolist()
        raise ScoresError(f"phrase {name} of row {row} has no key in phrase_keys; give every phrase of the row one")
    return codes[inverse.ravel()]


def _key_table(phrase_keys: PhraseKeys, n_rows: int) -> list[dict[int, str]]:
    table = as_list(phrase_keys)
    bad = np.array([not isinstance(row, Mapping) for row in table], dtype=bool)
    if len(table) != n_rows or bad.any():
        where = f", and no mapping in {name_rows(bad)}" if bad.any() else ""
        raise ScoresError(
            f"got {len(table)} phrase_keys for {n_rows} rows{where}; pass for each row a mapping from phrase id "
            "to what identifies the phrase in the caption, such as its character spans"
        )
    return [_read_keys(number, row) for number, row in enumerate(table)]


def _read_keys(number: int, row: Mapping[Any, Any]) -> dict[int, str]:
    """Return the phrase keys of a row as text; None, which Arrow inserts for the phrases of other rows, is skipped."""
    try:
        odd = [name for name in row if not isinstance(name, str) and int(name) != name]
        if not odd:
            return {int(name): json.dumps(key, default=_plain) for name, key in row.items() if key is not None}
        problem: object = f"{odd[0]!r} is not a phrase id"
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        problem = error
    raise ScoresError(
        f"the phrase_keys of row {number} cannot be read ({problem}); map whole phrase ids to text or lists of spans"
    )


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()


def _check_counterparts(table: list[dict[int, str]], pairs: NDArray[np.intp], truths: Truths) -> None:
    """Check that each phrase with ground truth in a positive row occurs in its distractors too."""
    counted: dict[int, set[str]] = {}
    for row, name in zip(truths.rows.tolist(), truths.phrase_ids.tolist(), strict=True):
        counted.setdefault(int(pairs[row]), set()).add(table[row][name])
    wanted = [counted.get(pair, set()) for pair in pairs.tolist()]
    refuse(
        [not keys <= set(row.values()) for row, keys in zip(table, wanted, strict=True)],
        "{rows} lack a phrase of the positive row with the same caption; give equal phrases equal keys",
    )
