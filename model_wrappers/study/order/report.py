"""The report of the study: verdicts, ARO's Tables 3 and 4, what order is worth, and Figure 2, in four formats."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from ....metrics.common.documents import HtmlFigure, Part, Table, Verdict, simple_table, to_page
from ....metrics.common.documents import to_markdown as write_markdown
from ....metrics.common.figures import Bar, as_file, bars_html, colours, legend_html
from ....metrics.common.formatting import interval, percent, points, words
from ....metrics.common.storage import write_atomically, write_text
from .design import BASELINES, CLEANED, IMAGE_SHUFFLES, LABELS, PLAIN, STRONGEST, TEXT_SHUFFLES, baseline
from .findings import SCORES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Retrieval with and without order"
# The rows of the paper's tables.
TABLES = {
    "Table 3, words shuffled": (PLAIN, CLEANED, *TEXT_SHUFFLES),
    "Table 4, parts of the image shuffled": (PLAIN, *IMAGE_SHUFFLES),
}
_RECALLS_AT_1 = SCORES[::2]
_SHORT = dict(zip(SCORES, ("text R@1", "text R@5", "image R@1", "image R@5"), strict=True))
_LONGEST_LABEL = 14


def write_study(found: Mapping[str, Any], folder: Path) -> None:
    """Write ``study.json``, ``study.md``, ``study.html`` and, with matplotlib, ``study.png`` into a folder."""
    write_text(folder / "study.json", json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_text(folder / "study.md", to_markdown(found))
    write_text(folder / "study.html", to_page(TITLE, [*report_parts(found), *_page_figures(found)]))
    with suppress(ModuleNotFoundError):
        write_atomically(folder / "study.png", as_file(plot(found)))


def to_markdown(found: Mapping[str, Any]) -> str:
    """The report of the study's `document` as Markdown."""
    return write_markdown(report_parts(found), TITLE, level=2)


def report_parts(found: Mapping[str, Any]) -> list[Part]:
    """The verdicts, paragraphs and tables of the report."""
    parts: list[Part] = [
        Verdict(verdict_sentence(label, each), is_warning="hardly needed" in each["verdict"].values())
        for label, each in found["models"].items()
    ]
    parts += _paragraphs(found)
    parts += [_scores_table(found, title, names) for title, names in TABLES.items()]
    return [*parts, _drops_table(found), _composition_table(found)]


def verdict_sentence(label: str, model: Mapping[str, Any]) -> str:
    """What the study found of a model, in a sentence or two."""
    clauses = []
    for kind, (name, _) in STRONGEST.items():
        kept = model["kept"][kind]
        share = "no recall to lose" if kept["share"] is None else f"{percent(kept['share'])} % of recall@1"
        bounds = f" [{interval(kept['interval'])}]" if kept["interval"] else ""
        clauses.append(f"with {LABELS[name]} shuffled it keeps {share}{bounds}: {_order_of(kind, model['verdict'])}")
    order = model["order"]
    return (
        f"{label}: {'; '.join(clauses)}. It prefers the true order of words in {percent(order['mean'])} % "
        f"[{interval(order['interval'])}] of five (chance {percent(order['chance'])} %)."
    )


def _order_of(kind: str, verdicts: Mapping[str, str]) -> str:
    if verdicts[kind] == "open":
        return f"whether this retrieval needs the order of {kind} is open"
    return f"the order of {kind} is {verdicts[kind]}"


def _paragraphs(found: Mapping[str, Any]) -> Iterator[str]:
    design = found["design"]
    seeds, order_seeds = len(design["seeds"]), len(design["order_seeds"])
    yield (
        f"Data: {design['dataset']}, {found['images']:,} images"
        + (f", at most {design['limit']:,} examples of each task: a quick look. " if design["limit"] else ". ")
        + f"Each shuffle is drawn with {seeds} seed{'s' * (seeds > 1)}, those of the order task with {order_seeds}: "
        "mean ± standard deviation over seeds. Intervals: 95 %, over images, for these seeds."
    )
    yield (
        'Order is "hardly needed" where the interval of the share of recall@1 that is kept (mean of both directions) '
        'lies above two thirds, "needed" below a third, "needed in part" between; else it is open. A model whose '
        "retrieval hardly falls without order does not need order: that it retrieves well says nothing of composition."
    )


def _scores_table(found: Mapping[str, Any], title: str, names: tuple[str, ...]) -> Table:
    rows: list[list[str] | None] = []
    for label, model in found["models"].items():
        rows.append(None)
        for name in names:
            scores = model["conditions"][name]["scores"]
            rows.append([LABELS[name], label, *(mean_and_deviation(scores[score]) for score in SCORES)])
    return simple_table(["shuffled", "model", *_SHORT.values()], rows, title=f"ARO, {title} (%)", numbers=True)


