"""Several runs of a model on a task that differ only in the seed: mean and standard deviation of their scores."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence

from ..common.documents import Cell, Column, Table, TableRow
from ..common.formatting import percent, words
from .scores import ScoreRow, by_category, by_result, overall


def seed_tables(rows: Sequence[ScoreRow]) -> list[Table]:
    """Return a table of mean ± standard deviation for each model, task and metric with several seeds.

    Results belong together if they differ only in the option ``seed`` of their data, or in the run. The deviation shows
    how far another seed would change a single run; its divisor is the number of seeds less one.

    Args:
        rows: the long table of results of any models, tasks and metrics.
    """
    groups: dict[str, dict[str, list[ScoreRow]]] = {}
    for result_rows in by_result(rows):
        result = result_rows[0].result
        # An identical run on the same data does not count as another seed.
        run = json.dumps([result.benchmark.get("fingerprint"), result.scores], sort_keys=True)
        data = {name: result.benchmark.get(name) for name in ("name", "task", "configs", "split", "options")}
        if isinstance(data["options"], dict):
            data["options"] = {name: value for name, value in data["options"].items() if name != "seed"}
        facts = json.dumps([result.model, data, result.metric, result.options], sort_keys=True, default=str)
        groups.setdefault(facts, {}).setdefault(run, result_rows)
    return [_table(list(group.values())) for group in groups.values() if len(group) > 1]


def _table(seeds: Sequence[Sequence[ScoreRow]]) -> Table:
    first = seeds[0][0]
    result = first.result
    by_seed = [by_category(rows) for rows in seeds]
    table_rows = []
    for category, is_average in {row.category: row.is_average for rows in seeds for row in rows}.items():
        lines = [
            # Results of a single category have its row alone, which is the average, too.
            overall(rows) if is_average and len(table) == 1 else table[category]
            for rows, table in zip(seeds, by_seed, strict=True)
            if category in table or (is_average and len(table) == 1)
        ]
        cells = []
        for score in result.table_scores:
            values = [value for line in lines if (value := line[score].value) is not None]
            spread = (percent(statistics.fmean(values)), percent(statistics.stdev(values))) if values[1:] else ()
            cells.append(Cell(" ± ".join(spread) + " %" * bool(spread)))
        n = sum(next(iter(line.values())).n for line in lines)
        table_rows.append(TableRow(category, (*cells, Cell(f"{n:,}")), is_average))
    columns = (*(Column(words(score)) for score in result.table_scores), Column("n", repeated=True))
    where = f"{result.benchmark['name']} ({result.benchmark['task']})"
    names = "; ".join(rows[0].variant for rows in seeds)
    return Table(
        f"{first.model} on {where}: {result.metric} over {len(seeds)} seeds",
        columns,
        tuple(sorted(table_rows, key=lambda row: row.is_average)),
        f"Mean ± standard deviation over {len(seeds)} seeds ({names}).",
    )
