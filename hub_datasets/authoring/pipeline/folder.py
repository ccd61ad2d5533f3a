"""A new benchmark: its settings, its folder, and the dataset repository that is built from it.

The folder has:

```
pairs.jsonl    the rows, as `pairs.read_pairs` reads them; `image` is the name of a file
images.zip     the images by these names, if they may be passed on
builder.py     the dataset script, which reads both
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
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ....metrics.common.storage import new_folder, write_text
from ...chat.client import KEY_VARIABLE
from ...core import benchmarks
from ...core.build import build_with, data_errors
from ..audit.report import accuracy, write_card
from ..data.pairs import Pair, write_pairs
from ..generate.checks import NEGATIVE_KINDS
from ..generate.prompt_sets import open_prompts
from ..refine.report import to_markdown
from ..review.agreement import Agreement, cells, remarks

PAIRS_FILE, MADE_FILE, IMAGES_FILE = "pairs.jsonl", "made.json", "images.zip"
IMAGES, REPOSITORY = "images", "repository"
# With fewer pairs the interval of an accuracy of 50 % is wider than 18 points on each side.
FEWEST_PAIRS = 30
SCHEMA = "vl-assay/new-benchmark"
VERSION = 1

_HERE = Path(__file__).parent
_TAGS = ("compositionality", "hard-negatives", "image-text-matching", "vision-language", "benchmark")
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


@dataclass(frozen=True)
class Settings:
    """The settings of a new benchmark: the options of ``vl-assay new-benchmark``, whose help explains them.

    Args:
        reading: further arguments of `sources.read_captions`: columns, split, limit, data_dir.
        rules: whether candidates are made by rule, not by a model.
        model, base_url, key_variable: arguments of `endpoint.open_model`.
        prompts: ``"json"`` or ``"paper"``, see `generate.generate`.
        asking: further arguments of `generate.generate` that do not change its result: concurrency, per_minute.
        review: whether people judge the candidates.
        scorers: some of ``ngrams.BLIND_SCORERS``.
        fewest_pairs: kinds of which the refinement keeps fewer pairs are left out.
    """

    name: str
    source: str
    work: Path
    reading: Mapping[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = NEGATIVE_KINDS
    rules: bool = False
    model: str | None = None
    base_url: str | None = None
    key_variable: str = KEY_VARIABLE
    prompts: str = "json"
    each: int = 1
    asking: Mapping[str, Any] = field(default_factory=dict)
    review: bool = True
    annotators: tuple[str, ...] = ()
    scorers: tuple[str, ...] = ()
    learned: int = 3
    grid: int = 100
    max_blind_accuracy: float = 0.55
    seed: int = 0
    into: Path | None = None
    licence: str | None = None
    copy_images: bool = False
    fewest_pairs: int = FEWEST_PAIRS

    @property
    def folder(self) -> Path:
        """The benchmark's folder."""
        return (self.into or self.work) / self.name

    @property
    def repository(self) -> Path:
        """The folder of the dataset repository."""
        return self.work / REPOSITORY


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
    context = _context(settings, pairs, records)
    with data_errors(f"the benchmark {settings.folder}"), new_folder(settings.folder) as new:
        write_pairs(pairs, new / PAIRS_FILE)
        if settings.copy_images:
            # One file, since packages include the files of a benchmark's folder, but not folders in it.
            with zipfile.ZipFile(new / IMAGES_FILE, "w") as archive:
                for name in sorted(context["images"]):
                    content = (settings.work / "captions" / IMAGES / name).read_bytes()
                    archive.writestr(zipfile.ZipInfo(name), content)
        context["pairs_sha256"] = hashlib.sha256((new / PAIRS_FILE).read_bytes()).hexdigest()
        write_text(new / "README.md", _fill("template_card.md", context))
        write_card(new / "README.md", records["after"])
        made = {"schema": SCHEMA, "version": VERSION, "source": context["source"], "stages": records["results"]}
        write_text(new / MADE_FILE, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
        write_text(new / "builder.py", _fill("template_builder.py.txt", context))
        # Last, since a folder with it counts as a benchmark.
        write_text(new / "benchmark.py", _fill("template_benchmark.py.txt", context))


def build_repository(settings: Settings) -> None:
    """Build the dataset repository of a benchmark's folder, wherever that is."""
    folder, out = settings.folder, settings.repository
    module = load_module(folder, "builder")
    builder = getattr(module, _class_name(folder.name))
    card = (folder / "README.md").read_text(encoding="utf-8")
    build_with(builder, folder.name, card, out, module.KINDS, None, {"with_images": settings.copy_images})


def load_module(folder: Path, stem: str) -> ModuleType:
    """Import a module of a benchmark's folder as if that were one of ours, without writing compiled code there."""
    path = folder / f"{stem}.py"
    # Under a name of its own, so that a later import of a benchmark of ours is not affected.
    module = ModuleType(f"{__name__}_{stem}")
    module.__package__ = f"{benchmarks.__name__.rsplit('.', 2)[0]}.{folder.name}"
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
    return module


def _fill(template: str, context: Mapping[str, Any]) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "number": "{:,}".format,
        "listed": lambda numbers: ", ".join(f"{number:,} {name}" for name, number in numbers.items()),
        "words": lambda name: name.replace("_", " "),
        # A text from outside as one line of Markdown.
        "plain": lambda text: " ".join(text.replace("|", "\\|").replace("<", "&lt;").split()),
        "accuracy": accuracy,
        "tuple": lambda names: ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else ""),
        "tojson": lambda text: json.dumps(text, ensure_ascii=False),
    }
    return environment.get_template(template).render(context)


