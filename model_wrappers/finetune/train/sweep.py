"""A sweep: runs of one recipe with several values of a setting, of which the best on validation data is kept.

ARO (Yuksekgonul et al. 2023, appendix C.3) trains with the learning rates 1e-5, 5e-6 and 1e-6 and takes the model with
the best retrieval on COCO's validation split. It does not say which of the recalls decides; here it is the mean of
Recall@1 in both directions. Scores of test splits cannot decide.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ....hub_datasets.core.benchmarks import get_benchmark, is_higher_better
from ....metrics.common.documents import Table, simple_table, to_markdown
from ....metrics.common.errors import DataError, TrainingError, UnknownNameError, VLAssayError
from ....metrics.common.formatting import percent
from ....metrics.common.storage import check_writable, write_text
from ...engine.distributed import Processes, join
from ..data.training_set import TrainingSet
from .checkpoints import read_json
from .config import TrainingConfig
from .recipes import Recipe, adapt, get_recipe
from .training import Outcome, finetune
from .validation import RECOGNITION

# What ARO validates on.
VALIDATION = "retrieval/coco_validation"
_RECALLS = ("text_recall_at_1", "image_recall_at_1")
_FILE = "sweep.json"
# Arguments of `finetune` that do not change the result.
_ELSEWHERE = ("data_dir", "progress")


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep.

    Attributes:
        folder: of the best model, which is also the name of its values.
        rows: for each run its ``values`` and ``scores``, which are None where its loss was not finite, the mean of the
            scores as ``mean``, and why it stopped, if it did, as ``problem``.
        table: the rows to print.
        outcome: of the best run; None where the sweep had been finished before.
    """

    folder: Path
    rows: list[dict[str, Any]]
    table: Table
    outcome: Outcome | None = None


def sweep(
    model: str,
    data: str | Path | TrainingSet,
    out: str | Path,
    recipe: str | Recipe,
    values: Mapping[str, Sequence[str]],
    *,
    select: Sequence[str] = (),
    config: TrainingConfig | None = None,
    **arguments: Any,
) -> Sweep:
    """Fine-tune with all combinations of values, and keep the model with the best validation scores.

    Each run has a folder in `out` that is named by its values, and resumes when the same call is made again; those that
    are finished are not repeated. In the end ``sweep.md`` and ``sweep.json`` have the scores of all, and the weights of
    all but the best are removed; of equals the first is the best.

    Args:
        model, data, config, arguments: as for `finetune`.
        out: the folder of the runs.
        recipe: the recipe, or its name.
        values: settings of a recipe and their values as texts, such as ``{"learning_rate": ["1e-5", "5e-6"]}``.
        select: the scores that decide by their mean, such as ``"retrieval/coco_validation/text_recall_at_1"``; by
            default Recall@1 in both directions of the retrieval benchmark among those of the evaluation. Scores that
            are better when lower count as negative.

    Raises:
        VLAssayError: as `finetune`; fewer than two runs, a score of a test split, or no score to select by.
        TrainingError: no run came to its end.
    """
    recipe = get_recipe(recipe) if isinstance(recipe, str) else recipe
    config, out, processes = config or TrainingConfig(), Path(out), join()
    combinations = [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]
    recipes = {_name(each): adapt(recipe, each) for each in combinations}
    if len(recipes) < 2:
        raise VLAssayError(f"a sweep needs two values or more, as in learning_rate=1e-5,5e-6; {len(recipes)} came")
    scores = list(select) or _default_scores(config.evaluation.benchmarks)
    for score in (*scores, *([config.stopping.score] if config.stopping.score else ())):
        _check_score(score, config.evaluation.benchmarks, config.evaluation.recognise)
    facts = {
        "model": model,
        "data": data.fingerprint if isinstance(data, TrainingSet) else Path(data).name,
        "recipe": recipe.as_json(),
        "values": {name: list(each) for name, each in values.items()},
        "select": scores,
        "precision": config.precision,
        "evaluation": config.evaluation.as_json(),
        "stopping": asdict(config.stopping),
        "source": {name: value for name, value in arguments.items() if value and name not in _ELSEWHERE},
    }
    with processes.raise_on_all_ranks():
        check_writable(out)
        known = _read(out, facts)
    if known is not None:
        _remove_others(out, known, processes)
        return Sweep(out / known["best"], known["rows"], _table(known["rows"], scores, known["best"]))
    rows, outcomes = [], dict[str, Outcome]()
    for combination in combinations:
        name, row = _name(combination), {"values": combination, "scores": None, "mean": None, "problem": ""}
        try:
            outcomes[name] = finetune(model, data, out / name, recipes[name], config=config, **arguments)
        except TrainingError as error:
            row["problem"] = str(error)
        else:
            history = outcomes[name].history[1:]
            saved = history[config.stopping.best(history)]["scores"]
            missing = next((score for score in scores if score not in saved), None)
            if missing is not None:
                raise UnknownNameError("score to select by", missing, saved)
            row["scores"] = {score: saved[score] for score in scores}
            row["mean"] = sum(_signed(score, saved[score]) for score in scores) / len(scores)
        rows.append(row)
    if not outcomes:
        raise TrainingError(f"no run of the sweep came to its end; the first stopped as {rows[0]['problem']}")
    means = {_name(row["values"]): row["mean"] for row in rows if row["mean"] is not None}
    best = max(means, key=lambda name: -math.inf if math.isnan(means[name]) else means[name])
    document = {"sweep": facts, "rows": rows, "best": best}
    _write(out, document, processes)
    _remove_others(out, document, processes)
    return Sweep(out / best, rows, _table(rows, scores, best), outcomes[best])


