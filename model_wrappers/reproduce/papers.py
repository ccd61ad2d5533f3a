"""The papers as a whole: what can be reproduced with what is at hand, a page for each paper, and the inventory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...hub_datasets.published.inventory import CANNOT, COMMAND, STATES, Item, all_items, all_papers
from ...hub_datasets.published.tables import Row, Table, all_tables, get_table
from ...metrics.common import documents
from ...metrics.common.documents import Part, simple_table
from ...metrics.common.errors import ModelError, UnknownNameError, VLAssayError
from ...metrics.common.storage import write_text
from ...metrics.records.results import code_version
from ..engine.families import demo_names
from .extras import EXTRAS, AtHand
from .plans import FoundPredictions, find_predictions, plan, rows_named, scan_predictions
from .report import Reproduction, document, parts_of, summary
from .reproduce import compare_rows, ready_tasks, reproduce_statistics, run_row

SCHEMA = "vl-assay/papers"
VERSION = 1
DONE = "done"
INVENTORY_FILE, INDEX_FILE = "inventory.md", "index.md"
_INVENTORY_TEXT = (
    "What becomes of each table and figure of the five papers. *Reproduced here*: computed without weights and images. "
    "*One command*: with weights, images or your own copy of the data. *Cannot be*: for the reason given. DATA is a "
    "folder with your copies of the sources, one folder for each benchmark; WEIGHTS one with weights to be downloaded "
    "by hand; PREDICTIONS one with predictions. `vl-assay reproduce --all --out papers` runs all of it and writes a "
    "page for each paper; with `--offline` only what is there already."
)


@dataclass(frozen=True)
class Outcome:
    """What became of an item.

    Args:
        item: the item.
        state: `DONE`, `COMMAND` or `CANNOT`.
        text: what was found, or the command or reason.
        parts: tables and figures of the page.
        result: the comparison, of a table that was reproduced.
    """

    item: Item
    state: str
    text: str
    parts: Sequence[Part] = ()
    result: Reproduction | None = None


@dataclass(frozen=True)
class Options:
    """How everything is run; see `reproduce_all`."""

    folder: Path
    use: Mapping[str, str]
    weights: Path
    data_dir: Path | None
    offline: bool
    ties: str | None
    confidence: float
    predictions: Sequence[FoundPredictions]
    scoring: Mapping[str, Any] = field(default_factory=dict)


def reproduce_all(
    out: str | Path,
    *,
    use: Mapping[str, str] | None = None,
    predictions: str | Path | None = None,
    data_dir: str | Path | None = None,
    weights: str | Path = ".",
    offline: bool = False,
    ties: str | None = None,
    confidence: float = 0.95,
    **scoring: Any,
) -> list[Outcome]:
    """Reproduce every item of the inventory that can be; writes a page and a JSON file for each paper, and an index.

    What cannot be run says why, and the one command; no failing item stops the others.

    Args:
        out: folder of the pages. Predictions that are made go to ``predictions`` in it.
        use: models to score instead of a row's, by label, in every table that has it, or by table and label:
            ``{"sugarcrepe-6/GPT-4V": "precomputed:gpt-4v-results"}``.
        predictions: a folder with predictions, whose rows are not run.
        data_dir: the user's own copies of the sources, one folder for each benchmark.
        weights, ties, confidence, scoring: as for `reproduce`.
        offline: whether only models, data and predictions that are on this machine are used, without the network.

    Returns:
        An outcome for each item, in the order of the inventory.

    Raises:
        VLAssayError: a label of `use` that no table has, a folder that does not exist, or a full disk.
    """
    folder, wanted = Path(out).expanduser(), dict(use or {})
    _check_labels(wanted)
    found = scan_predictions(Path(predictions).expanduser()) if predictions is not None else []
    data = None if data_dir is None else Path(data_dir).expanduser()
    if data is not None and not data.is_dir():
        raise ModelError(f"there is no folder {data} to take the sources from")
    with without_network() if offline else nullcontext():
        options = Options(
            folder, wanted, Path(weights).expanduser(), data, offline, ties, confidence, found, dict(scoring)
        )
        outcomes = [_outcome(item, options) for item in all_items()]
    _write(outcomes, folder)
    return outcomes


@contextmanager
def without_network() -> Iterator[None]:
    """Let the Hugging Face libraries use their caches alone, and refuse downloads."""
    from datasets import config
    from huggingface_hub import constants

    before = config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _check_labels(use: Mapping[str, str]) -> None:
    for label in use:
        if not any(_labelled(table, {label: ""}) for table in all_tables().values()):
            raise UnknownNameError("row of the papers' tables", label, _all_labels())


def _all_labels() -> list[str]:
    return list(dict.fromkeys(row.name for table in all_tables().values() for row in table.rows if row.run.is_model))


def _labelled(table: Table, use: Mapping[str, str]) -> dict[str, str]:
    """The models that `use` gives to rows of a table, by the row's name."""
    found: dict[str, str] = {}
    for label, model in use.items():
        place, _, rest = label.partition("/")
        if place in all_tables() and place != table.name:
            continue
        found |= dict.fromkeys((row.name for row in rows_named(table, rest if place in all_tables() else label)), model)
    return found