def _context(settings: Settings, pairs: Sequence[Pair], records: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of the templates."""
    import yaml

    made = records["results"]["generate"]
    kinds: dict[str, list[Pair]] = {}
    for pair in pairs:
        kinds.setdefault(pair.category, []).append(pair)
    title = settings.name.replace("_", " ").capitalize()
    path = Path(settings.source).expanduser()
    is_ours = settings.source.partition("/")[0] in benchmarks.benchmark_names()
    # Of a file or folder only its name.
    source = path.resolve().name if not is_ours and path.exists() else settings.source
    found = [Agreement(**row) for row in records["results"]["review"].get("agreement", ())]
    prompts = open_prompts(settings.prompts)
    steps = dict.fromkeys(step for kind in made["made"] for step in prompts.steps(kind)) if made["by_model"] else ()
    metadata = {
        "pretty_name": title,
        "license": settings.licence or "unknown",
        "task_categories": ["zero-shot-image-classification", "image-text-to-text"],
        "size_categories": [next((name for limit, name in _SIZES if len(pairs) < limit), "n>1M")],
        "language_creators": ["machine-generated"],
        "tags": list(_TAGS),
    }
    # The refinement's own report, one level deeper and without its title.
    report = to_markdown(records["refinement"], settings.name).partition("\n\n")[2].strip()
    return {
        **records,
        "settings": settings,
        "source": source,
        "pairs": pairs,
        "title": title,
        "kinds": list(kinds),
        "class_name": _class_name(settings.name),
        "images": {pair.image for pair in pairs},
        "images_from": "" if settings.copy_images else f"the images of {source}, in --data-dir",
        "licence": settings.licence or "unknown",
        "front_matter": yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True),
        "counts": [
            (
                kind,
                len(own),
                len({pair.image for pair in own}),
                len({caption for pair in own for caption in (pair.positive, pair.negative)}),
            )
            for kind, own in kinds.items()
        ],
        "rejected": sum(map(Counter, made["rejected"].values()), Counter()),
        "prompts": ", ".join(f"`{step}` ({prompts.prompt(step).temperature:g})" for step in steps),
        "agreement": cells(found) if found else [],
        "remarks": remarks(found),
        "refinement": re.sub("^## ", "### ", report, flags=re.MULTILINE),
        "below_chance": [
            name
            for name, scorer in records["after"]["scorers"].items()
            if scorer["kind"] == "probe" and scorer["accuracy_interval"][1] < 0.5
        ],
    }


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
