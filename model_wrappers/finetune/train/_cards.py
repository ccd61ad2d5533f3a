"""The end of a run: the model's folder, its results, and the card that says how it came about."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....hub_datasets.hub.model_cards import write_model_card
from ....metrics.common.storage import write_text
from ....metrics.evaluation import to_markdown
from ....metrics.records.results import Result, code_version, write_results
from ...engine.families import get_family
from .checkpoints import writing
from .validation import RECOGNITION, evaluate

if TYPE_CHECKING:
    from .run import Run

_LOADING = """model = transformers.AutoModel.from_pretrained("{0}")
processor = transformers.AutoProcessor.from_pretrained("{0}")"""


def finish_folder(run: Run, out: Path, facts: Mapping[str, Any], settings: Mapping[str, str] | None) -> None:
    """Save the model of a finished run, score it as anybody would, and write its card. Every process calls it.

    The scores are those of the saved folder, loaded anew: ``vl-assay run`` on it gives the same.
    """
    history, stopping, folder = run.position.history, run.running.stopping, run.folder
    best = stopping.best(history[1:]) + 1 if len(history) > 1 else None
    source = folder / "best" if stopping.score else folder / "model"
    if not stopping.score:
        run.save_model(source)
    with run.processes.raise_on_all_ranks():
        if run.processes.is_main:
            with writing(out):
                for file in source.iterdir():
                    shutil.copy2(file, out / f".{file.name}")
                    os.replace(out / f".{file.name}", out / file.name)
    run.processes.wait()
    name = str(out.resolve())  # a folder, even where it is called like a demo checkpoint
    family = get_family(facts["model"]["family"])
    if hasattr(family, "SAVED_AS"):
        name = family.SAVED_AS.format(name)
        settings = {key: value for key, value in (settings or {}).items() if key != "pretrained"}
    _, results = evaluate(name, run.running.evaluation, folder / "predictions", run.processes, settings=settings)
    with run.processes.raise_on_all_ranks():
        if run.processes.is_main:
            write_results(folder / "results.json", results)
            write_text(out / "README.md", model_card(out, facts, run, results, best))
            if results:
                write_model_card(out / "README.md", results)
            files = sorted(file.name for file in source.iterdir())
            finished = {"steps": run.position.step, "best": best, "history": history, "files": files}
            write_text(folder / "finished.json", json.dumps(finished, indent=1) + "\n")
            for pattern in ("best", "model", "checkpoints", ".best.*", ".model.*"):
                for leftover in folder.glob(pattern):
                    shutil.rmtree(leftover, ignore_errors=True)
    run.processes.wait()


def model_card(out: Path, facts: Mapping[str, Any], run: Run, results: Sequence[Result], best: int | None) -> str:
    """The card of a fine-tuned model, ``README.md``: recipe, data, the way, results.

    Args:
        out: the model's folder, after which it is called.
        facts: what the run was.
        run: the finished run.
        results: of the saved model.
        best: which evaluation the weights are from, where there were any.
    """
    recipe, data, info = facts["recipe"], facts["data"], facts["model"]
    family, name = get_family(info["family"]), out.resolve().name
    library = getattr(family, "LIBRARY", "transformers")
    header = ["---", f"library_name: {library}", "pipeline_tag: zero-shot-image-classification"]
    base = info["checkpoint"].removeprefix("hf-hub:")
    if "/" in base and (library == "transformers" or base != info["checkpoint"]):  # the Hub's ids only
        header.append(f"base_model: {base}")
    header += ["tags:", "- vl-assay", "- compositionality", "---"]
    settings = {key: value for key, value in recipe.items() if key not in ("name", "source", "gaps", "weights")}
    rows = {"losses": ", ".join(f"{key} × {value:g}" for key, value in recipe["weights"].items() if value)}
    rows |= {key.replace("_", " "): _shown(value) for key, value in settings.items() if value or key == "seed"}
    rows["batch size"] = f"{min(recipe['batch_size'], data['captions']):,}"
    rows["warmup steps"] = str(run.warmup)
    rows |= {"precision": facts["precision"], "steps": f"{run.position.step:,} of {run.steps:,}"}
    rows |= {"trained parameters": f"{run.trained:,}", "processes": str(run.processes.world)}
    rows |= {"captions at once": str(run.micro_batch)}
    sections = [
        "\n".join(header),
        f"# {name}",
        f"`{info['name']}` fine-tuned for composition by the recipe `{recipe['name']}` of VL-Assay {code_version()}.",
        f"```python\n{getattr(family, 'LOADING', _LOADING).format(name)}\n```",
        "## Recipe",
        f"After {recipe['source']}. {recipe['gaps']}",
        _table(["setting", "value"], [[key, value] for key, value in rows.items()]),
        "## Data",
        _data(data),
    ]
    if run.position.history:
        sections += ["## On the way", _way(run.position.history, best)]
        if run.running.evaluation.recognise:
            asked = run.running.evaluation
            templates = ", ".join(f"`{template}`" for template in asked.templates)
            sections.append(f"`{RECOGNITION}`: images of `{Path(str(asked.recognise)).name}`, labels in {templates}.")
    if results:
        scored = shlex.quote(getattr(family, "SAVED_AS", "{}").format(name))
        command = f"vl-assay run {scored} {' '.join(run.running.evaluation.benchmarks)}"
        sections += [
            "## Results",
            f"Of the saved model, as `{command}` computes them.",
            to_markdown(list(results)).strip(),
        ]
    return "\n\n".join(sections) + "\n"


def _data(data: Mapping[str, Any]) -> str:
    text = (
        f"`{data['reference']}`: {data['captions']:,} captions of {data['images']:,} images; {data['with_negative']:,} "
        f"captions have hard negatives and {data['with_positive']:,} hard positives"
    )
    text += f"; drawn with {_drawn(data['source'])}" if data["source"] else ""
    text += f"; {data['lost']:,} negatives of the source are true captions and were left out" if data["lost"] else ""
    text += f"; {data['dropped']:,} without a negative were left out" if data["dropped"] else ""
    return f"{text}. SHA-256 of the texts and the images' names: `{data['fingerprint']}`."


def _drawn(source: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}` {json.dumps(value, ensure_ascii=False)}" for name, value in source.items())


def _way(history: Sequence[Mapping[str, Any]], best: int | None) -> str:
    """A table of scores by epoch, in percent; epoch 0 is the model before."""
    columns = [f"epoch {entry['epoch']}{' *' if number == best else ''}" for number, entry in enumerate(history)]
    names = list(history[0]["scores"])
    rows = [[name, *(f"{100 * entry['scores'][name]:.1f} %" for entry in history)] for name in names]
    note = "Epoch 0 is the model before; * are the weights of this folder." if best else "Epoch 0 is the model before."
    return f"{_table(['score', *columns], rows)}\n\n{note}"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
