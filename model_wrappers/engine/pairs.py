"""Scoring by models that read image and text together: image by image, each with all its texts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .arrays import as_column, is_tensor, joined
from .embeddings import Scores, add_counts, count_truncated, prepare_texts, recheck
from .loader import Loaded
from .plan import Pairs, ScoringPlan, by_anchor
from .protocol import ChoiceModel, CrossEncoder, PairScorer, TextPairScorer, VQAModel
from .stages import EXACT, Item, Stages, Work
from .store import item_key

# Scores are differences of logits here, which may be large and close together, so rounding costs more digits than in
# cosines.
NEAR_TIE_OF_LOGITS = 1e-4
# The texts of one image are split into items of this size, since retrieval has thousands.
_TEXTS_PER_ITEM = 256
# The texts that a model reads at once, as a multiple of the images in a batch.
_TEXTS_PER_IMAGE = 4


def score_by_pairs(model: PairScorer, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all captions of a plan by a `PairScorer`."""
    pairs, name = plan.captions, model.info.name

    def compute(_: Any, images: list[Any], texts: list[list[int]]) -> Any:
        captions = [[pairs.texts[text] for text in row] for row in texts]
        scored = zip(images, captions, strict=True)
        return joined(name, [as_column(name, model.score(image, row), len(row)) for image, row in scored])

    def load(image: int) -> Loaded:
        return plan.load(image, lambda decoded: decoded)

    scores = _score_distinct(stages, "pairs", pairs, plan.images, compute, load)
    return Scores() if stages.shard else Scores(*pairs.split(scores))


def score_text_pairs(model: TextPairScorer, plan: ScoringPlan, stages: Stages) -> np.ndarray:
    """Return similarities (q,) of all pairs of texts of a plan by a `TextPairScorer`."""
    all_texts, name = plan.text_pairs.texts, model.info.name

    def compute(anchors: list[int], _: Any, texts: list[list[int]]) -> Any:
        compared = [[all_texts[text] for text in row] for row in texts]
        scored = zip(anchors, compared, strict=True)
        return joined(name, [as_column(name, model.score_texts(all_texts[a], row), len(row)) for a, row in scored])

    return _score_distinct(stages, "texts", plan.text_pairs, all_texts, compute)


def _score_distinct(
    stages: Stages,
    kind: str,
    pairs: Pairs,
    anchors: Sequence[str],
    compute: Callable[[list[int], list[Any], list[list[int]]], Any],
    load: Callable[[int], Loaded] | None = None,
) -> np.ndarray:
    """Return scores, float64, in the order of `Pairs.everything`; each distinct pair is scored once. Empty for a shard.

    Args:
        stages: compute what is not stored yet.
        kind: of the results.
        pairs: the pairs.
        anchors: the content key or the text of each anchor, by its number.
        compute: returns the scores (n, 1) of the texts of some anchors, one anchor after the other, from the anchors'
            numbers, their images, and the numbers of the texts of each.
        load: loads the image of an anchor; None for anchors that are texts.
    """
    (anchor, text), place = pairs.distinct()
    numbers: list[int] = anchor.tolist()
    both: list[tuple[int, int]] = list(zip(numbers, text.tolist(), strict=True))
    keys = [item_key(anchors[number], pairs.texts[other]) for number, other in both]
    owner = {number: item_key(anchors[number]) for number in numbers}

    def compute_batch(items: Sequence[Item], images: list[Any], _: Any) -> Any:
        return compute([numbers[item[0]] for item in items], images, [text[item].tolist() for item in items])

    work = Work(
        kind,
        keys,
        compute_batch,
        lambda missing: by_anchor(anchor, missing, _TEXTS_PER_ITEM),
        load and (lambda item: load(numbers[item[0]])),
        [owner[number] for number in numbers],
    )
    rows = stages.run(work)
    return np.empty(0) if stages.shard else rows.astype(np.float64).reshape(-1)[place]


