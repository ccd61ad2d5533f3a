"""A benchmark of pairs as a task of `mteb`: ``mteb.evaluate(model, mteb_task("sugarcrepe"))``.

`mteb` counts a tie as right, as its argmax takes the first caption, the true one: a model that gives every caption the
same score gets 100 %. ``text_acc`` is the accuracy here with ``ties="right"``; ``image_acc`` and ``accuracy`` are 0
where examples have one image.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...metrics.common.errors import DataError, ModelError
from ..core.benchmarks import get_card
from ..core.examples import TaskData, load_examples

_ROWS_AT_ONCE = 256


def mteb_task(
    reference: str,
    *,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> Any:
    """A matching task with one image an example, as an ``AbsTaskImageTextPairClassification``.

    Args:
        reference: names one task, such as ``"toy_scenes/itm"`` or ``"sugarcrepe"``.
        data_dir, options, limit: as for `load_examples`.

    Raises:
        ModelError: `mteb` is not installed.
        DataError: not one matching task whose examples have one image, all of them there, and equally many captions.
    """
    try:
        kinds: Any = import_module("mteb.abstasks.image.image_text_pair_classification")
        described_by: Any = import_module("mteb.abstasks.task_metadata")
    except ImportError as error:
        raise ModelError(f"this needs mteb ({error}): pip install 'vl-assay[mteb]'") from error
    from huggingface_hub import DatasetCard

    data = load_examples(reference, task_types=("matching",), data_dir=data_dir, options=options, limit=limit)
    counts = {(len(example.images), len(example.captions)) for task in data for example in task.examples}
    if len(data) != 1 or len(counts) != 1 or next(iter(counts))[0] != 1 or data[0].missing:
        raise DataError(
            f"{reference} has {len(data)} matching tasks, with (images, captions) {sorted(counts)} an example; mteb "
            "takes one task with one image and equally many captions, and all images"
        )
    [task], [(_, captions)] = data, counts
    described = DatasetCard(get_card(task.benchmark)).data.to_dict().get("pretty_name", task.benchmark)
    name = "".join(word.capitalize() for word in f"{task.benchmark}_{task.task.name}".split("_"))

    class PairTask(kinds.AbsTaskImageTextPairClassification):
        """The benchmark's examples, the true caption first."""

        images_column_names = ("image",)
        texts_column_names = tuple(f"caption_{number}" for number in range(captions))
        metadata = described_by.TaskMetadata(
            name=f"VLAssay{name}",
            description=f"{described} ({task.task.name}), by VL-Assay; ties count as right here",
            dataset={"path": f"vl-assay/{task.benchmark}", "revision": task.fingerprint[:40]},
            type="Compositionality",
            category="i2t",
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="text_acc",
            modalities=["text", "image"],
        )

        def load_data(self, num_proc: int | None = None, **_: Any) -> None:
            """The examples, from the benchmark's own files."""
            self._folder = TemporaryDirectory(prefix="vl-assay-mteb-")  # it goes with the task
            self.dataset = _dataset(task, Path(self._folder.name))
            self.data_loaded = True

    return PairTask()


def _dataset(task: TaskData, folder: Path) -> Any:
    """The examples in the order of the benchmark, on the disk, image by image."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from datasets import Dataset, DatasetDict, Features, Image, Value

    columns = [f"caption_{number}" for number in range(len(task.examples[0].captions))]
    features = Features({"id": Value("string"), "image": Image(), **dict.fromkeys(columns, Value("string"))})
    with pq.ParquetWriter(folder / "test.parquet", features.arrow_schema) as writer:
        for start in range(0, len(task.examples), _ROWS_AT_ONCE):
            rows = [
                {
                    "id": example.id,
                    "image": {"bytes": task.image_bytes(example.images[0]), "path": None},
                    **dict(zip(columns, example.captions, strict=True)),
                }
                for example in task.examples[start : start + _ROWS_AT_ONCE]
            ]
            writer.write_table(pa.Table.from_pylist(rows, features.arrow_schema))
    return DatasetDict({"test": Dataset.from_parquet(str(folder / "test.parquet"), cache_dir=str(folder))})
