"""The folder of a new benchmark: its rows and images, builder, tasks and card; and the repository that is built of it.

```
pairs.jsonl    the rows, as `pairs.read_pairs` reads them; `image` is the name of a file
images.zip     the images by these names, where they may be passed on
builder.py     the dataset script, which reads both
benchmark.py   how rows are scored
README.md      the card, with the audit
audit.json     the figures of the audit
made.json      how it was made: what each stage told
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
from string import Template
from types import ModuleType
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError, StorageError
from ....metrics.common.storage import new_folder, write_text
from ...core import benchmarks as _benchmarks
from ...core import build as _repository
from ...hub import publish as _publishing
from ..audit.report import write_card
from ..data.pairs import Pair, write_pairs
from ..generate.generate import STEPS
from ..generate.prompts import PROMPTS
from ..refine.report import to_markdown
from ..review.agreement import Agreement, cells, header, remarks

PAIRS_FILE, MADE_FILE, IMAGES_FILE = "pairs.jsonl", "made.json", "images.zip"
SCHEMA = "vl-assay/new-benchmark"
VERSION = 1
UNKNOWN_LICENCE = "unknown"

_HERE = Path(__file__).parent
_TAGS = ("compositionality", "hard-negatives", "image-text-matching", "vision-language", "benchmark")
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


class Material(NamedTuple):
    """All that a benchmark's folder is made of.

    Attributes:
        name: the benchmark's.
        source: where captions and images come from.
        pairs: its rows, at least one, kind by kind; `image` is a name in `images`.
        images: the folder of the images.
        licence: an identifier of the Hub.
        copy_images: whether the images go into the folder.
        told: by stage, what it told.
        audits: the records of the audits before and after the refinement.
        refinement: the refinement's record.
    """

    name: str
    source: str
    pairs: Sequence[Pair]
    images: Path
    licence: str
    copy_images: bool
    told: Mapping[str, Mapping[str, Any]]
    audits: tuple[Mapping[str, Any], Mapping[str, Any]]
    refinement: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The name for people."""
        return self.name.replace("_", " ").capitalize()

    @property
    def kinds(self) -> list[str]:
        """The kinds of negatives, in their order: one configuration each."""
        return list(dict.fromkeys(pair.category for pair in self.pairs))


def check_name(name: str, target: Path) -> None:
    """Refuse a name that a benchmark cannot have, and a folder that another one has.

    Raises:
        DataError: the name is no lower-case identifier, or taken.
        StorageError: the target holds something that was not made here.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name == "authoring":
        raise DataError(f"{name!r} cannot name a benchmark; take small letters, digits and _, such as my_photos")
    if (
        name in _benchmarks.benchmark_names()
        and not (Path(_benchmarks.__file__).parents[1] / name / MADE_FILE).exists()
    ):
        raise DataError(f"there is a benchmark {name} already; take another name")
    if target.exists() and not (target / MADE_FILE).is_file():
        raise StorageError(f"{target} is there and was not written by new-benchmark; take another name or folder")


def write_folder(material: Material, target: Path) -> None:
    """Write the benchmark's folder, whole or not at all; one that was there is replaced.

    Raises:
        DataError: an image cannot be read.
        StorageError: it cannot be written.
    """
    with _repository.data_errors(f"the benchmark {target}"), new_folder(target) as new:
        write_pairs(material.pairs, new / PAIRS_FILE)
        if material.copy_images:
            _pack(material, new / IMAGES_FILE)
        write_text(new / "README.md", _card(material))
        write_card(new / "README.md", material.audits[1])
        made = {"schema": SCHEMA, "version": VERSION, "source": material.source, "stages": material.told}
        write_text(new / MADE_FILE, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
        write_text(new / "builder.py", _builder(material, hashlib.sha256((new / PAIRS_FILE).read_bytes()).hexdigest()))
        # The last, since a folder with it counts as a benchmark.
        write_text(new / "benchmark.py", _tasks(material))


def build_repository(folder: Path, out: Path, *, with_images: bool) -> None:
    """Build the dataset repository of a benchmark's folder, which need not be among ours, with its ``eval.yaml``."""
    module = _load(folder, "builder")
    builder = next(value for name, value in vars(module).items() if name == _class_name(folder.name))
    card = (folder / "README.md").read_text(encoding="utf-8")
    _repository.build_with(builder, folder.name, card, out, module.KINDS, None, {"with_images": with_images})
    text = _publishing.eval_yaml(out, _load(folder, "benchmark").BENCHMARK)
    write_text(out / _publishing.EVAL_FILE, text or "")


