"""What a person holds after a comparison: a verdict in a sentence, tables, examples and a plot."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common import documents
from ..common.formatting import interval, p_value, percent, points, words
from ..common.storage import write_text
from ..contract.spec import Examples
from ..records.results import code_version
from ..records.schema import Row
from ..statistics.paired import holm

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

SCHEMA = "vl-assay/comparison"
VERSION = 2

_AVERAGE, _MACRO = _AVERAGES = ("micro average", "macro average")
_COMPACT = ("first, %", "second, %", "difference", "p", "p (Holm)")
_NESTED = ("per_category", "macro", "difference_interval")


@dataclass(frozen=True)
class Difference:
    """How much one score differs between two models on one task.

    Args:
        benchmark, task: what they were evaluated on.
        models: the labels of both.
        metric, score: the metric's name, and the score's among those that it gives.
        higher_is_better: whether the better model has the higher score.
        is_main: whether it is the metric's main score.
        ties: what a tie counts; None where there are none, as in answers.
        left_out: examples that both models scored and the metric does not count, by why.
        unscored: examples that lack their image in some file, and are in no difference.
        seeds: how many versions of the data, such as seeds of its builder, are averaged.
        unused: files of both models that are in no difference of the task: of data that the other model lacks, and runs
            beyond the other's number.
        result: what ``differences.differences`` returns: `difference` is the first less the second; `wins` are the
            examples on which the first model is the better one.
    """

    benchmark: str
    task: str
    models: tuple[str, str]
    metric: str
    score: str
    higher_is_better: bool
    is_main: bool
    ties: str | None
    left_out: dict[str, int]
    unscored: int
    seeds: int
    result: dict[str, Any]
    unused: int = 0

    @property
    def where(self) -> str:
        """The task in words."""
        return f"{self.benchmark} ({self.task})"


class Side(NamedTuple):
    """The examples of a metric for two models, and the rows that they are of."""

    where: dict[str, Any]
    rows: list[Row]
    first: Examples
    second: Examples


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two or more models, pair by pair.

    Args:
        models: their labels, in the order of the files.
        files: name and SHA-256 of each file, by the model's label.
        options: level of the intervals, resamples, permutations, power and seed.
        differences: one for each task, pair of models, metric and score.
    """

    models: list[str]
    files: dict[str, list[dict[str, str]]]
    options: dict[str, Any]
    differences: list[Difference]
    sides: list[Side] = field(default_factory=list)

    @property
    def verdicts(self) -> list[str]:
        """A sentence for each task and pair of models, on the main score of the task's first metric."""
        return [_sentence(each, p, self.options["confidence"]) for each, p in self._tested()]

    @property
    def verdict(self) -> str:
        """The outcome in one sentence."""
        verdicts = self.verdicts
        if len(verdicts) == 1:
            return verdicts[0]
        wins = [_winner(each, p, self.options["confidence"]) for each, p in self._tested()]
        counts = [f"{name} in {wins.count(name)}" for name in self.models if name in wins]
        better = f"Better, of {len(wins)} comparisons: {', '.join(counts)}" if counts else "No model is better"
        return f"{better}; no evidence of a difference in {wins.count(None)}."

    def __repr__(self) -> str:
        return "\n".join(["Comparison:", *(f"  {verdict}" for verdict in self.verdicts)])

    def _repr_html_(self) -> str:
        """The verdict and the tables, as a notebook shows them."""
        return f"<p><strong>{escape(self.verdict)}</strong></p>{documents.to_html(self._tables())}"

    def to_pandas(self) -> pandas.DataFrame:
        """Every number of the tables, a row for each difference and category; fractions, NaN where not known."""
        import pandas

        lines = []
        for each in self.differences:
            about = {"benchmark": each.benchmark, "task": each.task, "first": each.models[0], "second": each.models[1]}
            about |= {"metric": each.metric, "score": each.score, "higher_is_better": each.higher_is_better}
            for name, part in _lines(each):
                low, high = part["difference_interval"] or (None, None)
                facts = {key: value for key, value in part.items() if key not in _NESTED}
                lines.append({**about, "category": name, **facts, "low": low, "high": high})
        return pandas.DataFrame(lines)

    def per_example(self) -> pandas.DataFrame:
        """What both models get on each example: a row for each pair of models, metric and example."""
        import pandas

        lines = []
        for side in self.sides:
            for number, row in enumerate(side.first.rows.tolist()):
                facts = {"id": side.rows[row].id, "category": side.rows[row].category}
                if side.first.names is not None:
                    facts["example"] = side.first.names[number]
                for score, values in side.first.values.items():
                    facts |= {f"{score}1": values[number], f"{score}2": side.second.values[score][number]}
                lines.append({**side.where, **facts})
        return pandas.DataFrame(lines)

    def plot(self) -> Figure:
        """The differences of the main scores with their intervals, over all examples and by category."""
        from matplotlib.figure import Figure

        every = [(each, name, part) for each in self._main() for name, part in _lines(each)]
        shown = [(each, name, part) for each, name, part in every if part["difference"] is not None]
        figure = Figure(figsize=(8, 1.2 + 0.3 * len(shown)), layout="constrained")
        axes = figure.subplots()
        for height, (_, _, part) in enumerate(reversed(shown)):
            low, high = part["difference_interval"] or (part["difference"], part["difference"])
            axes.plot([100 * low, 100 * high], [height, height], color="#0072B2")
            axes.plot(100 * part["difference"], height, "o", color="#0072B2")
        axes.axvline(0, color="black", linewidth=1, linestyle="--")
        axes.set_yticks(range(len(shown)), [f"{each.where}: {name}" for each, name, _ in reversed(shown)])
        axes.set_xlabel("difference, points" if len(self.models) > 2 else " − ".join(self.models) + ", points")
        axes.spines[["top", "right"]].set_visible(False)
        return figure

    def print(self) -> None:
        """Print the verdicts and a table for each score to the terminal."""
        from rich.console import Console
        from rich.markup import escape as as_it_is

        console = Console()
        console.print(f"[bold]{as_it_is(self.verdict)}[/]")
        for sentence in self.verdicts if len(self.verdicts) > 1 else ():
            console.print(f"- {as_it_is(sentence)}")
        documents.print_tables(self._tables())

    def to_json(self) -> str:
        """The comparison as JSON: `schema`, `version`, `code`, `verdict`, and the fields of `Comparison`."""
        document = {
            "schema": SCHEMA,
            "version": VERSION,
            "code": code_version(),
            "verdict": self.verdict,
            "verdicts": self.verdicts,
            "models": self.models,
            "files": self.files,
            "options": self.options,
            "differences": [asdict(each) for each in self.differences],
        }
        return json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"

    def to_markdown(self) -> str:
        """The verdicts, and a table for each score, as Markdown."""
        verdicts = "".join(f"- {verdict}\n" for verdict in self.verdicts if len(self.verdicts) > 1)
        return f"**{self.verdict}**\n\n{verdicts}\n{documents.to_markdown(self._tables())}"

    def write(self, out: str | Path) -> list[Path]:
        """Write ``comparison.json`` and ``comparison.md`` to a folder, each whole or not at all; the files' paths."""
        files = [Path(out) / "comparison.json", Path(out) / "comparison.md"]
        for file, text in zip(files, (self.to_json(), self.to_markdown()), strict=True):
            write_text(file, text)
        return files

    def _tables(self) -> list[documents.Table]:
        return [_table(each, self.options) for each in self.differences]

    def _tested(self) -> list[tuple[Difference, float]]:
        """The differences that verdicts are on, with their p-values corrected for the number of verdicts (Holm)."""
        main = self._main()
        return list(zip(main, holm([each.result["permutation_p_value"] for each in main]).tolist(), strict=True))

    def _main(self) -> list[Difference]:
        """The main score of the first metric of each task and pair."""
        found: dict[tuple[Any, ...], Difference] = {}
        for each in self.differences:
            if each.is_main:
                found.setdefault((each.benchmark, each.task, each.models), each)
        return list(found.values())


