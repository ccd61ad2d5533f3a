"""Reports: the results of files of predictions with their tables, examples and plots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.documents import Document, Fold, Part, Table, to_latex, to_markdown, to_page
from ..common.errors import check_known
from ..common.figures import as_file
from ..common.storage import write_atomically, write_text
from ..records.predictions import Predictions, file_hash, read_predictions
from ..records.results import Result, to_json, write_results
from ..records.schema import Row
from . import _tables
from ._compute import Parts, compute, declared_metrics, examples_of, no_parts, no_scores, scored_rows
from ._diagnosis import DETECTION, Diagnosis, diagnose, plot_curves
from ._overview import Overview
from ._plots import plot, plot_html
from ._scored import Scored, example_ids
from ._screen import screen
from ._seeds import SeedSummary, over_seeds
from ._suites import SuiteMean, Suites, suite_means, suite_tables

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

# The files of the profile by what `Report.write` calls them; the first two are written by default.
FIGURES = {kind: f"profile.{kind}" for kind in ("png", "html", "dark", "svg", "pdf")} | {"dark": "profile-dark.png"}
DEFAULT_FIGURES = ("png", "html")

# From predictions to the captions, or the question, of each example, by its id.
Captions = Callable[[Predictions], Mapping[str, Sequence[str]]]


@dataclass(frozen=True, repr=False)
class Report(Document, Sequence[Result]):
    """The results of files of predictions: a sequence of `Result`, with tables, examples and plots.

    Args:
        results: one for each file and metric.
        files: the files of predictions.
        ties: the tie policy that was asked for, None for each metric's own.
        captions: finds the captions for `per_example`; None for none.
        parts: finds further tasks in the predictions of a file; see ``compute``.
        suites: the tasks over whose scores a mean has a name, by benchmark.
        written: the files that `write` wrote.
    """

    results: list[Result]
    files: list[Path]
    ties: str | None = None
    captions: Captions | None = None
    parts: Parts = no_parts
    suites: Suites = lambda benchmark: {}
    written: list[Path] = field(default_factory=list)

    def __getitem__(self, index: Any) -> Any:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    @cached_property
    def seeds(self) -> list[SeedSummary]:
        """Mean and deviation over results that differ only in their seed; see ``over_seeds``."""
        return over_seeds(self.results, self._read)

    @property
    def suite_means(self) -> list[SuiteMean]:
        """Means over named tasks, such as over the sets of VTAB."""
        return suite_means(self.results, self.suites)

    @cached_property
    def diagnoses(self) -> dict[str, Diagnosis]:
        """Why the average precision of each detector is what it is, by model and task; see ``diagnose``."""
        found: dict[str, Diagnosis | None] = {}
        for result, label in zip(self.results, _tables.labels(self.results), strict=True):
            name = _tables.subject(result, label)
            if name not in found and result.spec.task_type == DETECTION:
                rows, metrics = self._read(result)
                options = {key: value for key, value in result.options.items() if key in ("confidence", "seed")}
                found[name] = diagnose(rows, metrics, ties=self.ties, **options)
        return {name: diagnosis for name, diagnosis in found.items() if diagnosis is not None}

    @cached_property
    def overview(self) -> list[Table]:
        """The tables with models as rows, the best marked by paired tests."""
        return Overview(self.results, self._scored).tables() if self.results else []

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of each model and metric, of seeds, of diagnoses and of suites."""
        found = _tables.tables_of(self.results)
        named = list(zip(self.results, _tables.model_labels(self.results), strict=True))
        for summary in self.seeds:
            found.append(summary.table(next(label for result, label in named if result.model == summary.model)))
        for name, diagnosis in self.diagnoses.items():
            found += diagnosis.tables(name)
        return found + suite_tables(self.suite_means)

    @cached_property
    def notes(self) -> list[str]:
        """A sentence for each file without results, as all images were missing, and each run with unread replies."""
        scored = {result.predictions["sha256"] for result in self.results}
        paths = [path for sha256, path in self._paths.items() if sha256 not in scored] if self.results else []
        unread = (
            f"{result.model['name']}: {result.run['no_answer']:,} of "
            f"{result.run.get('answers') or result.run['requests']:,} replies name no choice, and count as wrong."
            for result in self.results
            if result.run.get("no_answer")
        )
        return [*(no_scores(path, read_predictions(path)) for path in paths), *dict.fromkeys(unread)]

    def __repr__(self) -> str:
        named = zip(self.results, _tables.labels(self.results), strict=True)
        lines = [f"  {_tables.summary_line(result, label, self.results)}" for result, label in named]
        return "\n".join(["Report:", *lines])

    def to_pandas(self) -> pandas.DataFrame:
        """Every number of the tables, one per row.

        Returns:
            The columns model, variant (what distinguishes results of one model, such as "seed 1"), benchmark, task,
            metric, score, category ("micro average" and "macro average" for the whole), value, low, high (of its
            interval), tie_rate, n, chance, blind and higher_is_better. Scores and rates are fractions, NaN where
            unknown.
        """
        import pandas

        named = zip(_tables.model_labels(self.results), _tables.variants(self.results), strict=True)
        found = []
        for result, (model, variant) in zip(self.results, named, strict=True):
            about = {"model": model, "variant": variant, "benchmark": result.benchmark["name"]}
            about |= {"task": result.benchmark["task"], "metric": result.metric}
            for line in _tables.lines(result, self.results):
                for name, score in line.scores.items():
                    low, high = score.interval or (None, None)
                    facts = {"value": score.value, "low": low, "high": high, "tie_rate": line.tie_rate, "n": line.n}
                    levels = {"chance": result.chance.get(name), "blind": score.blind}
                    direction = {"higher_is_better": result.higher_is_better[name]}
                    found.append({**about, "score": name, "category": line.name, **facts, **levels, **direction})
        numbers = ["value", "low", "high", "tie_rate", "chance", "blind"]
        return pandas.DataFrame(found).astype(dict.fromkeys(numbers, float))

    def per_example(self, metric: str | None = None) -> pandas.DataFrame:
        """What each example contributes to each score.

        Args:
            metric: one metric's name; all of them by default.

        Returns:
            A row for each example of the files (not again for their parts) and metric: model, benchmark, task, metric,
            id, config, category, tags, cluster (equal for examples that are not independent), example (distinguishes
            several examples of one row, such as phrases), a column for each score that is a mean over examples, tied,
            counts, and why not. With the captions and the label if the benchmark's data are available.
        """
        import pandas

        return pandas.DataFrame([line for path in self.files for line in _examples_of_file(path, self, metric)])

    def plot(self, is_dark: bool = False) -> Figure:
        """The profile for a white or a dark page: a panel for each metric by category, a colour for each model."""
        return plot(self.results, is_dark)

    def document(self) -> list[Part]:
        """The tables, those with models as rows first if there are several, and the files that have none."""
        several = len(set(_tables.labels(self.results))) > 1
        return [*(self.overview if several else ()), *self.tables, *self.notes]

    def screen(self) -> list[Part]:
        """Return what a run concludes with: a row for each task, and what the scores show in three sentences."""
        return [*(screen(self.results) if self.results else ()), *self.notes]

    def to_markdown(self) -> str:
        """The tables as Markdown: models as rows first, then those of each model and metric."""
        return to_markdown([*self.overview, *self.tables, *self.notes])

    def to_latex(self) -> str:
        """The tables with models as rows as LaTeX, for the packages booktabs and graphicx."""
        return to_latex(self.overview)

    def write(self, out: str | Path, figures: Collection[str] = DEFAULT_FIGURES) -> list[Path]:
        """Write results, tables and plots into a folder.

        ``results.json``, ``report.md`` and ``report.tex`` are always written; ``seeds.json`` for models with several
        seeds; ``diagnosis.json`` for detectors. ``diagnosis.png`` and all figures but the page need matplotlib (the
        extra ``plots``). Files of an earlier report are replaced atomically, and removed if this report does not have
        them.

        Args:
            out: a folder.
            figures: forms of the profile: ``"png"``, ``"html"``, ``"dark"`` (a PNG for dark pages), ``"svg"``,
                ``"pdf"``.

        Returns:
            The files that were written.

        Raises:
            UnknownNameError: an unknown form.
        """
        check_known("figure", figures, FIGURES)
        folder = Path(out)
        files = [folder / name for name in ("results.json", "report.md", "report.tex")]
        write_results(folder / "results.json", self.results)
        write_text(folder / "report.md", self.to_markdown())
        write_text(folder / "report.tex", self.to_latex())
        makers = self._optional_files(figures)
        for name in ("seeds.json", "diagnosis.json", "diagnosis.png", *FIGURES.values()):
            try:
                content = makers[name]() if name in makers else None
            except ModuleNotFoundError:
                content = None
            if content is None:
                (folder / name).unlink(missing_ok=True)
            else:
                write_atomically(folder / name, content)
                files.append(folder / name)
        self.written[:] = files
        return self.written

    def _optional_files(self, figures: Collection[str]) -> dict[str, Callable[[], bytes]]:
        """Functions that make the content of the files that this report has."""
        makers: dict[str, Callable[[], bytes]] = {}
        if self.seeds:
            makers["seeds.json"] = lambda: to_json("seeds", 1, seeds=[asdict(each) for each in self.seeds]).encode()
        if diagnoses := self.diagnoses:
            about = [{"about": name, **asdict(each)} for name, each in diagnoses.items()]
            makers["diagnosis.json"] = lambda: to_json("diagnosis", 1, diagnosis=about).encode()
            makers["diagnosis.png"] = lambda: as_file(plot_curves(diagnoses))
        for kind in figures if self.results else ():
            makers[FIGURES[kind]] = partial(self._profile, kind)
        return makers

    def _profile(self, kind: str) -> bytes:
        """The profile in one of its forms."""
        if kind == "html":
            return self._page()
        return as_file(self.plot(is_dark=True)) if kind == "dark" else as_file(self.plot(), kind)

    def _page(self) -> bytes:
        """The models side by side, the profile, and all tables folded."""
        models = list(dict.fromkeys(_tables.model_labels(self.results)))
        first, *others = self.overview
        title = f"Profile of {models[0] if len(models) == 1 else f'{len(models):,} models'}"
        tables = Fold("All tables", (*others, *self.tables))
        return to_page(title, [first, *self.notes, *plot_html(self.results), tables]).encode()

    @cached_property
    def _paths(self) -> dict[str, Path]:
        """The files by their SHA-256."""
        return {file_hash(path): path for path in self.files}

    def _scored(self, result: Result) -> Scored:
        """The examples of a result, for paired tests."""
        rows, metrics = self._read(result)
        examples = examples_of(rows, result.metric, metrics[result.metric], ties=result.options.get("ties"))
        return Scored(example_ids(rows, examples), examples)

    def _read(self, result: Result) -> tuple[list[Row], Mapping[str, Mapping[str, Any]]]:
        """The scored rows behind a result, and the metrics of its predictions with their settings."""
        whole = read_predictions(self._paths[result.predictions["sha256"]])
        # A part is another task of the same file.
        named = (each for each in (whole, *self.parts(whole)) if each.task == result.benchmark["task"])
        predictions = next(named, whole)
        return scored_rows(predictions.rows), declared_metrics(predictions)


