"""Reports: the results of files of predictions with their tables, examples and plots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.documents import Document, Fold, Part, Table, to_latex, to_markdown, to_page
from ..common.errors import check_known
from ..common.figures import as_file
from ..common.storage import write_atomically, write_text
from ..records.predictions import Predictions, file_hash, read_predictions
from ..records.results import Result, write_results
from ..records.schema import Row
from .compute import Metrics, Parts, compute, declared_metrics, examples_of, no_parts, no_scores, scored_rows
from .overview import Overview
from .pairs import Scored, example_ids
from .profile import plot, plot_html
from .scores import ScoreRow, by_result, long_table
from .screen import screen
from .seeds import seed_tables
from .suites import SuiteMean, Suites, suite_means, suite_tables
from .tables import report_tables, summary_line

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

# The files of the profile by their option in `Report.write`.
FIGURES = {kind: f"profile.{kind}" for kind in ("png", "html", "svg", "pdf")}
DEFAULT_FIGURES = ("png", "html")
_NUMBERS = ("value", "low", "high", "tie_rate", "chance", "blind")

# Finds the captions, or the question, of each example of some predictions, by its id.
Captions = Callable[[Predictions], Mapping[str, Sequence[str]]]


@dataclass(frozen=True, repr=False)
class Report(Document, Sequence[Result]):
    """The results of files of predictions: a sequence of `Result`, with tables, examples and plots.

    Args:
        results: one for each file and metric.
        files: the files of predictions.
        ties: the requested tie policy, None for each metric's own.
        captions: finds the captions for `per_example`; None to leave them out.
        find_parts: finds further tasks in the predictions of a file; see ``compute``.
        suites: finds the tasks of each suite of a benchmark.
    """

    results: list[Result]
    files: list[Path]
    ties: str | None = None
    captions: Captions | None = None
    find_parts: Parts = no_parts
    suites: Suites = lambda benchmark: {}

    def __getitem__(self, index: Any) -> Any:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    @cached_property
    def rows(self) -> list[ScoreRow]:
        """The long table: a row for each score, over all examples, as macro average or of a category."""
        return long_table(self.results)

    @property
    def suite_means(self) -> list[SuiteMean]:
        """The means over named groups of tasks, such as over the sets of VTAB."""
        return suite_means(self.results, self.suites)

    @cached_property
    def overview(self) -> list[Table]:
        """The tables with models as rows, the best marked by paired tests."""
        return Overview(self.rows, self._scored).tables() if self.results else []

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of each model and metric, of seeds and of suites."""
        return [*report_tables(self.rows), *seed_tables(self.rows), *suite_tables(self.suite_means)]

    @cached_property
    def notes(self) -> list[str]:
        """A sentence for each file without results (all its images were missing), and each run with unread replies."""
        scored = {result.predictions["sha256"] for result in self.results}
        paths = [path for sha256, path in self._paths.items() if sha256 not in scored] if self.results else []
        unread = (
            f"{result.model['name']}: {result.run['no_answer']:,} of "
            f"{result.run.get('answers') or result.run.get('requests') or result.benchmark['rows']:,} replies name no "
            "choice, and count as wrong."
            for result in self.results
            if result.run.get("no_answer")
        )
        return [*(no_scores(path, read_predictions(path)) for path in paths), *dict.fromkeys(unread)]

    def __repr__(self) -> str:
        return "\n".join(["Report:", *(f"  {summary_line(rows)}" for rows in by_result(self.rows))])

    def data(self) -> list[dict[str, Any]]:
        """Return the long table as records; see `to_pandas`."""
        return [row.record() for row in self.rows]

    def to_pandas(self) -> pandas.DataFrame:
        """Return every number of the tables, a row for each.

        Returns:
            The columns model, variant (distinguishes results of one model, such as "seed 1"), benchmark, task, metric,
            score, category ("micro average" and "macro average" over categories), value, low, high (of its interval),
            tie_rate, n, chance, blind and higher_is_better. Scores and rates are fractions, NaN if unknown.
        """
        return super().to_pandas().astype(dict.fromkeys(_NUMBERS if self.results else (), float))

    def per_example(self, metric: str | None = None) -> pandas.DataFrame:
        """Return the per-example scores.

        Args:
            metric: one metric's name; all of them by default.

        Returns:
            A row for each example of the files (not again for their parts) and metric: model, benchmark, task, metric,
            id, config, category, tags, cluster (equal for examples that are not independent), example (distinguishes
            several examples of one row, such as phrases), a column for each score that is a mean over examples, tied,
            counts, and the reason if the example does not count. With the captions and the label if the benchmark's
            data are available.
        """
        import pandas

        return pandas.DataFrame([record for path in self.files for record in self._examples_of_file(path, metric)])

    def plot(self) -> Figure:
        """Plot the profile with matplotlib: a panel for each metric by category, a colour for each model."""
        return plot(self.rows)

    def parts(self) -> list[Part]:
        """Return the tables, those with models as rows first if there are several, and the notes."""
        several = len({row.label for row in self.rows}) > 1
        return [*(self.overview if several else ()), *self.tables, *self.notes]

    def screen(self) -> list[Part]:
        """Return the conclusion of a run: a row for each task, and three sentences."""
        return [*(screen(self.results) if self.results else ()), *self.notes]

    def to_markdown(self) -> str:
        """Return the tables as Markdown, first with models as rows, then for each model and metric."""
        return to_markdown([*self.overview, *self.tables, *self.notes])

    def to_latex(self) -> str:
        """Return the tables with models as rows as LaTeX, for the packages booktabs and graphicx."""
        return to_latex(self.overview)

    def write(self, out: str | Path, figures: Collection[str] = DEFAULT_FIGURES) -> list[Path]:
        """Write results, tables and plots into a folder.

        ``results.json``, ``report.md`` and ``report.tex`` are always written. All figures but the page need matplotlib
        (the extra ``plots``). Files of an earlier report are replaced atomically, and its other figures are removed.

        Args:
            out: a folder.
            figures: forms of the profile: ``"png"``, ``"html"``, ``"svg"``, ``"pdf"``.

        Returns:
            The files that were written.

        Raises:
            UnknownNameError: an unknown form.
        """
        check_known("figure", figures, FIGURES)
        folder = Path(out)
        files = [folder / name for name in ("results.json", "report.md", "report.tex")]
        write_results(files[0], self.results)
        write_text(files[1], self.to_markdown())
        write_text(files[2], self.to_latex())
        for kind, name in FIGURES.items():
            content = self._figure(kind) if kind in figures and self.results else None
            if content is None:
                (folder / name).unlink(missing_ok=True)
            else:
                write_atomically(folder / name, content)
                files.append(folder / name)
        return files

    def _figure(self, kind: str) -> bytes | None:
        """Return the file of the profile in one form; None without matplotlib."""
        if kind == "html":
            return self._page()
        try:
            return as_file(self.plot(), kind)
        except ModuleNotFoundError:
            return None

    def _page(self) -> bytes:
        """Return a page with the models side by side, the profile, and all tables folded."""
        models = list(dict.fromkeys(row.model for row in self.rows))
        first, *further = self.overview
        title = f"Profile of {models[0] if len(models) == 1 else f'{len(models):,} models'}"
        tables = Fold("All tables", (*further, *self.tables))
        return to_page(title, [first, *self.notes, *plot_html(self.rows), tables]).encode()

    @cached_property
    def _paths(self) -> dict[str, Path]:
        """Return the files by their SHA-256."""
        return {file_hash(path): path for path in self.files}

    def _scored(self, result: Result) -> Scored:
        """Read the examples of a result, for paired tests."""
        rows, metrics = self._read(result)
        examples = examples_of(rows, result.metric, metrics[result.metric], ties=result.options.get("ties"))
        return Scored(example_ids(rows, examples), examples)

    def _read(self, result: Result) -> tuple[list[Row], Metrics]:
        """Read the scored rows behind a result, and the metrics of its predictions with their settings."""
        file = read_predictions(self._paths[result.predictions["sha256"]])
        # A part is another task of the same file.
        candidates = (file, *self.find_parts(file))
        predictions = next((candidate for candidate in candidates if candidate.task == result.benchmark["task"]), file)
        return scored_rows(predictions.rows), declared_metrics(predictions)

    def _examples_of_file(self, path: Path, metric: str | None) -> Iterator[dict[str, Any]]:
        """Yield a record for each example of a file and metric."""
        predictions = read_predictions(path)
        rows = scored_rows(predictions.rows)
        scored = {row.id for row in rows}
        captions = self.captions(predictions) if self.captions else {}
        for name, settings in declared_metrics(predictions).items():
            if metric not in (None, name):
                continue
            facts = {**_facts(predictions), "metric": name}
            left_out = {row.id: "missing image" for row in predictions.rows if row.id not in scored}
            if rows:
                examples = examples_of(rows, name, settings, ties=self.ties)
                left_out |= {rows[index].id: reason for index, reason in examples.left_out.items()}
                for number, index in enumerate(examples.rows.tolist()):
                    values = {score: float(column[number]) for score, column in examples.values.items()}
                    yield {
                        **facts,
                        **_row_facts(rows[index], captions),
                        "cluster": int(examples.clusters[number]),
                        "example": examples.names[number] if examples.names is not None else "",
                        **{score: value for score, value in values.items() if value == value},
                        "tied": bool(examples.tied[number]),
                        "counts": True,
                        "why": "",
                    }
            for row in predictions.rows:
                if row.id in left_out:
                    yield {**facts, **_row_facts(row, captions), "counts": False, "why": left_out[row.id]}


