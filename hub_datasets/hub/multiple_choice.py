"""A benchmark as questions of multiple choice, for tools that ask generative models: inspect_ai, lm-eval, lmms-eval.

Of tasks in which one caption is true of each image, and of yes-or-no questions. The folder is a dataset repository: a
configuration for each task and for each of its configurations, and a row for each image of an example.

| column | content |
|---|---|
| id, category | of the example; the id of one with several images is followed by "#" and the image's number |
| question | what is asked about the image |
| choices | the captions, or "yes" and "no", in an order drawn by id and texts: the first is true elsewhere |
| target | the letter of the right choice |
| image | the image's file |
| image_uri | the same as a data URI, which inspect_ai takes as text |

``eval.yaml`` has the Hub's framework ``inspect-ai``, so that ``inspect eval hf/OWNER/NAME`` runs it, and ``lm_eval``
and ``lmms_eval`` have a task file for each configuration. All count the letter of an answer. Scores of several rows
together, such as Winoground's group score, need this package: it reads the tools' logs as ``precomputed:LOG``.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

from ...metrics.common.errors import DataError, StorageError
from ...metrics.common.storage import new_folder, write_text
from ...metrics.records.predictions import file_hash
from ..core.benchmarks import get_card
from ..core.examples import Example, TaskData, load_examples
from ..core.images import DECODING_ERRORS, portable

EVAL_FILE, FOLDER = "eval.yaml", "choices"
QUESTION = "Which caption describes this image?"
_ROWS_AT_ONCE = 256
_CONFIG = "choices_"  # before a task's id, since the dataset that is published with them has configurations, too
_FRAMEWORK = "inspect-ai"
# The files that an export writes, and Python's caches of them.
_WRITTEN = (EVAL_FILE, "README.md", f"{FOLDER}/*/*.parquet", "lm*_eval/*.yaml", "lmms_eval/**/utils.*py*")


def export(
    reference: str,
    out: str | Path,
    *,
    repo: str = "",
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> dict[str, int]:
    """Write a benchmark as multiple choice into a folder, which is replaced as a whole.

    Args:
        reference, data_dir, options, limit: as for `load_examples`.
        out: the folder.
        repo: where it will be on the Hub, ``OWNER/NAME``, for the task files; by default they read `out`.

    Returns:
        The number of rows of each task.

    Raises:
        UnknownNameError, DataError: as `load_examples`; no task with images can be written, or an example lacks its
            image.
        StorageError: the folder has files that this did not write, or is a file.
    """
    _refuse_to_overwrite(Path(out))
    tasks = load_examples(reference, task_types=("matching", "vqa"), data_dir=data_dir, options=options, limit=limit)
    tasks = [task for task in tasks if task.task.is_multiple_choice]
    if not tasks:
        raise DataError(f"{reference} has no task in which one caption is true of each image, and no questions")
    missing = [id for task in tasks for id in task.missing]
    if missing:
        raise DataError(f"{len(missing)} examples lack their image, such as {missing[0]}; give all images")
    counts = {}
    with new_folder(Path(out)) as folder:
        for task in tasks:
            counts[task.task.name] = sum(_write_rows(task, config, folder) for config in task.configs)
            for hub_id, tool in product(task.task.hub_ids(task.configs), ("lm_eval", "lmms_eval")):
                contents = _task_file(tool, task, hub_id, repo or str(Path(out).resolve()))
                write_text(folder / tool / f"{task.benchmark}_{hub_id}.yaml", contents)
        shutil.copyfile(Path(__file__).with_name("lmms_eval_utils.py"), folder / "lmms_eval" / "utils.py")
        (folder / EVAL_FILE).write_text(_eval_yaml(tasks), encoding="utf-8")
        (folder / "README.md").write_text(_card(tasks, folder), encoding="utf-8")
    return counts


def _refuse_to_overwrite(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out} is a file; name a folder")
    written = {path for pattern in _WRITTEN for path in out.glob(pattern) if (out / EVAL_FILE).is_file()}
    other = next((path for path in out.rglob("*") if path.is_file() and path not in written), None)
    if other:
        raise StorageError(f"{out} would be replaced, and {other} was not written by an export; name another folder")


class ChoiceQuestion(NamedTuple):
    """A question about an image of an example.

    Args:
        example, image: the example, and the number of the image in it.
        row: the columns without `image` and `image_uri`.
    """

    example: Example
    image: int
    row: dict[str, Any]


def questions(task: TaskData) -> Iterator[ChoiceQuestion]:
    """Yield the questions of a task, in the order of its examples."""
    for example in task.examples:
        for number in range(len(example.images)):
            if len(example.captions) == 1:  # a question
                question, texts, right = example.captions[0], ("yes", "no"), 0 if example.answer else 1
            else:
                question, texts, right = QUESTION, example.captions, example.correct[number]
            if len(texts) > len(ascii_uppercase):
                raise DataError(f"{example.id} has {len(texts)} captions; letters are for {len(ascii_uppercase)}")
            question_id = f"{example.id}#{number}" if len(example.images) > 1 else example.id
            order = sorted(range(len(texts)), key=lambda i, own=question_id, texts=texts: _draw(own, texts[i], i))
            row = {"id": question_id, "category": example.category, "question": question}
            row |= {"choices": [texts[i] for i in order], "target": ascii_uppercase[order.index(right)]}
            yield ChoiceQuestion(example, number, row)


def _draw(own: str, text: str, number: int) -> bytes:
    """Return a hash of the content, which orders the choices independently of the label."""
    return hashlib.sha256("\0".join((own, text, str(number))).encode()).digest()


def _write_rows(task: TaskData, config: str, folder: Path) -> int:
    """Write the rows of a configuration to a file in the folder of its task, and return their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from datasets import Features, Image, List, Value

    text = Value("string")
    columns = {"id": text, "category": text, "question": text, "choices": List(text), "target": text}
    schema = Features({**columns, "image": Image(), "image_uri": text}).arrow_schema
    path = folder / FOLDER / task.task.name / f"{config}-{task.split}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    asked = questions(replace(task, examples=[example for example in task.examples if example.config == config]))
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(asked, _ROWS_AT_ONCE)):
            for example, image, row in batch:
                try:
                    kind, content = portable(task.image_bytes(example.images[image]))
                except DECODING_ERRORS as error:
                    raise DataError(f"the image of {row['id']} cannot be sent: {error}") from error
                row["image"] = {"bytes": content, "path": None}
                row["image_uri"] = f"data:{kind};base64,{base64.b64encode(content).decode()}"
            writer.write_table(pa.Table.from_pylist([question.row for question in batch], schema))
            count += len(batch)
    # `datasets` keeps what it read by the folder's name and the paths in the card: without a hash of the content it
    # would serve the rows of an earlier export.
    path.rename(path.with_stem(f"{path.stem}-{file_hash(path)[:16]}"))
    return count