@dataclass(frozen=True, repr=False)
class PredictionFiles(Sequence[Path]):
    """Files of predictions: a sequence of paths, with their rows as a table and methods that evaluate them.

    Args:
        paths: the files.
        captions: finds the captions for `per_example`; None for none.
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

    def _repr_html_(self) -> str:
        """The files with their models and tasks, as a notebook shows them."""
        frame = self.to_pandas().groupby(["file", "model", "benchmark", "task"], sort=False)["id"].count()
        return frame.to_frame("rows").reset_index().to_html(index=False)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows of all files: what each model predicted, with the columns file, model, benchmark and task."""
        import pandas

        found = []
        for path in self.paths:
            predictions = read_predictions(path)
            found += [{"file": path.name, **_about(predictions), **vars(row)} for row in predictions.rows]
        return pandas.DataFrame(found)

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
    """Evaluate files of predictions; the arguments and errors are those of ``compute``.

    Args:
        predictions: path of a file, or of several.
        captions: finds the captions for `Report.per_example`; by default none.
        parts: finds further tasks in the predictions of a file; by default none.
        suites: the tasks over whose scores a mean has a name, by benchmark; by default none.
        options: `ties`, `confidence`, `resamples`, `seed`.
    """
    paths = [Path(path) for path in ([predictions] if isinstance(predictions, str | Path) else predictions)]
    results = compute(paths, parts=parts, **options)
    return Report(results, paths, options.get("ties"), captions, parts, suites)


