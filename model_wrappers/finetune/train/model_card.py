"""The card of a fine-tuned model: recipe, data, validation during training, results."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.documents import Part, Table, bullets, simple_table
from ....metrics.common.documents import to_markdown as write_markdown
from ....metrics.common.formatting import percent
from ....metrics.records.results import Result, code_version
from ....metrics.results.scores import by_result, long_table
from ....metrics.results.tables import summary_line, to_markdown
from ...engine.families import get_family

_LOADING = """model = transformers.AutoModel.from_pretrained("{0}")
processor = transformers.AutoProcessor.from_pretrained("{0}")"""
EPOCH_0 = "Epoch 0 is the model before training"


def model_card(
    out: Path,
    facts: Mapping[str, Any],
    details: Mapping[str, str],
    history: Sequence[Mapping[str, Any]],
    results: Sequence[Result],
) -> str:
    """The card of a fine-tuned model, ``README.md``.

    Args:
        out: the model's folder, whose name is the model's.
        facts: model, recipe, data and evaluated benchmarks of the run.
        details: further rows of the table of settings.
        history: scores by epoch.
        results: of the saved model.
    """
    recipe, info = facts["recipe"], facts["model"]
    family, name = get_family(info["family"]), out.resolve().name
    library = getattr(family, "LIBRARY", "transformers")
    header = ["---", f"library_name: {library}", "pipeline_tag: zero-shot-image-classification"]
    origin = f"The architecture of `{info['name']}`, trained for composition from random weights"
    if not recipe["random_start"]:
        origin = f"`{info['name']}` fine-tuned for composition"
        base = info["checkpoint"].removeprefix("hf-hub:")
        if "/" in base and (library == "transformers" or base != info["checkpoint"]):  # it is on the Hub
            header.append(f"base_model: {base}")
    header += ["tags:", "- vl-assay", "- compositionality", "---"]
    sections: list[Part] = [
        "\n".join(header),
        f"# {name}",
        f"{origin} by the recipe `{recipe['name']}` of VL-Assay {code_version()}.",
        f"```python\n{getattr(family, 'LOADING', _LOADING).format(name)}\n```",
        "## Recipe",
        f"After {recipe['source']}. {recipe['gaps']}",
        simple_table(["setting", "value"], [*_settings(recipe, facts["data"], details).items()], numbers=True),
        "## Data",
        _data(facts["data"]),
    ]
    if history:
        sections += ["## Validation during training", history_table(history), f"{EPOCH_0}."]
    if results:
        saved = shlex.quote(getattr(family, "SAVED_AS", "{}").format(name))
        command = f"vl-assay run {saved} {' '.join(facts['evaluation'])}"
        sections += [
            "## Results",
            f"Of the saved model, as `{command}` computes them.",
            *bullets([summary_line(rows) for rows in by_result(long_table(results))]),
            to_markdown(list(results)).strip(),
        ]
    return write_markdown(sections)


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
    text += f"; {data['dropped']:,} without a negative were left out" if data["dropped"] else ""
    return f"{text}. SHA-256 of the texts and the images' names: `{data['fingerprint']}`."


def history_table(history: Sequence[Mapping[str, Any]], title: str = "") -> Table:
    """Return the table of the scores by epoch, in percent."""
    epochs = [f"epoch {entry['epoch']}" for entry in history]
    rows = [[name, *(f"{percent(entry['scores'][name])} %" for entry in history)] for name in history[0]["scores"]]
    return simple_table(["score", *epochs], rows, title=title, numbers=True)