def _eval_yaml(tasks: list[TaskData]) -> str:
    import yaml
    from huggingface_hub import DatasetCard

    card = DatasetCard(get_card(tasks[0].benchmark))
    paragraphs = (" ".join(paragraph.split()) for paragraph in card.text.split("\n\n"))
    fields = {"input": "question", "input_image": "image_uri", "choices": "choices", "target": "target"}
    what = {
        "name": card.data.to_dict().get("pretty_name") or tasks[0].benchmark,
        "description": next((text for text in paragraphs if text and not text.startswith(("#", "<!--"))), ""),
        "evaluation_framework": _FRAMEWORK,
        "tasks": [
            {
                "id": hub_id,
                "config": _CONFIG + hub_id,
                "split": task.split,
                "field_spec": {**fields, "metadata": ["id", "category"]},
                "solvers": [{"name": "multiple_choice", "args": {"cot": False}}],
                "scorers": [{"name": "choice"}],
            }
            for task in tasks
            for hub_id in task.task.hub_ids(task.configs)
        ],
    }
    return yaml.safe_dump(what, sort_keys=False, allow_unicode=True, width=120)


def _task_file(tool: str, task: TaskData, own: str, dataset: str) -> str:
    """Return a task file of lm-eval or lmms-eval, whose models generate and give no log-likelihoods of choices."""
    import yaml

    settings = yaml.safe_load(Path(__file__).with_name("task_files.yaml").read_text(encoding="utf-8"))[tool]
    named = {
        "task": f"{task.benchmark}_{own}",
        "dataset_path": dataset,
        "dataset_name": _CONFIG + own,
        "test_split": task.split,
    }
    # As text: `yaml` does not know this tag of lmms-eval.
    called = "".join(f"{key}: !function utils.{name}\n" for key, name in settings.pop("functions", {}).items())
    return yaml.safe_dump(named | settings, sort_keys=False, width=120) + called


def _card(tasks: list[TaskData], folder: Path) -> str:
    """Return the card: what `datasets` needs, the licence of the benchmark's card, and how to run it."""
    import yaml
    from huggingface_hub import DatasetCard

    benchmark = tasks[0].benchmark
    known = DatasetCard(get_card(benchmark)).data.to_dict()
    data = {key: known[key] for key in ("license", "language") if key in known}
    data["configs"] = [
        {"config_name": _CONFIG + hub_id, "data_files": [{"split": task.split, "path": _files(folder, task, configs)}]}
        for task in tasks
        for hub_id, configs in task.task.hub_ids(task.configs).items()
    ]
    config_name = data["configs"][0]["config_name"].removeprefix(_CONFIG)
    title = known.get("pretty_name", benchmark)
    return (
        f"---\n{yaml.safe_dump(data, sort_keys=False)}---\n\n# {title}, multiple choice\n\n"
        f"Written by VL-Assay from its benchmark {benchmark}. The choices are in an order drawn by their content; what "
        "counts is the letter.\n\n"
        f"```bash\ninspect eval hf/OWNER/NAME/{config_name}\n"
        f"lm_eval run --model hf-multimodal --include_path lm_eval --tasks {benchmark}_{config_name} …\n```\n"
    )


def _files(folder: Path, task: TaskData, configs: tuple[str, ...]) -> list[str]:
    """Return the files of some configurations of a task, by their paths in the folder."""
    tables = (folder / FOLDER / task.task.name).glob("*.parquet")
    return [path.relative_to(folder).as_posix() for path in sorted(tables) if path.stem.rsplit("-", 2)[0] in configs]