def _about(predictions: Predictions) -> dict[str, str]:
    return {"model": predictions.model, "benchmark": predictions.benchmark, "task": predictions.task}


def _examples_of_file(path: Path, about: Report, metric: str | None) -> Iterator[dict[str, Any]]:
    predictions = read_predictions(path)
    rows = scored_rows(predictions.rows)
    scored = {row.id for row in rows}
    captions = about.captions(predictions) if about.captions else {}
    for name, settings in declared_metrics(predictions).items():
        if metric not in (None, name):
            continue
        described = {**_about(predictions), "metric": name}
        left_out = {row.id: "missing image" for row in predictions.rows if row.id not in scored}
        if rows:
            examples = examples_of(rows, name, settings, ties=about.ties)
            left_out |= {rows[index].id: why for index, why in examples.left_out.items()}
            for number, index in enumerate(examples.rows.tolist()):
                values = {score: float(column[number]) for score, column in examples.values.items()}
                yield {
                    **described,
                    **_facts(rows[index], captions),
                    "cluster": int(examples.clusters[number]),
                    "example": examples.names[number] if examples.names is not None else "",
                    **{score: value for score, value in values.items() if value == value},
                    "tied": bool(examples.tied[number]),
                    "counts": True,
                    "why": "",
                }
        for row in predictions.rows:
            if row.id in left_out:
                yield {**described, **_facts(row, captions), "counts": False, "why": left_out[row.id]}


def _facts(row: Any, captions: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    facts = {"id": row.id, "config": row.config, "category": row.category, "tags": list(row.tags)}
    if row.id in captions:
        facts["captions"] = list(captions[row.id])
    for name in ("question", "correct", "positive"):
        if hasattr(row, name):
            facts["label" if name != "question" else name] = getattr(row, name)
    return facts
