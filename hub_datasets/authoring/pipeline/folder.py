"""The folder of a new benchmark, and the dataset repository that is built from it.

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
import keyword
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError, StorageError
from ....metrics.common.storage import new_folder, write_text
from ...core import benchmarks
from ...core.build import build_with, data_errors
from ...hub.publish import EVAL_FILE, eval_yaml
from ..audit.report import write_card
from ..data.pairs import Pair, write_pairs
from ..generate.generate import STEPS
from ..generate.prompts import PROMPTS
from ..refine.report import to_markdown
from ..review.agreement import Agreement, cells, remarks

PAIRS_FILE, MADE_FILE, IMAGES_FILE = "pairs.jsonl", "made.json", "images.zip"
SCHEMA = "vl-assay/new-benchmark"
VERSION = 1

_HERE = Path(__file__).parent
_TAGS = ("compositionality", "hard-negatives", "image-text-matching", "vision-language", "benchmark")
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


class Material(NamedTuple):
    """The content of a benchmark's folder.

    Attributes:
        name: the benchmark's name.
        source: where captions and images come from.
        pairs: its rows, at least one, kind by kind; `image` is a name in `images`.
        images: the folder of the images.
        licence: an identifier of the Hub; None where it is unknown.
        copy_images: whether the images go into the folder.
        results: the results of the stages by name.
        audits: the records of the audits before and after the refinement.
        refinement: the refinement's record.
    """

    name: str
    source: str
    pairs: Sequence[Pair]
    images: Path
    licence: str | None
    copy_images: bool
    results: Mapping[str, Mapping[str, Any]]
    audits: tuple[Mapping[str, Any], Mapping[str, Any]]
    refinement: Mapping[str, Any]


def check_name(name: str, target: Path) -> None:
    """Validate the name of a new benchmark and its folder.

    Raises:
        DataError: the name is not a lower-case identifier, or taken.
        StorageError: the target has something that `write_folder` did not write.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name == "authoring":
        raise DataError(f"{name!r} cannot name a benchmark; use small letters, digits and _, as in my_photos")
    ours = Path(benchmarks.__file__).parents[1] / name
    if name in benchmarks.benchmark_names() and not (ours / MADE_FILE).exists():
        raise DataError(f"there is a benchmark {name} already; choose another name")
    if target.exists() and not (target / MADE_FILE).is_file():
        raise StorageError(f"{target} exists and was not written by new-benchmark; choose another name or folder")


def write_folder(material: Material, target: Path) -> None:
    """Write the benchmark's folder, all of it or nothing; an earlier one is replaced.

    Raises:
        DataError: an image cannot be read.
        StorageError: it cannot be written.
    """
    context = _context(material)
    with data_errors(f"the benchmark {target}"), new_folder(target) as new:
        write_pairs(material.pairs, new / PAIRS_FILE)
        if material.copy_images:
            # One file, since packages include the files of a benchmark's folder, but not folders in it.
            with zipfile.ZipFile(new / IMAGES_FILE, "w") as archive:
                for name in sorted(context["images"]):
                    archive.writestr(zipfile.ZipInfo(name), (material.images / name).read_bytes())
        context["pairs_sha256"] = hashlib.sha256((new / PAIRS_FILE).read_bytes()).hexdigest()
        write_text(new / "README.md", _fill("template_card.md", context))
        write_card(new / "README.md", material.audits[1])
        made = {"schema": SCHEMA, "version": VERSION, "source": material.source, "stages": material.results}
        write_text(new / MADE_FILE, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
        write_text(new / "builder.py", _fill("template_builder.py.txt", context))
        # Last, since a folder with it counts as a benchmark.
        write_text(new / "benchmark.py", _fill("template_benchmark.py.txt", context))


def build_repository(folder: Path, out: Path, *, with_images: bool) -> None:
    """Build the dataset repository of a benchmark's folder, wherever that is, with its ``eval.yaml``."""
    module = load_module(folder, "builder")
    builder = getattr(module, _class_name(folder.name))
    card = (folder / "README.md").read_text(encoding="utf-8")
    build_with(builder, folder.name, card, out, module.KINDS, None, {"with_images": with_images})
    text = eval_yaml(out, load_module(folder, "benchmark").BENCHMARK)
    write_text(out / EVAL_FILE, text or "")


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
        "accuracy": _accuracy,
        "tuple": lambda names: ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else ""),
        "tojson": lambda text: json.dumps(text, ensure_ascii=False),
    }
    return environment.get_template(template).render(context)


def _context(material: Material) -> dict[str, Any]:
    """The variables of the templates."""
    review, made = material.results["review"], material.results["generate"]
    before, after = material.audits
    kinds = list(dict.fromkeys(pair.category for pair in material.pairs))
    title = material.name.replace("_", " ").capitalize()
    found = [Agreement(**row) for row in review.get("agreement", ())]
    steps = dict.fromkeys(step for kind in made["made"] for step in STEPS[kind]) if made["by_model"] else ()
    below_chance = [
        name
        for name, scorer in after["scorers"].items()
        if scorer["kind"] == "probe" and scorer["accuracy_interval"][1] < 0.5
    ]
    # The refinement's own report, one level deeper and without its title.
    report = to_markdown(material.refinement, material.name).partition("\n\n")[2].strip()
    return {
        **material._asdict(),
        "title": title,
        "kinds": kinds,
        "class_name": _class_name(material.name),
        "images": {pair.image for pair in material.pairs},
        "images_from": "" if material.copy_images else f"the images of {material.source}, in --data-dir",
        "licence": material.licence or "unknown",
        "front_matter": _front_matter(material, title),
        "counts": [_counts(kind, material.pairs) for kind in kinds],
        "review": review,
        "people": len(review["annotators"]),
        "made": made,
        "rejected": sum(map(Counter, made["rejected"].values()), Counter()),
        "prompts": ", ".join(f"`{step}.md` ({PROMPTS[step].temperature:g})" for step in steps),
        "agreement": cells(found) if found else [],
        "remarks": remarks(found),
        "refinement": re.sub("^## ", "### ", report, flags=re.MULTILINE),
        "before": before,
        "after": after,
        "below_chance": below_chance,
    }


def _front_matter(material: Material, title: str) -> str:
    import yaml

    metadata = {
        "pretty_name": title,
        "license": material.licence or "unknown",
        "task_categories": ["zero-shot-image-classification", "image-text-to-text"],
        "size_categories": [next((name for limit, name in _SIZES if len(material.pairs) < limit), "n>1M")],
        "language_creators": ["machine-generated"],
        "tags": list(_TAGS),
    }
    return yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)


def _counts(kind: str, pairs: Sequence[Pair]) -> tuple[str, int, int, int]:
    """A kind, and its numbers of rows, images and distinct captions."""
    own = [pair for pair in pairs if pair.category == kind]
    captions = {caption for pair in own for caption in (pair.positive, pair.negative)}
    return kind, len(own), len({pair.image for pair in own}), len(captions)


def _accuracy(scorer: Mapping[str, Any]) -> str:
    low, high = scorer["accuracy_interval"]
    return f"{100 * scorer['accuracy']:.1f} ({100 * low:.1f}–{100 * high:.1f})"


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
