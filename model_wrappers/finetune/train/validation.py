"""Validation during training on benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....hub_datasets import report
from ....metrics.records.results import Result
from ...engine.distributed import Processes
from ...engine.runner import predict

# What the command measures unless it is told otherwise: it needs no network.
DEFAULT_EVALUATION = ("toy_scenes/itm",)


@dataclass(frozen=True)
class Evaluation:
    """The benchmarks on which a model is measured during training.

    Args:
        benchmarks: names or parts of benchmarks, such as ``"toy_scenes/itm"``, or folders that ``vl-assay build``
            wrote. ``"zero_shot/…"`` shows what the model forgets.
        data_dir, options: of the benchmarks, as for `predict`.
    """

    benchmarks: Sequence[str] = ()
    data_dir: str | Path | None = None
    options: Mapping[str, Any] | None = None

    def __bool__(self) -> bool:
        return bool(self.benchmarks)

    def measure(
        self,
        model: Any,
        out: Path,
        processes: Processes,
        *,
        settings: Mapping[str, str] | None = None,
        workers: int | None = None,
    ) -> tuple[dict[str, float], list[Result]]:
        """Measure a model.

        Args:
            model: a dual encoder, or the name of one.
            out: the folder of its predictions.
            processes: the ranks of the run, which share the work.
            settings: of the family of a model given by its name.
            workers: processes that prepare images, as for `predict`.

        Returns:
            Scores by name, those that tables show, such as ``toy_scenes/itm/accuracy``; and the results of the
            benchmarks. In every process.
        """
        if not self.benchmarks:
            return {}, []
        sources: dict[str, Any] = {"data_dir": self.data_dir, "options": self.options, "settings": settings}
        sources["workers"] = workers
        files = predict(model, self.benchmarks, out=out, cache=False, progress=False, **sources)
        processes.wait()  # until the main process has written them
        results = list(report(files, parts=False))
        scores = {
            f"{Path(result.predictions['file']).stem.replace('.', '/', 1)}/{name}": result.scores[name]
            for result in results
            for name in result.table_scores
            if isinstance(result.scores.get(name), float)
        }
        return scores, results