def _load(folder: Path, stem: str) -> ModuleType:
    """A module of the folder as if it lay beside our benchmarks, without leaving compiled code there."""
    path = folder / f"{stem}.py"
    # Under a name of its own: should the folder be one of ours, importing it later must find what is there then.
    module = ModuleType(f"{__name__}_{stem}")
    module.__package__ = f"{_benchmarks.__name__.rsplit('.', 2)[0]}.{folder.name}"
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
    return module


def _pack(material: Material, path: Path) -> None:
    """The images in one file, since packages carry the files of a benchmark's folder and no folder in it."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted({pair.image for pair in material.pairs}):
            archive.writestr(zipfile.ZipInfo(name), (material.images / name).read_bytes())


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _builder(material: Material, pairs_sha256: str) -> str:
    return _fill(
        "builder.py.txt",
        title=material.title,
        kinds=_tuple(material.kinds),
        class_name=_class_name(material.name),
        pairs_sha256=pairs_sha256,
    )


def _tasks(material: Material) -> str:
    source = "" if material.copy_images else f"the images of {material.source}, in --data-dir"
    return _fill(
        "benchmark.py.txt",
        name=material.name,
        kinds=_tuple(material.kinds),
        source=json.dumps(source, ensure_ascii=False),
    )


def _card(material: Material) -> str:
    images = {pair.image for pair in material.pairs}
    where = (
        "The images lie in `images.zip` beside the builder."
        if material.copy_images
        else f"The images are not passed on: `data_dir` is a folder that has them, those of {_plain(material.source)}."
    )
    return _fill(
        "card.md",
        front_matter=_front_matter(material),
        title=material.title,
        reviewed=_reviewed(material.told["review"]),
        pairs=f"{len(material.pairs):,}",
        images=f"{len(images):,}",
        counts=_counts(material),
        where_images=where,
        made=_made(material),
        refinement=_refinement(material),
        before_and_after=_before_and_after(*material.audits),
        licence=_licence(material),
    )


def _front_matter(material: Material) -> str:
    import yaml

    size = next((name for limit, name in _SIZES if len(material.pairs) < limit), "n>1M")
    metadata = {
        "pretty_name": material.title,
        "license": material.licence,
        "task_categories": ["zero-shot-image-classification", "image-text-to-text"],
        "size_categories": [size],
        "language_creators": ["machine-generated"],
        "tags": list(_TAGS),
    }
    return f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)}---\n"


def _reviewed(told: Mapping[str, Any]) -> str:
    if not told["annotators"]:
        return (
            "**No person has looked at these captions.** A negative may be true of its image, or make no sense; what a "
            "model scores here is to be taken with that caution."
        )
    people = len(told["annotators"])
    return (
        f"{people} {'person' if people == 1 else 'people'} compared the negatives with their images before they were "
        f"taken: of {told['candidates']:,} candidates {told['pairs']:,} were kept."
    )


def _counts(material: Material) -> str:
    """The table that each build makes anew."""
    lines = ["<!-- counts -->", "| config | split | rows | images | distinct captions |", "|---|---|---|---|---|"]
    for kind in material.kinds:
        own = [pair for pair in material.pairs if pair.category == kind]
        captions = {caption for pair in own for caption in (pair.positive, pair.negative)}
        images = {pair.image for pair in own}
        lines.append(f"| {kind} | test | {len(own):,} | {len(images):,} | {len(captions):,} |")
    return "\n".join([*lines, "<!-- /counts -->"])


def _made(material: Material) -> str:
    told = material.told
    made = told["generate"]
    steps = [
        f"Captions: {told['captions']['said']} from {_plain(material.source)}.",
        f"Negatives: {sum(made['made'].values()):,} by {_plain(made['source'])}, seed {made['seed']}: "
        f"{_listed(made['made'])}. {_left_out(made['rejected'])}",
        _people(told["review"]),
        f"Refinement, as below: {told['refine']['said']}.",
    ]
    text = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
    if made["by_model"]:
        text += "\n\n" + _prompts(made["made"])
    return text + _agreement(told["review"])


def _people(told: Mapping[str, Any]) -> str:
    if not told["annotators"]:
        return "Review by people: left out."
    people = ", ".join(f"{_plain(name)} ({count:,})" for name, count in told["annotators"].items())
    return f"Review by people, with how many decisions of each: {people}. {_listed(told['statuses'])}."


def _prompts(kinds: Mapping[str, int]) -> str:
    names = dict.fromkeys(step for kind in kinds for step in STEPS[kind])
    shown = ", ".join(f"`{name}.md` ({PROMPTS[name].temperature:g})" for name in names)
    return f"Prompts, in `vl_assay.hub_datasets.authoring`, each with its temperature: {shown}."


def _agreement(told: Mapping[str, Any]) -> str:
    if len(told["annotators"]) < 2:
        return ""
    found = [Agreement(**row) for row in told["agreement"]]
    lines = [header(), ["---"] * len(header()), *map(cells, found)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join(["\n\nAgreement of those who judged:", table, *remarks(found)])


def _refinement(material: Material) -> str:
    """The refinement's own report, a level deeper."""
    report = to_markdown(material.refinement, material.name).partition("\n\n")[2].strip()
    parts = [re.sub("^## ", "### ", report, flags=re.MULTILINE)]
    small = material.told["refine"]["too_small"]
    if small:
        parts.append(f"Left out, as too few pairs of them were kept to measure anything: {_listed(small)}.")
    return "\n\n".join(parts)