def _winner(difference: Difference, p: float, confidence: float) -> str | None:
    """The label of the better model; None where there is no evidence of a difference."""
    gap = difference.result["difference"]
    if p > 1 - confidence or not gap:
        return None
    return difference.models[0 if (gap > 0) == difference.higher_is_better else 1]


def _sentence(difference: Difference, p: float, confidence: float) -> str:
    result = difference.result
    first, second = difference.models
    winner = _winner(difference, p, confidence)
    if winner is None:
        verdict = f"No evidence of a difference between {first} and {second}"
    else:
        verdict = f"{winner} is better than {second if winner == first else first}"
    bounds = result["difference_interval"]
    interval_ = f", {100 * confidence:g} % [{', '.join(points(bound) for bound in bounds)}]" if bounds else ""
    lower = "" if difference.higher_is_better else " (lower is better)"
    text = (
        f"{verdict} on {difference.where}: {words(difference.score)}{lower} "
        f"{points(result['difference'])} points{interval_}, p {_equals(p)}"
    )
    least = result["smallest_detectable_difference"]
    return text + ("." if least is None else f"; smallest detectable {percent(least)}.")


def _equals(p: float) -> str:
    shown = p_value(p)
    return shown if shown.startswith("<") else f"= {shown}"


def _lines(difference: Difference) -> list[tuple[str, dict[str, Any]]]:
    """The categories and the average over all; a set of one category, or of none, has one line."""
    parts = list(difference.result["per_category"].items())
    if len(parts) == 1:
        return parts
    macro = difference.result.get("macro")
    averages = [(_AVERAGE if parts else "all", difference.result), *([(_MACRO, macro)] if macro else [])]
    return [*parts, *averages]


