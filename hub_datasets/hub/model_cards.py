"""Results in a model's repository: ``model-index`` in the YAML of its card, and ``.eval_results/vl-assay-*.yaml``.

``model-index`` has every score that tables show, with interval, number of examples and options. The files in
``.eval_results`` follow the Hub's newer format, with one value for each task of a dataset's ``eval.yaml`` that asks one
question per row: the accuracy, which is what the task's scorer measures there; the notes have the other figures. Scores
of groups and boxes are left out: the Hub would refuse them, or rank them together with accuracies.

Both have the date of the predictions, and the revision of a dataset that came from the Hub. The Hub's classes accept
any value and date; this module raises an error for a value that is not a finite number from 0 to 1, and for a date that
is not ISO 8601.

Entries written by this module are recognised by the name of their source; all other entries are kept. The front matter
is written with `huggingface_hub`: keys keep their order and values, and comments are lost. The text below it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...metrics.common.errors import DataError
from ...metrics.common.formatting import interval, percent, words
from ...metrics.common.storage import write_atomically
from ...metrics.records.predictions import read_predictions
from ...metrics.records.results import Result, code_version
from ...metrics.results.scores import score_rows, tie_sentence
from ..core.benchmarks import get_card, get_task
from .calls import check_repo_name

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, EvalResultEntry

OWNER = "vl-assay"
SOURCE = "VL-Assay"
FOLDER = ".eval_results"
_KEY = "model-index"
_BOM = "\ufeff"
_HUB_TASKS = {
    "matching": "image-text-matching",
    "text_similarity": "sentence-similarity",
    "retrieval": "image-text-retrieval",
    "detection": "zero-shot-object-detection",
    "vqa": "visual-question-answering",
}
_ROUNDING = 1e-9


def check_card(path: Path, predictions: Sequence[Path] = ()) -> None:
    """Check that the results of predictions can be written into a model's card, before they are computed.

    Raises:
        DataError: the predictions are of several models; the card is a folder, is not called README.md, lies in a
            folder that does not exist, or its metadata cannot be read.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder; name the README.md in it")
    if path.name.lower() != "readme.md":
        raise DataError(f"{path} is not a README.md, which is the name of a model's card")
    if not path.absolute().parent.is_dir():
        raise DataError(f"there is no folder {path.parent}; name the README.md in the folder of the model")
    _metadata(_text(path), path)
    if predictions:
        _refuse_several(read_predictions(file).model for file in predictions)


def _refuse_several(names: Iterable[str]) -> None:
    models = list(dict.fromkeys(names))
    if len(models) != 1:
        raise DataError(f"got results of {len(models)} models ({', '.join(models)}); a model's card has those of one")


def write_model_card(path: str | Path, results: Sequence[Result], *, dataset_owner: str = OWNER) -> list[Path]:
    """Write the results of a model into its repository; writing the same results again changes nothing.

    Entries of an earlier run on the same task and configurations are replaced. Files are written atomically.

    Args:
        path: the model's card, ``README.md``, which is created in its folder if needed. ``.eval_results`` is the folder
            next to it.
        results: the results of one model, from `report`.
        dataset_owner: the owner of the benchmarks' dataset repositories on the Hub, which have the benchmarks' names.

    Returns:
        The files that were written; empty if they had the results already.

    Raises:
        DataError: no results, results of several models or of two files for one task, a value that the format does
            not allow, an invalid owner, or a file that cannot be read.
        StorageError: a file could not be written.
    """
    card = Path(path)
    check_card(card)
    groups = _by_task(results, dataset_owner)
    files = {card: _with_model_index(card, groups, dataset_owner)}
    for benchmark in dict.fromkeys(group[0].benchmark["name"] for group in groups):
        entries = [
            entry
            for group in groups
            if group[0].benchmark["name"] == benchmark
            for entry in eval_result_entries(group, dataset_owner)
        ]
        if entries:
            file = card.parent / FOLDER / f"vl-assay-{benchmark}.yaml"
            files[file] = _with_entries(file, entries)
    changed = {file: content for file, content in files.items() if content != _read(file)}
    for file, content in changed.items():
        write_atomically(file, content)
    return list(changed)


