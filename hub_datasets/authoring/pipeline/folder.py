"""The folder of a new benchmark of captions, and the dataset repository that is built from it.

The folder has:

```
pairs.jsonl    the rows, as `pairs.read_pairs` reads them; `image` is the name of a file
images.zip     the images by these names, if they may be passed on
builder.py     the builder, which reads both
benchmark.py   how rows are scored
README.md      the card, with the audit
audit.json     the audit's figures
made.json      the results of all stages
```
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.storage import new_folder, write_text
from ...core import benchmarks
from ...core.build import build, data_errors
from ..audit.report import accuracy, write_card
from ..data.made import PAIRS_FILE
from ..data.pairs import Pair, write_pairs
from ..generate.prompts import PROMPTS, STEPS
from ..refine.report import to_markdown
from ..review.agreement import AnnotatorAgreement, agreement_cells
from .settings import MADE_FILE, Settings

IMAGES_FILE = "images.zip"
_TAGS = ("compositionality", "hard-negatives", "image-text-matching", "vision-language", "benchmark")
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def write_folder(settings: Settings, pairs: Sequence[Pair], records: Mapping[str, Any]) -> None:
    """Write the benchmark's folder, all of it or nothing; an earlier one is replaced.

    Args:
        settings: the settings.
        pairs: its rows, at least one, kind by kind; `image` is a name in the folder of the stage of captions.
        records: `results` of the stages by name; `before` and `after`, the audits; and the one of the `refinement`.

    Raises:
        DataError: an image cannot be read.
        StorageError: it cannot be written.
    """
    source = settings.public_source
    kinds = dict.fromkeys(pair.category for pair in pairs)
    images_from = "" if settings.copy_images else f"the images of {source}, in --data-dir"
    names = {
        "name": settings.name,
        "title": _title(settings),
        "class_name": "".join(word.capitalize() for word in settings.name.split("_")),
        "kinds": ", ".join(f'"{kind}"' for kind in kinds) + ("," if len(kinds) == 1 else ""),
        "images_from": json.dumps(images_from, ensure_ascii=False),
    }
    with data_errors(f"the benchmark {settings.folder}"), new_folder(settings.folder) as new:
        write_pairs(pairs, new / PAIRS_FILE)
        if settings.copy_images:
            # One file, since packages include the files of a benchmark's folder, but not folders in it.
            with zipfile.ZipFile(new / IMAGES_FILE, "w") as archive:
                for name in sorted({pair.image for pair in pairs}):
                    archive.writestr(zipfile.ZipInfo(name), (settings.images / name).read_bytes())
        write_text(new / "README.md", _card(settings, source, pairs, records))
        write_card(new / "README.md", records["after"])
        record = {"schema": "vl-assay/new-benchmark", "version": 1, "source": source, "stages": records["results"]}
        write_text(new / MADE_FILE, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        sha256 = hashlib.sha256((new / PAIRS_FILE).read_bytes()).hexdigest()
        write_text(new / "builder.py", _render("template_builder.txt", sha256=sha256, **names))
        # Last, since a folder with it counts as a benchmark.
        write_text(new / "benchmark.py", _render("template_benchmark.txt", **names))


def build_repository(settings: Settings) -> None:
    """Build the dataset repository of a benchmark's folder, wherever that is."""
    name = benchmarks.adopt(str(settings.folder.resolve()))
    build(name, settings.repository, options={"with_images": settings.copy_images})


def _title(settings: Settings) -> str:
    return settings.name.replace("_", " ").capitalize()


def _card(settings: Settings, source: str, pairs: Sequence[Pair], records: Mapping[str, Any]) -> str:
    """Return the card, without the audit."""
    import yaml

    generated, scorers = records["results"]["generate"], records["after"]["scorers"]
    agreements = [AnnotatorAgreement(**row) for row in records["results"]["review"].get("agreement", ())]
    kinds = generated["made"] if generated["by_model"] else ()
    steps = dict.fromkeys(step for kind in kinds for step in STEPS[kind])
    metadata = {
        "pretty_name": _title(settings),
        "license": settings.licence or "unknown",
        "task_categories": ["zero-shot-image-classification", "image-text-to-text"],
        "size_categories": [next((name for limit, name in _SIZES if len(pairs) < limit), "n>1M")],
        "language_creators": ["machine-generated"],
        "tags": list(_TAGS),
    }
    # The refinement's own report, one level deeper and without its title.
    refinement = to_markdown(records["refinement"], settings.name).partition("\n\n")[2].strip()
    context = {
        "settings": settings,
        "source": source,
        "pairs": pairs,
        "title": _title(settings),
        "images": {pair.image for pair in pairs},
        "licence": settings.licence or "unknown",
        "front_matter": yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True),
        "counts": _counts(pairs),
        "rejected": sum(map(Counter, generated["rejected"].values()), Counter()),
        "prompts": ", ".join(f"`{step}` ({PROMPTS[step].temperature:g})" for step in steps),
        "agreement": agreement_cells(agreements) if agreements else [],
        "refinement": re.sub("^## ", "### ", refinement, flags=re.MULTILINE),
        "below_chance": [
            name
            for name, scorer in scorers.items()
            if scorer["kind"] == "probe" and scorer["accuracy_interval"][1] < 0.5
        ],
    }
    return _render("template_card.md", **{**records, **context})


def _render(template: str, **context: Any) -> str:
    """Return a template of this folder, filled in."""
    import jinja2

    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "number": "{:,}".format,
        "listed": lambda numbers: ", ".join(f"{number:,} {name}" for name, number in numbers.items()),
        "words": lambda name: name.replace("_", " "),
        # A text from outside as one line of Markdown.
        "plain": lambda text: " ".join(text.replace("|", "\\|").replace("<", "&lt;").split()),
        "accuracy": accuracy,
    }
    return environment.from_string(Path(__file__).with_name(template).read_text(encoding="utf-8")).render(context)


def _counts(pairs: Sequence[Pair]) -> list[tuple[str, int, int, int]]:
    """Return the numbers of rows, images and distinct captions of each kind."""
    rows = []
    for kind in dict.fromkeys(pair.category for pair in pairs):
        of_kind = [pair for pair in pairs if pair.category == kind]
        captions = {caption for pair in of_kind for caption in (pair.positive, pair.negative)}
        rows.append((kind, len(of_kind), len({pair.image for pair in of_kind}), len(captions)))
    return rows
