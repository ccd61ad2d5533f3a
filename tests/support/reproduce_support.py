"""Predictions for rows of the papers' tables, and the comparison of a table by row and column."""

import sources_sugarcrepe
from report_support import declared

from vl_assay.metrics.records.predictions import Predictions, write_predictions
from vl_assay.metrics.records.schema import MatchingRow

CATEGORIES = sources_sugarcrepe.CATEGORIES
# Correct examples of four in each category, one image each.
RIGHT = {"replace_obj": 4, "replace_att": 3, "replace_rel": 2, "swap_obj": 2, "swap_att": 0, "add_obj": 3, "add_att": 3}


def sugarcrepe_predictions(path, right=RIGHT, tied=(), lost=(), run=None, **model):
    """Write predictions for four examples of each category, of which the first `right` are correct."""
    rows = [
        matching(
            category,
            [0.5, 0.5] if (category, n) in tied else [0.9, 0.1] if n < count else [0.1, 0.9],
            f"{category}/{n}",
        )
        for category, count in right.items()
        for n in range(4)
    ]
    rows = [MatchingRow(row.id, row.config, row.category, [""], [0], None) if row.id in lost else row for row in rows]
    model = {"name": "some model", "family": "clip", "checkpoint": "some/model"} | model
    write(path, rows, "sugarcrepe/itm", run=run, **model)


def matching(config, scores, key, category=""):
    """Return a row of one image, of which the first caption is true."""
    return MatchingRow(key, config, category or config, [f"image of {key}"], [0], [scores])


def write(path, rows, task, seed=None, run=None, **model):
    """Write predictions of all configurations that the rows have, of data with a seed or not."""
    benchmark, _, task = task.partition("/")
    about = {"name": benchmark, "task": task, "split": "test", "metrics": declared(benchmark, task), "rows": len(rows)}
    about |= {"configs": list(dict.fromkeys(row.config for row in rows)), "fingerprint": f"f{seed}"}
    about |= {"missing": [row.id for row in rows if row.scores is None]}
    about |= {} if seed is None else {"options": {"seed": seed}}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_predictions(path, Predictions(rows, {"benchmark": about, "model": model, "run": run or {}}))


def cells_of(result):
    """Return the comparisons of a table by column; of several rows, the last row's."""
    return {one.column.name: one for one in result.comparisons}
