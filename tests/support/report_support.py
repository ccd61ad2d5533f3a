"""Predictions as the tests of reports write them: small, of several tasks, models and seeds."""

import numpy as np

from vl_assay.hub_datasets.core.benchmarks import benchmark_names, get_task
from vl_assay.metrics.records.predictions import Predictions, write_predictions
from vl_assay.metrics.records.schema import DetectionRow, MatchingRow, RetrievalRow, VQARow

HERE, AWAY = [0.0, 0.0, 4.0, 4.0], [50.0, 50.0, 60.0, 60.0]


def declared(benchmark, task):
    """The metrics that predictions of a benchmark's task declare; none for an unknown benchmark."""
    return dict(get_task(benchmark, task).metrics) if benchmark in benchmark_names() else {}


def write(path, rows, benchmark="toy_scenes", task="itm", model="a", about=None, run=None, **facts):
    """A file of predictions; `about` describes the model further, `facts` the benchmark."""
    if "metrics" not in facts:
        facts["metrics"] = declared(benchmark, task)
    missing = [row.id for row in rows if not row.is_scored]
    described = {"name": benchmark, "task": task, "rows": len(rows), "missing": missing, "fingerprint": "f" * 64}
    metadata = {"model": {"name": model} | (about or {}), "benchmark": described | facts, "run": run or {}}
    write_predictions(path, Predictions(rows, metadata))
    return path


def matching(scores, categories=("swap_obj", "swap_att"), config="itm"):
    """Rows of one image each, of which every two are of the same image, from scores of shape (n, captions)."""
    return [
        MatchingRow(str(n), config, categories[n % len(categories)], [f"i{n // 2}"], [0], [list(map(float, row))])
        for n, row in enumerate(scores)
    ]


def groups(scores, categories=("swap_obj", "swap_att")):
    """Groups of two images, from scores of shape (n, 2, 2); one in three has tags, one of them like a row's number."""
    return [
        MatchingRow(
            str(n), "groups", categories[n % len(categories)], [f"i{n}", f"j{n}"], [0, 1],
            [list(map(float, row)) for row in each], tags=[] if n % 3 else ["1", "tag"],
        )
        for n, each in enumerate(scores)
    ]  # fmt: skip


def retrieval(scores):
    """Images with as many captions of their own, from scores of shape (n, n)."""
    return [
        RetrievalRow(str(n), "retrieval", "retrieval", [f"i{n}"], [n], np.float32(row)) for n, row in enumerate(scores)
    ]


def answers(scores):
    """Questions of which every two are of the same image, from scores of shape (n,)."""
    return [
        VQARow(str(n), "vqa", ("objects", "relations")[n % 2], [f"i{n // 2}"], "?", n % 4 < 2, float(score))
        for n, score in enumerate(scores)
    ]


def detections(rng, pairs, boxes=3, absent=False):
    """Pairs of a positive and a negative row with two phrases, boxes that are right or not, coarse confidences.

    With `absent` the second phrase of every fourth positive row has no ground truth.
    """
    phrases = [{"text": "a", "start": 0, "end": 1}, {"text": "b", "start": 4, "end": 5}]
    found = []
    for pair in range(pairs):
        for positive in (True, False):
            drawn = [[HERE if right else AWAY for right in rng.random(boxes) < 0.6] for _ in phrases]
            scores = [(rng.integers(1, 12, boxes) / 12).tolist() for _ in phrases]
            truth = [[HERE], [] if absent and pair % 4 == 0 else [HERE]] if positive else [[], []]
            split = ("objects", "relations")[pair % 2]
            found.append(
                DetectionRow(
                    f"{pair}{positive}", "detection", split, [f"i{pair}{positive}"], positive, str(pair), phrases,
                    truth, drawn, scores, cluster=str(pair),
                )
            )  # fmt: skip
    return found
