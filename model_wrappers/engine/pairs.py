"""Scoring by models that read image and text together: image by image, each with all its texts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .arrays import as_column, is_tensor, joined
from .embeddings import Scores, load_image, prepare_texts, recheck, text_facts
from .loader import Loaded
from .plan import Pairs, ScoringPlan, by_anchor
from .protocol import ChoiceModel, CrossEncoder, PairScorer, TextPairScorer, VQAModel
from .stages import Item, StageBatch, Stages, Work
from .store import item_key

# Scores are differences of logits here, which may be large and close together, so rounding costs more digits than in
# cosines.
NEAR_TIE_OF_LOGITS = 1e-4
# The texts of one image are split into items of this size, since retrieval has thousands.
_TEXTS_PER_ITEM = 256
# The texts that a model reads at once, as a multiple of the images in a batch.
_TEXTS_PER_IMAGE = 4


class _Distinct:
    """The distinct pairs of anchor and text, sorted by anchor, of which each is scored once.

    Attributes:
        anchor, text: the numbers of both sides of each, int64 (d,).
        place: for each pair its index among them, int64 (p,).
        keys, owners: the key of each pair and the key of its anchor, for a stage.
    """

    def __init__(self, pairs: Pairs, anchors: Sequence[str], subset: np.ndarray | None = None) -> None:
        if subset is not None:
            pairs = Pairs(pairs.texts, pairs.anchor[subset], pairs.text[subset], np.empty((0, 2), np.int64), [])
        (self.anchor, self.text), self.place = pairs.distinct()
        both: list[tuple[int, int]] = list(zip(self.anchor.tolist(), self.text.tolist(), strict=True))
        self.keys = [item_key(anchors[anchor], pairs.texts[text]) for anchor, text in both]
        of_anchor = {anchor: item_key(anchors[anchor]) for anchor, _ in both}
        self.owners = [of_anchor[anchor] for anchor, _ in both]

    def items(self, missing: np.ndarray) -> list[Item]:
        """Put the missing pairs of each anchor together, at most `_TEXTS_PER_ITEM` in an item."""
        return by_anchor(self.anchor, missing, _TEXTS_PER_ITEM)


def score_by_pairs(model: PairScorer, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all captions of a plan by a `PairScorer`."""
    pairs = plan.captions
    distinct = _Distinct(pairs, plan.images)

    def load(item: Item) -> Loaded:
        image = plan.open_image(int(distinct.anchor[item[0]]))
        return Loaded(image, image.size)

    def compute(batch: StageBatch) -> Any:
        name = model.info.name
        texts = [[pairs.texts[text] for text in distinct.text[item]] for item in batch.items]
        scored = zip(batch.images, texts, strict=True)
        return joined(
            name,
            [as_column(name, model.score(*image_and_texts), len(image_and_texts[1])) for image_and_texts in scored],
        )

    rows = stages.run(Work("pairs", distinct.keys, compute, distinct.items, load, distinct.owners))
    return Scores.none() if stages.shard else Scores(*pairs.split(_column(rows)[distinct.place]), {})


def score_text_pairs(model: TextPairScorer, plan: ScoringPlan, stages: Stages) -> np.ndarray:
    """Return similarities (q,) of all pairs of texts of a plan by a `TextPairScorer`."""
    texts = plan.text_pairs.texts
    distinct = _Distinct(plan.text_pairs, texts)

    def compute(batch: StageBatch) -> Any:
        columns = []
        for item in batch.items:
            compared = [texts[number] for number in distinct.text[item]]
            scores = model.score_texts(texts[int(distinct.anchor[item[0]])], compared)
            columns.append(as_column(model.info.name, scores, len(compared)))
        return joined(model.info.name, columns)

    rows = stages.run(Work("texts", distinct.keys, compute, distinct.items, owners=distinct.owners))
    return np.empty(0) if stages.shard else _column(rows)[distinct.place]


