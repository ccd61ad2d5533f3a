"""What a person holds after an evaluation: results with their tables, examples and plots."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..common.documents import Table, print_tables, to_html, to_latex, to_markdown
from ..common.figures import as_png
from ..common.storage import write_atomically, write_text
from ..records.predictions import Predictions, file_hash, read_predictions
from ..records.results import Result, code_version, write_results
from ..records.schema import Row
from . import _tables
from ._compute import Declared, compute, declared_metrics, examples_of, scored_rows
from ._diagnose import DETECTION, diagnose
from ._diagnosis import Diagnosis, plot_curves
from ._plots import plot, plot_html
from ._seeds import SeedSummary, over_seeds

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

# What was shown of an example, by its id: captions, or a question.
Captions = Callable[[Predictions], Mapping[str, Sequence[str]]]


@dataclass(frozen=True, repr=False)
class Report(Sequence[Result]):
    """The results of files of predictions: a sequence of `Result`, with tables, examples and plots.

    Args:
        results: one for each file and metric.
        files: the files of predictions.
        metrics: which metrics evaluate a file; see ``compute``.
        ties: the tie policy that was asked for, None for each metric's own.
        captions: finds what was shown of the examples, for `per_example`; None where only the files are there.
        written: the files that `write` wrote, where it did.
    """

    results: list[Result]
    files: list[Path]
    metrics: Declared = declared_metrics
    ties: str | None = None
    captions: Captions | None = None
    written: list[Path] = field(default_factory=list)

    @overload
    def __getitem__(self, place: int) -> Result: ...

    @overload
    def __getitem__(self, place: slice) -> list[Result]: ...

    def __getitem__(self, place: int | slice) -> Result | list[Result]:
        return self.results[place]

    def __len__(self) -> int:
        return len(self.results)

    @cached_property
    def seeds(self) -> list[SeedSummary]:
        """Mean and deviation over results that differ in nothing but their seed; see ``over_seeds``."""
        return over_seeds(self.results, self._read)

    @cached_property
    def diagnoses(self) -> dict[str, Diagnosis]:
        """What decides the average precision of each detector, by model and task; see ``diagnose``."""
        found: dict[str, Diagnosis | None] = {}
        for result, label in zip(self.results, _tables.labels(self.results), strict=True):
            name = _tables.subject(result, label)
            if name not in found and result.spec.task_type == DETECTION:
                rows, metrics = self._read(result)
                how = {key: value for key, value in result.options.items() if key in ("confidence", "seed")}
                found[name] = diagnose(rows, metrics, ties=self.ties, **how)
        return {name: diagnosis for name, diagnosis in found.items() if diagnosis is not None}

    @property
    def tables(self) -> list[Table]:
        """All tables: those of the results, of seeds and of diagnoses."""
        found = _tables.tables_of(self.results)
        named = list(zip(self.results, _tables.model_labels(self.results), strict=True))
        for summary in self.seeds:
            found.append(summary.table(next(label for result, label in named if result.model == summary.model)))
        for name, diagnosis in self.diagnoses.items():
            found += [diagnosis.table(name), diagnosis.curve_table()]
        return found

    def __repr__(self) -> str:
        named = zip(self.results, _tables.labels(self.results), strict=True)
        lines = [f"  {_tables.summary_line(result, label, self.results)}" for result, label in named]
        return "\n".join(["Report:", *lines])

    def _repr_html_(self) -> str:
        """The tables, as a notebook shows them."""
        return to_html(self.tables)

    def to_pandas(self) -> pandas.DataFrame:
        """Every number of the tables, a row each.

        Returns:
            The columns model, variant (what distinguishes results of one model, such as "seed 1"), benchmark, task,
            metric, score, category ("micro average" and "macro average" for the whole), value, low, high (of its
            interval), tie_rate, n, chance, blind and higher_is_better. Scores and rates are fractions; what is not
            known is NaN.
        """
        import pandas

        named = zip(_tables.model_labels(self.results), _tables.variants(self.results), strict=True)
        lines = []
        for result, (model, variant) in zip(self.results, named, strict=True):
            about = {
                "model": model,
                "variant": variant,
                "benchmark": result.benchmark["name"],
                "task": result.benchmark["task"],
                "metric": result.metric,
            }
            for line in _tables.lines(result, self.results):
                for name, score in line.scores.items():
                    low, high = score.interval or (None, None)
                    facts = {"value": score.value, "low": low, "high": high, "tie_rate": line.tie_rate, "n": line.n}
                    levels = {"chance": result.chance.get(name), "blind": score.blind}
                    direction = {"higher_is_better": result.higher_is_better[name]}
                    lines.append({**about, "score": name, "category": line.name, **facts, **levels, **direction})
        frame = pandas.DataFrame(lines)
        numbers = ["value", "low", "high", "tie_rate", "chance", "blind"]
        return frame.astype(dict.fromkeys(numbers, float))

    def per_example(self, metric: str | None = None) -> pandas.DataFrame:
        """What each example contributes to each score.

        Args:
            metric: one metric's name; all of them by default.

        Returns:
            A row for each example and metric: model, benchmark, task, metric, id, config, category, tags, cluster
            (equal for examples that are not independent), example (what tells several examples of one row apart, such
            as a phrase), a column for each score that is a mean over examples, tied, counts, and why not. With the
            captions and the label where the benchmark's data are at hand.
        """
        import pandas

        return pandas.DataFrame([line for path in self.files for line in _lines_of_file(path, self, metric)])

    def plot(self) -> Figure:
        """The profile: a panel for each metric, its main score by category, a colour for each model."""
        return plot(self.results)

    def print(self) -> None:
        """Print the tables to the terminal."""
        print_tables(self.tables)

    def write(self, out: str | Path) -> list[Path]:
        """Write results, tables and plots into a folder; the files that were written. See ``write_report``."""
        self.written[:] = write_report(self, out)
        return self.written

    @cached_property
    def _paths(self) -> dict[str, Path]:
        """The files by their SHA-256."""
        return {file_hash(path): path for path in self.files}

    def _read(self, result: Result) -> tuple[list[Row], Mapping[str, Mapping[str, Any]]]:
        """The rows that count of the predictions that a result is of, and their metrics with the settings."""
        predictions = read_predictions(self._paths[result.predictions["sha256"]])
        return scored_rows(predictions.rows), self.metrics(predictions)


def write_report(report: Report, out: str | Path) -> list[Path]:
    """Write a report into a folder.

    ``results.json``, ``report.md`` and ``report.tex`` are always written; ``seeds.json`` where models were run with
    several seeds; ``diagnosis.json`` where there are detectors; ``profile.png`` and ``diagnosis.png`` need matplotlib
    and ``profile.html`` plotly (the extra ``plots``). Files of an earlier report are replaced, each whole, or removed
    where this report does not have them.

    Args:
        report: the report; it covers all predictions that it was made of, and no others.
        out: a folder.

    Returns:
        The files that were written.
    """
    folder = Path(out)
    write_results(folder / "results.json", report.results)
    write_text(folder / "report.md", to_markdown(report.tables))
    write_text(folder / "report.tex", to_latex(report.tables))
    contents: dict[str, Callable[[], bytes | None]] = {
        "seeds.json": lambda: _json("seeds", [summary.as_json() for summary in report.seeds]),
        "diagnosis.json": lambda: _json(
            "diagnosis", [{"about": name, **each.as_json()} for name, each in report.diagnoses.items()]
        ),
        "profile.png": lambda: as_png(plot(report.results)) if report.results else None,
        "profile.html": lambda: plot_html(report.results) if report.results else None,
        "diagnosis.png": lambda: as_png(plot_curves(report.diagnoses)) if report.diagnoses else None,
    }
    files = [folder / name for name in ("results.json", "report.md", "report.tex")]
    for name, make in contents.items():
        try:
            content = make()
        except ModuleNotFoundError:
            content = None
        if content is None:
            (folder / name).unlink(missing_ok=True)
        else:
            write_atomically(folder / name, content)
            files.append(folder / name)
    return files


def _json(kind: str, found: list[dict[str, Any]]) -> bytes | None:
    """A file of one kind of facts; None where there are none."""
    if not found:
        return None
    document = {"schema": f"vl-assay/{kind}", "version": 1, "code": code_version(), kind: found}
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def report(
    predictions: str | Path | Iterable[str | Path],
    *,
    metrics: Declared = declared_metrics,
    captions: Captions | None = None,
    **options: Any,
) -> Report:
    """Evaluate files of predictions; the arguments and errors are those of ``compute``.

    Args:
        predictions: path of a file, or of several.
        metrics: which metrics evaluate a file; by default those that it declares.
        captions: finds what was shown of the examples, for `Report.per_example`.
        options: `ties`, `confidence`, `resamples`, `seed`.
    """
    paths = [Path(path) for path in ([predictions] if isinstance(predictions, str | Path) else predictions)]
    results = compute(paths, metrics=metrics, **options)
    return Report(results, paths, metrics, options.get("ties"), captions)


def _lines_of_file(path: Path, about: Report, metric: str | None) -> Iterable[dict[str, Any]]:
    predictions = read_predictions(path)
    rows = scored_rows(predictions.rows)
    shown = about.captions(predictions) if about.captions else {}
    place = {row.id: number for number, row in enumerate(rows)}
    for name, settings in about.metrics(predictions).items():
        if metric not in (None, name):
            continue
        examples = examples_of(rows, name, settings, ties=about.ties)
        model = {"model": predictions.model, "benchmark": predictions.benchmark, "task": predictions.task}
        for number, row_number in enumerate(examples.rows.tolist()):
            values = {score: float(values[number]) for score, values in examples.values.items()}
            yield {
                **model,
                "metric": name,
                **_facts(rows[row_number], shown),
                "cluster": int(examples.clusters[number]),
                "example": examples.names[number] if examples.names is not None else "",
                **{score: value for score, value in values.items() if not np.isnan(value)},
                "tied": bool(examples.tied[number]),
                "counts": True,
                "why": "",
            }
        left_out = {rows[number].id: why for number, why in examples.left_out.items()}
        left_out |= {row.id: "missing image" for row in predictions.rows if row.id not in place}
        for row in predictions.rows:
            if row.id in left_out:
                yield {**model, "metric": name, **_facts(row, shown), "counts": False, "why": left_out[row.id]}


def _facts(row: Any, shown: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    facts = {"id": row.id, "config": row.config, "category": row.category, "tags": list(row.tags)}
    if row.id in shown:
        facts["captions"] = list(shown[row.id])
    for name in ("question", "correct", "positive"):
        if hasattr(row, name):
            facts["label" if name != "question" else name] = getattr(row, name)
    return facts