def _outcome(item: Item, options: Options) -> Outcome:
    if item.state == CANNOT:
        return Outcome(item, CANNOT, item.note)
    make = EXTRAS.get((item.paper, item.name))
    try:
        if make is not None:
            hand = AtHand(options.folder, options.data_dir, options.predictions, options.scoring.get("options") or {})
            return Outcome(item, DONE, item.note, make(hand))
        if item.table:
            result = _reproduce_table(get_table(item.table), options)
            return Outcome(item, DONE, summary(result), [*parts_of(result, level=3)], result)
    except VLAssayError as error:
        return Outcome(item, COMMAND, f"`{item.command}`", [f"Not run here: {error}"])
    except Exception as error:  # one item's fault, whatever it is, must not stop the others
        return Outcome(item, COMMAND, f"`{item.command}`", [f"Failed: {type(error).__name__}: {error}"])
    return Outcome(item, COMMAND, f"`{item.command}`", [item.note] if item.note else [])


def _reproduce_table(table: Table, options: Options) -> Reproduction:
    """Compare what can be computed of a table with what is at hand.

    Raises:
        VLAssayError: nothing can; the message says what is missing.
    """
    folder = options.folder / "tables"
    if table.why_not():
        raise ModelError(table.why_not())
    if table.is_statistics:
        task = table.columns[0].task
        ready, lacking = ready_tasks([task], options.data_dir, options.scoring)
        if not ready:
            raise lacking[0]
        return reproduce_statistics(table, folder, options.data_dir, options=options.scoring.get("options"))
    instead = _labelled(table, options.use)
    plans = plan(table, None, instead, options.weights)
    paths = find_predictions(options.predictions, table, table.rows, plans)
    to_run = [row for row in table.rows if row.name not in paths and _is_at_hand(row, instead, options)]
    tasks = dict.fromkeys(task for row in to_run for task in table.tasks(row))
    ready, lacking = ready_tasks(tasks, options.data_dir, options.scoring)
    failed: dict[str, str] = {}
    if ready:
        chosen = plan(table, [row.name for row in to_run], instead, options.weights)
        able = [row for row in to_run if not chosen[row.name].why and set(table.tasks(row)) & set(ready)]
        failed = {name: each.why for name, each in chosen.items() if each.why}
        scoring = {**options.scoring, "data_dir": options.data_dir}
        for row in able:
            folder_of = options.folder / "predictions" / _model_folder(row, instead)
            try:
                paths[row.name] = run_row(table, row, chosen[row.name], folder_of, scoring)
            except VLAssayError as error:  # such as missing images
                failed[row.name] = str(error)
    if not paths:
        raise _nothing_run(table, to_run, lacking, failed)
    not_run = {row.name: "no predictions" for row in table.rows if row.run.is_model and row.name not in paths | failed}
    how = {"ties": options.ties, "confidence": options.confidence}
    return compare_rows(table, paths, folder, failed=failed, not_run=not_run, **how)


def _nothing_run(
    table: Table, rows: Sequence[Row], lacking: Sequence[VLAssayError], failed: Mapping[str, str]
) -> VLAssayError:
    """Why nothing of a table could be run."""
    if failed:
        return ModelError("; ".join(f"{name}: {why}" for name, why in failed.items()))
    if lacking:
        return lacking[0]
    return ModelError(f"neither predictions nor models of {table.name} are here" if not rows else "nothing was run")


def _model_folder(row: Row, instead: Mapping[str, str]) -> str:
    """A folder for the predictions of a model, which rows of several tables share."""
    model = instead.get(row.name, row.run.model)
    settings = "" if row.name in instead else " ".join([row.run.weights, *map("=".join, row.run.settings.items())])
    return "".join(sign if sign.isalnum() or sign in ".-" else "-" for sign in f"{model} {settings}".strip())


def _is_at_hand(row: Row, instead: Mapping[str, str], options: Options) -> bool:
    """Whether the model of a row can be loaded: with the network any that a family loads, else what is stored here."""
    if row.name in instead:
        return True
    run = row.run
    if run.weights:
        return (options.weights / run.weights).is_file()
    if not run.model or not options.offline:
        return bool(run.model)
    return run.model in demo_names() or _is_in_cache(run.model.partition(":")[2])