def score_by_matching(model: CrossEncoder, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all captions of a plan by a `CrossEncoder`."""
    tokens = prepare_texts(model.prepare_captions, plan.captions.texts)
    near = partial(plan.captions.near_ties, margin=NEAR_TIE_OF_LOGITS)
    return _score_and_recheck(model, plan, stages, "pairs", plan.captions, tokens, model.match, near)


def score_by_choice(model: ChoiceModel, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all captions of a plan by a `ChoiceModel`, which reads the captions of an example at once."""
    pairs = plan.captions
    rows = pairs.by_example()
    choices = list(dict.fromkeys(choice for _, choice in rows))

    def run(choices: Sequence[tuple[int, tuple[int, ...]]], kind: str, *, exact: bool = False) -> dict[Any, np.ndarray]:
        def load(item: Item) -> Loaded:
            return load_image(model, plan, choices[item[0]][0])

        def compute(batch: StageBatch) -> list[Any]:
            features = model.encode_images(batch.images, exact=exact)
            captions = [[pairs.texts[text] for text in choices[item[0]][1]] for item in batch.items]
            prepared = [model.prepare_choices(texts) for texts in captions]
            size = max(1, _TEXTS_PER_IMAGE * stages.batch_size // max(map(len, prepared)))
            scores: list[Any] = []
            for start in range(0, len(prepared), size):
                indices = range(start, min(start + size, len(prepared)))
                rows = model.choose(features, indices, [prepared[i] for i in indices], exact=exact)
                scores += [
                    as_column(model.info.name, row, len(captions[i]))[:, 0]
                    for i, row in zip(indices, rows, strict=False)
                ]
            return scores

        owners = [item_key(plan.images[image]) for image, _ in choices]
        keys = [item_key(plan.images[image], *(pairs.texts[text] for text in texts)) for image, texts in choices]
        work = Work(kind, keys, compute, load=load, owners=owners, ragged=True, one_by_one=exact, derived=exact)
        return dict(zip(choices, stages.run(work), strict=True))

    known = run(choices, "choices")
    if stages.shard is not None:
        return Scores.none()
    scores = np.concatenate([known[choice] for _, choice in rows])
    near = pairs.near_ties(scores, NEAR_TIE_OF_LOGITS)
    again = list(dict.fromkeys(choice for row, choice in rows if near[row].any()))

    def exact_scores() -> np.ndarray:
        exact = known | run(again, "float64-choices", exact=True)
        return np.concatenate([exact[choice] for _, choice in rows])[near]

    facts = recheck(stages, scores, near, exact_scores)
    return Scores(scores, [], facts | {"rechecked_pairs": int(near.sum())})


def score_answers(model: VQAModel, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all questions of a plan: above 0 for yes, below 0 for no."""
    tokens = prepare_texts(model.prepare_questions, plan.questions.texts)

    def near(scores: np.ndarray) -> np.ndarray:
        return np.abs(scores) <= NEAR_TIE_OF_LOGITS

    return _score_and_recheck(model, plan, stages, "questions", plan.questions, tokens, model.answer, near)


def _score_and_recheck(
    model: CrossEncoder | VQAModel,
    plan: ScoringPlan,
    stages: Stages,
    kind: str,
    pairs: Pairs,
    tokens: Sequence[Sequence[int]],
    score: Callable[..., Any],
    near_ties: Callable[[np.ndarray], np.ndarray],
) -> Scores:
    """Return scores of all pairs and pools, by `score`, with near-ties among the pairs re-checked in float64."""

    def run(subset: np.ndarray | None, kind: str, *, exact: bool) -> np.ndarray:
        distinct = _Distinct(pairs, plan.images, subset)

        def load(item: Item) -> Loaded:
            return load_image(model, plan, int(distinct.anchor[item[0]]))

        def compute(batch: StageBatch) -> Any:
            texts = [[tokens[text] for text in distinct.text[item]] for item in batch.items]
            size = 1 if exact else _TEXTS_PER_IMAGE * stages.batch_size
            return _match(model, batch.images, texts, partial(score, exact=exact), size, exact=exact)

        work = Work(kind, distinct.keys, compute, distinct.items, load, distinct.owners)
        rows = stages.run(work._replace(one_by_one=exact, derived=exact))
        return np.empty(0) if stages.shard else _column(rows)[distinct.place]

    if not len(pairs):
        return Scores.none()
    rows = run(None, kind, exact=False)
    if stages.shard is not None:
        return Scores.none()
    scores, pools = pairs.split(rows)
    near = near_ties(scores)
    facts = recheck(stages, scores, near, lambda: run(np.flatnonzero(near), f"float64-{kind}", exact=True))
    return Scores(scores, pools, facts | text_facts(model.max_tokens, tokens, near))


def _match(
    model: CrossEncoder | VQAModel,
    images: list[Any],
    texts: Sequence[Sequence[Any]],
    score: Callable[..., Any],
    size: int,
    *,
    exact: bool,
) -> Any:
    """Return the scores (n, 1) of the texts of a batch of images, one image after the other, `size` texts at once."""
    features = model.encode_images(images, exact=exact)
    flat = [ids for item_texts in texts for ids in item_texts]
    image_of = [number for number, item_texts in enumerate(texts) for _ in item_texts]
    # Texts of similar length share a batch, also across images.
    order = sorted(range(len(flat)), key=lambda i: len(flat[i]), reverse=True)
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    scores = [
        as_column(
            model.info.name,
            score(features, [image_of[i] for i in batch_part], [flat[i] for i in batch_part]),
            len(batch_part),
        )
        for batch_part in parts
    ]
    scores, back = joined(model.info.name, scores), np.argsort(order)
    return scores[sys.modules["torch"].from_numpy(back).to(scores.device) if is_tensor(scores) else back]


def _column(rows: np.ndarray) -> np.ndarray:
    """Return rows of one score each as scores, float64."""
    return rows.astype(np.float64).reshape(-1)