def eval_results(group: Sequence[Result], dataset_owner: str = OWNER) -> list[EvalResult]:
    """Return the ``model-index`` entries for one file's results: the scores of its tables and their macro averages."""
    from huggingface_hub import DatasetCard, EvalResult

    first = group[0]
    benchmark, configs, dataset = first.benchmark, _configs(first), f"{dataset_owner}/{first.benchmark['name']}"
    task = get_task(benchmark["name"], benchmark["task"])
    pretty = DatasetCard(get_card(benchmark["name"])).data.to_dict().get("pretty_name")
    data = {"task": task.name, "configs": configs, "fingerprint": benchmark.get("fingerprint")}
    entries = []
    for result in group:
        for score in [name for shown in result.table_scores for name in (shown, f"macro_{shown}")]:
            if result.scores.get(score) is None:
                continue
            entries.append(
                EvalResult(
                    task_type=_HUB_TASKS[task.task_type],
                    task_name=task.name,
                    dataset_type=dataset,
                    dataset_name=pretty or benchmark["name"],
                    dataset_config=configs[0] if len(configs) == 1 else None,
                    dataset_split=benchmark.get("split"),
                    dataset_revision=_revision(first, dataset),
                    dataset_args=_present(data),
                    metric_type=score,
                    metric_value=_value(result, score, result.scores),
                    metric_name=f"{result.metric}: {words(score)}",
                    metric_config=result.metric,
                    metric_args=_facts(result, score),
                    source_name=_source(first),
                    source_url=f"https://huggingface.co/datasets/{dataset}",
                )
            )
    return entries


def eval_result_entries(group: Sequence[Result], dataset_owner: str = OWNER) -> list[EvalResultEntry]:
    """Return the ``.eval_results`` entries for one file's results: over all configurations, and for each of several.

    In predictions for several configurations, these are the configurations that are also categories. A task that is
    part of another, with several images or without choices has none, as no ``eval.yaml`` measures its scores.
    """
    from huggingface_hub import EvalResultEntry

    name = group[0].benchmark["name"]
    task, configs = get_task(name, group[0].benchmark["task"]), tuple(_configs(group[0]))
    if task.part_of or not task.is_multiple_choice or len(task.images) > 1:
        return []
    order = list(task.metrics)
    result = min(group, key=lambda each: order.index(each.metric) if each.metric in order else len(order))
    dataset, entries = f"{dataset_owner}/{name}", []
    score = result.table_scores[0]  # the main score may differ, such as one that treats yes and no separately
    for own, parts in task.hub_ids(configs).items():
        part = result.scores if parts == configs else result.scores.get("per_category", {}).get(parts[0], {})
        if part.get(score) is None:
            continue
        entries.append(
            EvalResultEntry(
                dataset_id=dataset,
                task_id=own,
                value=_value(result, score, part),
                dataset_revision=_revision(result, dataset),
                date=_date(result),
                source_url=f"https://huggingface.co/datasets/{dataset}",
                source_name=_source(result),
                notes=_notes(result, score, part),
            )
        )
    return entries


def _by_task(results: Sequence[Result], dataset_owner: str) -> list[list[Result]]:
    """Group results by predictions file, and validate the models, files and the owner."""
    _refuse_several(result.model["name"] for result in results)
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        benchmark = result.benchmark
        groups.setdefault((benchmark["name"], benchmark["task"], *_configs(result)), []).append(result)
    for (name, task, *_), group in groups.items():
        if len({result.predictions["sha256"] for result in group}) > 1 or len({r.metric for r in group}) < len(group):
            raise DataError(f"got two files of predictions of {name} ({task}); a model's card has the results of one")
        if group[0].benchmark.get("limit"):
            raise DataError(
                f"the predictions of {name} ({task}) are partial; predict without --limit for a model's card"
            )
        check_repo_name(f"{dataset_owner}/{name}")
    return list(groups.values())