def _is_in_cache(checkpoint: str) -> bool:
    """Whether a Hub repository was downloaded before; a checkpoint that is none, such as a tag of weights, was not."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(checkpoint, "config.json"), str)
    except HFValidationError:
        return False


def inventory_markdown() -> str:
    """Every table and figure with its state, as ``docs/papers.md`` has it."""
    parts: list[Part] = [_INVENTORY_TEXT]
    for paper, about in all_papers().items():
        items = [item for item in all_items() if item.paper == paper]
        counts = Counter(item.state for item in items)
        rows = [(item.name, item.title, STATES[item.state], _what(item)) for item in items]
        text = ", ".join(f"{counts[state]} {name}" for state, name in STATES.items() if counts[state])
        parts.append(
            simple_table(("", "shows", "state", "command or reason"), rows, title=about.short, text=f"{text}.")
        )
    return documents.to_markdown(parts, "The papers, table by table", level=2)


def _what(item: Item) -> str:
    return "; ".join(filter(None, (f"`{item.command}`" if item.command else "", item.note)))


def _write(outcomes: Sequence[Outcome], folder: Path) -> None:
    """The pages of all papers, their JSON, the index and the inventory."""
    rows = []
    for paper, about in all_papers().items():
        own = [outcome for outcome in outcomes if outcome.item.paper == paper]
        counts = Counter(outcome.state for outcome in own)
        rows.append((about.short, *(str(counts[state]) for state in (DONE, COMMAND, CANNOT))))
        write_text(folder / f"{paper}.md", _page(paper, own))
        write_text(folder / f"{paper}.json", as_json(own) + "\n")
    headings = ("paper", "run", "one command", "cannot be")
    index = simple_table(headings, rows, text="What was run of each paper, and what was not.", numbers=True)
    links = [f"- [{about.short}]({paper}.md)" for paper, about in all_papers().items()]
    pages = "\n".join([*links, f"- [Every table and figure]({INVENTORY_FILE})"])
    write_text(folder / INDEX_FILE, documents.to_markdown([index, pages], "The papers, reproduced", level=2))
    write_text(folder / INVENTORY_FILE, inventory_markdown())


def _page(paper: str, outcomes: Sequence[Outcome]) -> str:
    """The page of a paper: a line for each item, then what was found."""
    names = {DONE: "run", **STATES}
    rows = [(each.item.name, each.item.title, names[each.state], each.text) for each in outcomes]
    pages = [
        documents.to_markdown([simple_table(("", "shows", "state", ""), rows)], all_papers()[paper].title, level=2)
    ]
    for outcome in outcomes:
        if outcome.parts:
            title = f"{outcome.item.name}: {outcome.item.title}"
            text = [outcome.text] if outcome.state == DONE and outcome.result is None and outcome.text else []
            pages.append(documents.to_markdown([*text, *outcome.parts], title, level=3))
    return "\n".join(pages)


def as_json(outcomes: Iterable[Outcome]) -> str:
    """The outcomes as JSON, with the whole comparison of each table."""
    entries = [
        {
            "paper": outcome.item.paper,
            "item": outcome.item.name,
            "title": outcome.item.title,
            "state": outcome.state,
            "text": outcome.text,
            "command": outcome.item.command or None,
            "reproduction": None if outcome.result is None else document(outcome.result),
        }
        for outcome in outcomes
    ]
    content = {"schema": SCHEMA, "version": VERSION, "code": code_version(), "items": entries}
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)


def print_outcomes(outcomes: Iterable[Outcome], folder: Path) -> None:
    """Print a line for each item, by paper, and where the pages are."""
    listed = list(outcomes)
    for paper, about in all_papers().items():
        own = [outcome for outcome in listed if outcome.item.paper == paper]
        rows = [(each.item.name, "run" if each.state == DONE else STATES[each.state], each.text) for each in own]
        documents.print_tables([simple_table(("", "", "result"), rows, title=about.short)])
    counts = Counter(outcome.state for outcome in listed)
    done, command, cannot = counts[DONE], counts[COMMAND], counts[CANNOT]
    documents.print_tables([f"{done} run, {command} with one command, {cannot} cannot be; see {folder / INDEX_FILE}"])


def status_lines(status: Mapping[str, Mapping[str, list[str]]]) -> Iterator[str]:
    """A line for each table, by paper: what it shows, and how many models can be run; see `plans.status`."""
    items = {item.table: item for item in all_items() if item.table and not item.paper.endswith("-supplement")}
    for paper, about in all_papers().items():
        names = [name for name in status if items[name].paper == paper]
        if names:
            yield about.short
            yield from (
                f"  {name:18}{items[name].title}: {_models_line(get_table(name), status[name])}" for name in names
            )
    yield "`vl-assay reproduce TABLE` runs one, `vl-assay reproduce --all --out FOLDER` all that can be; --json names"
    yield "the models."


def _models_line(table: Table, needs: Mapping[str, list[str]]) -> str:
    """How many models of a table run at once, and what the others need."""
    if table.why_not():
        return "not computed"
    if table.is_statistics:
        return "of the dataset"
    whole, (ready, *others) = sum(map(len, needs.values())), needs
    more = [f"{len(needs[need])} need {need}" for need in others if needs[need]]
    return ", ".join([f"{len(needs[ready])} of {whole} models run", *more])