def mean_and_deviation(score: Mapping[str, Any]) -> str:
    """``"71.0 ± 0.6"`` in percent, without the deviation where one seed was drawn."""
    return percent(score["mean"]) + ("" if score["std"] is None else f" ± {percent(score['std'])}")


def _drops_table(found: Mapping[str, Any]) -> Table:
    rows: list[list[str] | None] = []
    for label, model in found["models"].items():
        for shuffles in BASELINES.values():
            rows.append(None)
            for name in shuffles:
                scores = model["conditions"][name]["scores"]
                cells = [f"{points(scores[s]['drop'])} [{interval(scores[s]['drop_interval'], True)}]" for s in SCORES]
                rows.append([LABELS[name], label, *cells])
    return simple_table(
        ["shuffled", "model", *_SHORT.values()],
        rows,
        title="How much recall falls without order, points",
        note="Positive where order helps. Paired: each query, its mean over seeds, with itself; shuffles of words with "
        "cleaned captions, those of images with plain ones.",
        numbers=True,
    )


def _composition_table(found: Mapping[str, Any]) -> Table:
    models = found["models"].values()
    cells = [f"{mean_and_deviation(each['order'])} [{interval(each['order']['interval'])}]" for each in models]
    rows = [[f"order, {found['design']['dataset']}", percent(next(iter(models))["order"]["chance"]), *cells]]
    for same in zip(*(each["composition"] for each in models), strict=True):
        first = same[0]
        chance = percent(first["chance"])
        cells = [
            percent(each["value"]) + (f" [{interval(each['interval'])}]" if each["interval"] else "") for each in same
        ]
        rows.append([f"{first['task']}, {words(first['score'])}", chance, *cells])
        rows += [
            [f"{first['task']}, {name}", chance, *(percent(each["per_category"].get(name)) for each in same)]
            for name in first["per_category"]
        ]
    title = "Composition of the same models (%)"
    return simple_table(["test", "chance", *found["models"]], rows, title=title, numbers=True)


def _page_figures(found: Mapping[str, Any]) -> Iterator[Part]:
    """Figure 2 for a page: recall@1 in both directions under each condition."""
    colour = colours(list(found["models"]))
    yield HtmlFigure(legend_html(colour), "Retrieval without access to order (Figure 2)")
    for score in _RECALLS_AT_1:
        bars: dict[str, list[Bar]] = {}
        for name in (PLAIN, *TEXT_SHUFFLES, *IMAGE_SHUFFLES):
            for label, model in found["models"].items():
                bars.setdefault(LABELS[name], []).append(
                    _bar(label, model["conditions"][name]["scores"][score], colour)
                )
        yield HtmlFigure(bars_html(bars, (0.0, 100.0), {}), words(score), "By what is shuffled; intervals over images.")


def _bar(label: str, score: Mapping[str, Any], colour: Mapping[str, str]) -> Bar:
    text = f"{mean_and_deviation(score)} %"
    low, high = (100 * bound for bound in score["interval"])
    return Bar(colour[label], 100 * score["mean"], low, high, text, f"{label}: {text} [{interval(score['interval'])}]")


def plot(found: Mapping[str, Any]) -> Figure:
    """Figure 2: recall@1 with order, a dashed line, and without, points with the deviation over seeds.

    A row of panels for each direction; words on the left, parts of the image on the right.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.5), layout="constrained")
    colour = colours(list(found["models"]))
    kinds = {"order of words": TEXT_SHUFFLES, "order of the image's parts": IMAGE_SHUFFLES}
    panels = figure.subplots(2, 2, sharex="col", sharey="row", width_ratios=[len(each) for each in kinds.values()])
    for line, score in zip(panels, _RECALLS_AT_1, strict=True):
        for axes, (kind, shuffles) in zip(line, kinds.items(), strict=True):
            _draw(axes, found["models"], list(shuffles), score, colour)
            axes.set_title(f"{words(score)} without the {kind}", fontsize="medium")
        line[0].set(ylabel="%", ylim=(0, 102))
    panels[0, 1].legend(frameon=False, fontsize="small", loc="lower left")
    return figure


def _draw(axes: Any, models: Mapping[str, Any], shuffles: list[str], score: str, colour: Mapping[str, str]) -> None:
    for number, (label, model) in enumerate(models.items()):
        conditions = model["conditions"]
        with_order = conditions[baseline(shuffles[0])]["scores"][score]["mean"]
        axes.axhline(100 * with_order, color=colour[label], linestyle="--", linewidth=1, label=f"{label}, in order")
        without = [conditions[name]["scores"][score] for name in shuffles]
        axes.errorbar(
            [place + 0.12 * (number - (len(models) - 1) / 2) for place in range(len(shuffles))],
            [100 * each["mean"] for each in without],
            yerr=[100 * (each["std"] or 0.0) for each in without],
            fmt="o", color=colour[label], capsize=3, label=label,
        )  # fmt: skip
    axes.set_xticks(range(len(shuffles)), [fill(LABELS[name], _LONGEST_LABEL) for name in shuffles], fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