def _with_model_index(card: Path, groups: Sequence[Sequence[Result]], dataset_owner: str) -> bytes:
    """Return the content of the card with the entries in its ``model-index``."""
    from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results

    content = _text(card)
    model = groups[0][0].model["name"]
    index = _metadata(content, card).get(_KEY) or []
    try:
        if index:
            model_index_to_eval_results(index)
        models = [{**entry, "results": list(entry["results"])} for entry in index] or [{"name": model, "results": []}]
        home = next((entry for entry in models if entry["name"] == model), models[0])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(
            f"the model-index of {card} cannot be read ({type(error).__name__}: {error}); correct or remove it"
        ) from error
    for group in groups:
        [entry] = eval_results_to_model_index(model, eval_results(group, dataset_owner))[0]["results"]
        _put(home["results"], entry)
    if models == index:
        return content.encode()
    return _with_key(content, models, card).encode()


def _with_entries(file: Path, entries: Sequence[EvalResultEntry]) -> bytes:
    """Return the content of a file of ``.eval_results`` with the entries in it."""
    import yaml
    from huggingface_hub import eval_result_entries_to_yaml, parse_eval_result_entries

    try:
        old = yaml.safe_load(_text(file)) or []
        if not isinstance(old, list):
            raise TypeError("not a list")
        parse_eval_result_entries(old)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{file} is not a file of evaluation results ({error}); correct or remove it") from error
    new = list(old)
    for entry in eval_result_entries_to_yaml(list(entries)):
        _put(new, entry)
    if new == old:
        return _text(file).encode()
    return yaml.safe_dump(new, sort_keys=False, allow_unicode=True, width=120).encode()


def _metadata(content: str, card: Path) -> dict[Any, Any]:
    """Return the front matter of a card, which may be empty."""
    import yaml
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    match = REGEX_YAML_BLOCK.search(content.removeprefix(_BOM))
    try:
        data = yaml.safe_load(match[2]) if match else None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise DataError(f"the metadata of {card} are not valid YAML ({error}); correct them") from error
    if data is not None and not isinstance(data, dict):
        raise DataError(f"the metadata of {card} are {data!r:.50}, not keys with values; correct or remove them")
    return data or {}


def _with_key(content: str, index: list[dict[str, Any]], card: Path) -> str:
    """Return the card with this ``model-index``; other metadata keep their values, and the text below them stays."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK
    from huggingface_hub.utils import yaml_dump

    bom, text = content[: content.startswith(_BOM)], content.removeprefix(_BOM)
    match = REGEX_YAML_BLOCK.search(text)
    end = "\r\n" if "\r\n" in (match[1] if match else text) else "\n"
    metadata = {**_metadata(content, card), _KEY: index}
    block = yaml_dump(metadata, sort_keys=False, line_break=end)
    if repr(_metadata(f"---\n{block}---\n", card)) != repr(metadata):  # line separators of Unicode in a key
        raise DataError(f"the metadata of {card} have characters that YAML does not give back; replace them")
    if match is None:
        return f"{bom}---{end}{block}---{end}{text}"
    return bom + text[: match.start(2)] + block.removesuffix(end) + text[match.end(2) :]


def _put(entries: list[dict[str, Any]], entry: dict[str, Any]) -> None:
    """Replace the entry of this module for the same task and configurations, or append this one."""

    def key(each: Mapping[str, Any]) -> tuple[Any, ...] | None:
        source = each.get("source")
        if not isinstance(source, Mapping) or not str(source.get("name")).startswith(f"{SOURCE} "):
            return None
        dataset = each["dataset"]
        args = dataset.get("args") if isinstance(dataset.get("args"), Mapping) else {}
        name = str(dataset.get("id") or dataset.get("type")).rpartition("/")[2]
        return name, dataset.get("task_id"), args.get("task"), args.get("configs")

    index = next((index for index, old in enumerate(entries) if key(old) == key(entry)), len(entries))
    entries[index : index + 1] = [entry]


def _configs(result: Result) -> list[str]:
    """Return the configurations of the result's predictions; by default all of its task."""
    benchmark = result.benchmark
    return list(benchmark.get("configs") or get_task(benchmark["name"], benchmark["task"]).configs)