def _table(difference: Difference, options: dict[str, Any]) -> documents.Table:
    """The table of a difference; a terminal shows the columns that the verdict rests on."""
    lines = _lines(difference)
    cells = [_cells(part) for _, part in lines]
    rows = [
        documents.TableRow(name, tuple(each.values()), name in _AVERAGES)
        for (name, _), each in zip(lines, cells, strict=True)
    ]
    columns = tuple(documents.Column(name, ("interval",) if cell.details else ()) for name, cell in cells[0].items())
    table = documents.Table(_title(difference), columns, tuple(rows), _footnote(difference, options))
    both = [documents.Cell("/".join(filter(None, (each["wins"].value, each["losses"].value)))) for each in cells]
    compact = replace(
        table,
        columns=(
            *(replace(each, header=each.header.removesuffix(", %")) for each in columns if each.header in _COMPACT),
            documents.Column("wins/ losses"),
        ),
        rows=tuple(
            replace(row, cells=(*(each[name] for name in _COMPACT), last))
            for row, each, last in zip(rows, cells, both, strict=True)
        ),
    )
    return replace(table, compact=compact)


def _cells(part: dict[str, Any]) -> dict[str, documents.Cell]:
    """The cells of a line by their column, but for its name."""
    least = part["smallest_detectable_difference"]
    texts = {
        "first, %": percent(part["score1"]),
        "second, %": percent(part["score2"]),
        "difference": points(part["difference"]),
        "p": p_value(part["permutation_p_value"]),
        "p (Holm)": p_value(part.get("p_value_holm")),
        "p (McNemar)": p_value(part["mcnemar_p_value"]),
        "detectable": "" if least is None else percent(least),
        "wins": "" if part["wins"] is None else f"{part['wins']:,}",
        "losses": "" if part["losses"] is None else f"{part['losses']:,}",
        "ties of first, %": percent(part["tie_rate1"]),
        "ties of second, %": percent(part["tie_rate2"]),
        "n": f"{part['n']:,}",
    }
    bounds = interval(part["difference_interval"], signed=True)
    return {name: documents.Cell(text, (bounds,) if name == "difference" else ()) for name, text in texts.items()}


def _title(difference: Difference) -> str:
    first, second = difference.models
    lower = "" if difference.higher_is_better else ", lower is better"
    return f"{first} and {second} on {difference.where}: {words(difference.score)} ({difference.metric}{lower})"


def _footnote(difference: Difference, options: dict[str, Any]) -> str:
    """How the numbers were made and what is not in them."""
    cells = {name: cell.value for name, cell in _cells(difference.result).items()}
    text = (
        f"Difference: first less second, in points; intervals {100 * options['confidence']:g} %, bootstrap over "
        "images; p by exchanging the models on whole images, then corrected for the number of categories (Holm)."
    )
    if cells["p (McNemar)"]:
        text += f" Over all {cells['n']} examples McNemar's p is {cells['p (McNemar)']}."
    if cells["detectable"]:
        text += f" A true difference of {cells['detectable']} points would be found in four of five cases."
    if difference.ties and difference.result["tie_rate1"] is not None:
        text += (
            f" Ties count as {difference.ties}; they decide {cells['ties of first, %']} % for the first model and "
            f"{cells['ties of second, %']} % for the second."
        )
    if difference.seeds > 1:
        text += f" Means over {difference.seeds} versions of the data."
    if difference.unused:
        text += f" {difference.unused:,} files are in no difference: the other model has none to compare them with."
    if difference.unscored:
        text += f" {difference.unscored:,} examples lack their image in a file and are in no score."
    for why, count in difference.left_out.items():
        text += f" {count:,} examples are in no score: {why}."
    return text