@dataclass(frozen=True, repr=False)
class PredictionFiles(Sequence[Path]):
    """Files of predictions: a sequence of paths, which `report` evaluates.

    Args:
        paths: the files.
        captions: finds the captions for `Report.per_example`; None to leave them out.
        parts: finds further tasks in the predictions of a file; see ``compute``.
    """

    paths: list[Path]
    captions: Captions | None = None
    parts: Parts = no_parts

    def __getitem__(self, index: Any) -> Any:
        return self.paths[index]

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return "\n".join(["Predictions:", *(f"  {path}" for path in self.paths)])

    def report(self, **options: Any) -> Report:
        """Evaluate the predictions; the options are `ties`, `confidence`, `resamples` and `seed`."""
        return report(self.paths, captions=self.captions, parts=self.parts, **options)


def report(
    predictions: str | Path | Iterable[str | Path],
    *,
    captions: Captions | None = None,
    parts: Parts = no_parts,
    suites: Suites = lambda benchmark: {},
    **options: Any,
) -> Report:
    """Evaluate files of predictions; arguments and errors are the same as for ``compute``.

    Args:
        predictions: path of a file, or of several.
        captions: finds the captions for `Report.per_example`; by default none.
        parts: finds further tasks in the predictions of a file; by default none.
        suites: finds the tasks of each suite of a benchmark; by default none.
        options: `ties`, `confidence`, `resamples`, `seed`.
    """
    paths = [Path(path) for path in ([predictions] if isinstance(predictions, str | Path) else predictions)]
    results = compute(paths, parts=parts, **options)
    return Report(results, paths, options.get("ties"), captions, parts, suites)


def _facts(predictions: Predictions) -> dict[str, str]:
    return {"model": predictions.model, "benchmark": predictions.benchmark, "task": predictions.task}


def _row_facts(row: Any, captions: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    facts = {"id": row.id, "config": row.config, "category": row.category, "tags": list(row.tags)}
    if row.id in captions:
        facts["captions"] = list(captions[row.id])
    for name in ("question", "correct", "positive"):
        if hasattr(row, name):
            facts["label" if name != "question" else name] = getattr(row, name)
    return facts