def _name(values: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())


def _default_scores(benchmarks: Sequence[str]) -> list[str]:
    found = [name for name in benchmarks if name.startswith("retrieval/") and name.endswith("_validation")]
    if not found:
        raise VLAssayError(
            f"the models of a sweep are compared on validation data: evaluate on {VALIDATION}, or name the scores to "
            "select by (--select), of a split that is not the test split"
        )
    return [f"{name}/{recall}" for name in found for recall in _RECALLS]


def _check_score(score: str, benchmarks: Sequence[str], recognise: str | None) -> None:
    """Check that a score exists and will be measured, and on no test split."""
    if score == RECOGNITION:
        if recognise is None:
            raise VLAssayError(f"{score} is not measured; name labelled images with --recognise")
        return
    name, _, rest = score.partition("/")
    part = rest.rpartition("/")[0].partition("+")[0]
    if not any(each.partition("/")[0] == name or Path(each).is_dir() for each in benchmarks):
        raise UnknownNameError("benchmark to select by", name, benchmarks)
    benchmark = get_benchmark(name)
    for task in benchmark.tasks:
        if (part == task.name or part in task.configs) and benchmark.split_for(task) == "test":
            raise VLAssayError(
                f"{score} is of the test split, on which models are compared and not chosen; select by a score of "
                f"validation data, such as those of {VALIDATION}"
            )
    _signed(score, 0.0)  # raises for an unknown score, before any training


def _signed(score: str, value: float) -> float:
    """The score, negative if lower is better."""
    return value if score == RECOGNITION or is_higher_better(*score.split("/", 2)) else -value


def _read(out: Path, facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The finished sweep in a folder; None if it is not finished."""
    file = out / _FILE
    if not file.exists():
        return None
    found = read_json(file, out)
    other = [name for name, value in json.loads(_dump(facts)).items() if found["sweep"].get(name) != value]
    if other:
        raise DataError(f"{out} holds a sweep with another {' and '.join(other)}, see {file}; name a new folder")
    return found


def _dump(document: Mapping[str, Any]) -> str:
    """JSON, with paths as texts."""
    return json.dumps(document, indent=1, default=str)


def _write(out: Path, document: Mapping[str, Any], processes: Processes) -> None:
    """Write the scores of all runs."""
    with processes.raise_on_all_ranks():
        if processes.is_main:
            best = document["best"]
            table = _table(document["rows"], document["sweep"]["select"], best)
            write_text(out / "sweep.md", to_markdown([table, f"The best model is in `{best}`."]) + "\n")
            write_text(out / _FILE, _dump(document) + "\n")


def _remove_others(out: Path, document: Mapping[str, Any], processes: Processes) -> None:
    """Remove the models of all runs but the best; logs and predictions stay."""
    with processes.raise_on_all_ranks():
        if processes.is_main:
            for folder in (out / _name(row["values"]) for row in document["rows"] if row["scores"] is not None):
                if folder.name != document["best"]:
                    for file in (*read_json(folder / "training" / "finished.json", folder)["files"], "README.md"):
                        (folder / file).unlink(missing_ok=True)
    processes.wait()


def _table(rows: Sequence[Mapping[str, Any]], scores: Sequence[str], best: str) -> Table:
    """A row for each run: its scores, and their mean, in percent; * marks the best."""
    lines = []
    for row in rows:
        name, found = _name(row["values"]), row["scores"]
        cells = ["not finite"] * (len(scores) + 1)
        if found is not None:
            cells = [f"{percent(each)} %" for each in (*(found[score] for score in scores), row["mean"])]
        lines.append([f"{name} *" if name == best else name, *cells])
    note = "Of the saved model of each run, on validation data; * is the best by the mean, the first of equals."
    return simple_table(["run", *scores, "mean"], lines, title="Sweep", note=note, numbers=True)