def _before_and_after(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    lines = [f"| scorer | before, {before['pairs']:,} pairs | after, {after['pairs']:,} pairs |", "|---|---:|---:|"]
    for name, scorer in before["scorers"].items():
        figures = " | ".join(_accuracy(part) for part in (scorer, after["scorers"][name]))
        lines.append(f"| {name.replace('_', ' ')} | {figures} |")
    turned = [
        name.replace("_", " ")
        for name, scorer in after["scorers"].items()
        if scorer["kind"] == "probe" and scorer["accuracy_interval"][1] < 0.5
    ]
    if turned:
        lines += [
            "",
            f"Below chance are the probes of {', '.join(turned)}: where features were balanced over the whole, what is "
            "learned of some pairs points the wrong way in the others. Whoever trains on a part of these rows could "
            "use that; a model that never saw them cannot.",
        ]
    return "\n".join(lines)


def _accuracy(part: Mapping[str, Any]) -> str:
    low, high = part["accuracy_interval"]
    return f"{100 * part['accuracy']:.1f} ({100 * low:.1f}–{100 * high:.1f})"


def _licence(material: Material) -> str:
    if material.licence == UNKNOWN_LICENCE:
        return "None was stated when this was made. Captions and images are under that of their source."
    what = "Captions and images" if material.copy_images else "Captions"
    return f"{what} are passed on under `{_plain(material.licence)}`, as whoever made this states."


def _left_out(rejected: Mapping[str, Mapping[str, int]]) -> str:
    reasons = Counter[str]()
    for own in rejected.values():
        reasons.update(own)
    return f"Left out, by reason: {_listed(reasons)}." if reasons else "None was left out."


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items())


def _fill(template: str, **texts: str) -> str:
    text = (_HERE / f"template_{template}").read_text(encoding="utf-8")
    return Template(text).substitute(texts)


def _tuple(names: Sequence[str]) -> str:
    """The inside of a tuple of texts, as source."""
    return ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "")


def _plain(text: str) -> str:
    """Text from outside as Markdown shows it, in a line."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