def _source(result: Result) -> str:
    return f"{SOURCE} {code_version()}, predictions sha256:{result.predictions['sha256']}"


def _value(result: Result, score: str, scores: Mapping[str, Any]) -> float:
    """Return a validated score: the Hub's classes accept and show any value."""
    value = scores[score]
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_ROUNDING <= value <= 1 + _ROUNDING:
        name, task = result.benchmark["name"], result.benchmark["task"]
        raise DataError(
            f"{score} of {name} ({task}) is {value!r}; a model's card has finite numbers from 0 to 1: compute it from "
            "the predictions with `vl-assay report`"
        )
    return value


def _date(result: Result) -> str | None:
    """Return the date of the predictions in ISO 8601; None if it is unknown."""
    date = result.run.get("date")
    try:
        if date is not None:
            datetime.fromisoformat(date)
    except (TypeError, ValueError):
        raise DataError(
            f"the predictions {result.predictions['file']} have the date {date!r}; expected ISO 8601, such as "
            "2026-11-25T10:00:00+00:00"
        ) from None
    return date


def _revision(result: Result, dataset: str) -> str | None:
    """Return the dataset's revision on the Hub if the predictions are of its download."""
    hub_entry = result.benchmark.get("hub") or {}
    if hub_entry and not re.fullmatch("[0-9a-f]{40}", str(hub_entry.get("revision"))):
        raise DataError(
            f"the predictions {result.predictions['file']} have the dataset {hub_entry!r:.99}; expected a revision of "
            "40 hexadecimal digits"
        )
    return hub_entry["revision"] if hub_entry.get("repo") == dataset else None


def _facts(result: Result, score: str) -> dict[str, Any]:
    """Return the facts with which a value of ``model-index`` can be understood and computed again."""
    bounds = result.scores.get(f"{score}_interval")
    is_macro = score.startswith("macro_") and score not in result.table_scores
    facts = {
        **result.options,
        "date": _date(result),
        "interval": bounds and list(bounds),
        "n": score_rows(result)[-1].n if is_macro else result.scores["n"],
        "missing": result.missing or None,
        "higher_is_better": None if result.spec.is_higher_better(score) else False,
    }
    return _present(facts)


def _notes(result: Result, score: str, part: Mapping[str, Any]) -> str:
    """Return the facts for which the format has no field, as text."""
    bounds = part.get(f"{score}_interval")
    lower = "" if result.higher_is_better[score] else " (lower is better)"
    facts = [
        f"{words(score)}{lower} by {result.metric}, {percent(part[score])} %",
        f"{100 * result.options['confidence']:g} % interval {interval(bounds)}" if bounds else "",
        f"n = {part['n']:,}" if "n" in part else "",
        f"chance {percent(result.chance[score])} %" if score in result.chance else "",
        tie_sentence(result).rstrip("."),
        f"{result.missing:,} examples lack their image and are in no score" if result.missing else "",
        f"data {result.benchmark['fingerprint']}" if result.benchmark.get("fingerprint") else "",
    ]
    return "; ".join(fact for fact in facts if fact)


def _present(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _read(file: Path) -> bytes | None:
    """Return the file's bytes; None if it does not exist."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror})") from error


def _text(file: Path) -> str:
    try:
        return (_read(file) or b"").decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not UTF-8 ({error}); save it as UTF-8") from error
