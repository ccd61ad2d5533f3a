"""The card of a fine-tuned model: recipe, data, validation during training, results."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.documents import Part, Table, simple_table
from ....metrics.common.documents import to_markdown as write_markdown
from ....metrics.common.formatting import percent
from ....metrics.evaluation import to_markdown
from ....metrics.records.results import Result, code_version
from ...engine.families import get_family
from .validation import RECOGNITION, Evaluation

_LOADING = """model = transformers.AutoModel.from_pretrained("{0}")
processor = transformers.AutoProcessor.from_pretrained("{0}")"""
EPOCH_0 = "Epoch 0 is the model before training"


def model_card(
    out: Path,
    facts: Mapping[str, Any],
    details: Mapping[str, str],
    history: Sequence[Mapping[str, Any]],
    best: int | None,
    evaluation: Evaluation,
    results: Sequence[Result],
) -> str:
    """The card of a fine-tuned model, ``README.md``.

    Args:
        out: the model's folder, whose name is the model's.
        facts: model, recipe and data of the run.
        details: further rows of the table of settings.
        history: scores by epoch.
        best: the index of the evaluation whose weights were saved, None without evaluations.
        evaluation: what was measured.
        results: of the saved model.
    """
    recipe, info = facts["recipe"], facts["model"]
    family, name = get_family(info["family"]), out.resolve().name
    library = getattr(family, "LIBRARY", "transformers")
    header = ["---", f"library_name: {library}", "pipeline_tag: zero-shot-image-classification"]
    base = info["checkpoint"].removeprefix("hf-hub:")
    is_on_hub = "/" in base and (library == "transformers" or base != info["checkpoint"])
    if is_on_hub and not recipe["random_start"]:  # whose weights are not those of the base
        header.append(f"base_model: {base}")
    header += ["tags:", "- vl-assay", "- compositionality", "---"]
    sections: list[Part] = [
        "\n".join(header),
        f"# {name}",
        f"{_origin(info['name'], recipe)} by the recipe `{recipe['name']}` of VL-Assay {code_version()}.",
        f"```python\n{getattr(family, 'LOADING', _LOADING).format(name)}\n```",
        "## Recipe",
        f"After {recipe['source']}. {recipe['gaps']}",
        simple_table(["setting", "value"], [*_settings(recipe, facts["data"], details).items()], numbers=True),
        "## Data",
        _data(facts["data"]),
    ]
    if history:
        note = f"{EPOCH_0}; * marks the weights of this folder." if best else f"{EPOCH_0}."
        sections += ["## Validation during training", history_table(history, best), note]
        if evaluation.recognise:
            templates = ", ".join(f"`{template}`" for template in evaluation.templates)
            images = Path(str(evaluation.recognise)).name
            sections.append(f"`{RECOGNITION}`: images of `{images}`, labels in {templates}.")
    if results:
        saved = shlex.quote(getattr(family, "SAVED_AS", "{}").format(name))
        command = f"vl-assay run {saved} {' '.join(evaluation.benchmarks)}"
        sections += [
            "## Results",
            f"Of the saved model, as `{command}` computes them.",
            to_markdown(list(results)).strip(),
        ]
    return write_markdown(sections)


def _origin(name: str, recipe: Mapping[str, Any]) -> str:
    if recipe["random_start"]:
        return f"The architecture of `{name}`, trained for composition from random weights"
    return f"`{name}` fine-tuned for composition"


def _settings(recipe: Mapping[str, Any], data: Mapping[str, Any], details: Mapping[str, str]) -> dict[str, str]:
    rows = {"losses": ", ".join(f"{key} × {value:g}" for key, value in recipe["weights"].items() if value)}
    for key, value in recipe.items():
        if key not in ("name", "source", "gaps", "weights") and (value or key == "seed"):
            rows[key.replace("_", " ")] = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return rows | {"batch size": f"{min(recipe['batch_size'], data['captions']):,}"} | dict(details)


def _data(data: Mapping[str, Any]) -> str:
    text = (
        f"`{data['reference']}`: {data['captions']:,} captions of {data['images']:,} images; {data['with_negative']:,} "
        f"captions have hard negatives and {data['with_positive']:,} hard positives"
    )
    if data["source"]:
        source = data["source"].items()
        text += f"; read with {', '.join(f'`{key}` {json.dumps(value, ensure_ascii=False)}' for key, value in source)}"
    text += f"; {data['lost']:,} negatives of the source are captions of the image, left out" if data["lost"] else ""
    text += f"; {data['refined']:,} negatives were left out by adversarial refinement" if data["refined"] else ""
    text += f"; {data['dropped']:,} without a negative were left out" if data["dropped"] else ""
    return f"{text}. SHA-256 of the texts and the images' names: `{data['fingerprint']}`."


def history_table(history: Sequence[Mapping[str, Any]], best: int | None = None, title: str = "") -> Table:
    """Scores by epoch, in percent; * marks the one whose weights were saved."""
    epochs = [f"epoch {entry['epoch']}{' *' if index == best else ''}" for index, entry in enumerate(history)]
    rows = [[name, *(f"{percent(entry['scores'][name])} %" for entry in history)] for name in history[0]["scores"]]
    return simple_table(["score", *epochs], rows, title=title, numbers=True)