def score_by_matching(model: CrossEncoder, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all captions of a plan by a `CrossEncoder`."""
    near = partial(plan.captions.near_ties, margin=NEAR_TIE_OF_LOGITS)
    return _fused(model, plan, stages, "pairs", plan.captions, model.prepare_captions, model.match, near)


def score_answers(model: VQAModel, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all questions of a plan: above 0 for yes, below 0 for no."""

    def near(scores: np.ndarray) -> np.ndarray:
        return np.abs(scores) <= NEAR_TIE_OF_LOGITS

    return _fused(model, plan, stages, "questions", plan.questions, model.prepare_questions, model.answer, near)


def _fused(
    model: CrossEncoder | VQAModel,
    plan: ScoringPlan,
    stages: Stages,
    kind: str,
    pairs: Pairs,
    prepare: Callable[[Sequence[str]], list[list[int]]],
    score: Callable[..., Any],
    near_ties: Callable[[np.ndarray], np.ndarray],
) -> Scores:
    """Return scores of all pairs and pools, by `score`, with near-ties among the pairs re-checked in float64."""
    tokens = prepare_texts(prepare, pairs.texts)

    def run(pairs: Pairs, kind: str) -> np.ndarray:
        is_exact = kind.startswith(EXACT)

        def compute(_: Any, images: list[Any], texts: list[list[int]]) -> Any:
            features = model.encode_images(images, exact=is_exact)
            # Texts of similar length share a batch, also across images.
            flat = [(image, tokens[text]) for image, row in enumerate(texts) for text in row]
            order = sorted(range(len(flat)), key=lambda i: len(flat[i][1]), reverse=True)
            size = 1 if is_exact else _TEXTS_PER_IMAGE * stages.batch_size
            columns = []
            for start in range(0, len(order), size):
                numbers, ids = map(list, zip(*(flat[i] for i in order[start : start + size]), strict=True))
                columns.append(as_column(model.info.name, score(features, numbers, ids, exact=is_exact), len(ids)))
            scores, back = joined(model.info.name, columns), np.argsort(order)
            return scores[sys.modules["torch"].from_numpy(back).to(scores.device) if is_tensor(scores) else back]

        return _score_distinct(stages, kind, pairs, plan.images, compute, lambda n: plan.load(n, model.prepare_image))

    rows = run(pairs, kind)
    if stages.shard is not None:
        return Scores()
    scores, pools = pairs.split(rows)
    near = near_ties(scores)
    facts = recheck(stages, scores, near, lambda: run(pairs.subset(near), f"{EXACT}{kind}"))
    return Scores(scores, pools, add_counts(facts, count_truncated(model, tokens)))


def score_by_choice(model: ChoiceModel, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all captions of a plan by a `ChoiceModel`, which reads the captions of an example at once."""
    pairs = plan.captions
    rows = pairs.by_example()

    def run(choices: Sequence[tuple[int, tuple[int, ...]]], kind: str) -> dict[Any, np.ndarray]:
        is_exact = kind.startswith(EXACT)

        def load(item: Item) -> Loaded:
            return plan.load(choices[item[0]][0], model.prepare_image)

        def compute(items: Sequence[Item], images: list[Any], _: Any) -> list[Any]:
            features = model.encode_images(images, exact=is_exact)
            captions = [[pairs.texts[text] for text in choices[item[0]][1]] for item in items]
            prepared = [model.prepare_choices(texts) for texts in captions]
            size = max(1, _TEXTS_PER_IMAGE * stages.batch_size // max(map(len, prepared)))
            scores: list[Any] = []
            for start in range(0, len(prepared), size):
                indices = range(start, min(start + size, len(prepared)))
                chosen = model.choose(features, indices, [prepared[i] for i in indices], exact=is_exact)
                scores += [
                    as_column(model.info.name, row, len(captions[i]))[:, 0]
                    for i, row in zip(indices, chosen, strict=False)
                ]
            return scores

        owners = [item_key(plan.images[image]) for image, _ in choices]
        keys = [item_key(plan.images[image], *(pairs.texts[text] for text in texts)) for image, texts in choices]
        results = stages.run(Work(kind, keys, compute, load=load, owners=owners, ragged=True))
        return dict(zip(choices, results, strict=True))

    known = run(list(dict.fromkeys(choice for _, choice in rows)), "choices")
    if stages.shard is not None:
        return Scores()
    scores = np.concatenate([known[choice] for _, choice in rows])
    near = pairs.near_ties(scores, NEAR_TIE_OF_LOGITS)

    def exact_scores() -> np.ndarray:
        again = list(dict.fromkeys(choice for row, choice in rows if near[row].any()))
        exact = known | run(again, f"{EXACT}choices")
        return np.concatenate([exact[choice] for _, choice in rows])[near]

    return Scores(scores, [], recheck(stages, scores, near, exact_scores))
