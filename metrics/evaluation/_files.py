"""Files of predictions as a person holds them: paths, with their rows as a table and their evaluation a call away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ..records.predictions import read_predictions
from ._compute import Declared, declared_metrics
from ._reports import Captions, Report, report

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class PredictionFiles(Sequence[Path]):
    """Files of predictions: a sequence of paths.

    Args:
        paths: the files.
        metrics: which metrics evaluate a file; see ``compute``.
        captions: finds what was shown of the examples; None where only the files are there.
    """

    paths: list[Path]
    metrics: Declared = declared_metrics
    captions: Captions | None = None

    @overload
    def __getitem__(self, place: int) -> Path: ...

    @overload
    def __getitem__(self, place: slice) -> list[Path]: ...

    def __getitem__(self, place: int | slice) -> Path | list[Path]:
        return self.paths[place]

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return "\n".join(["Predictions:", *(f"  {path}" for path in self.paths)])

    def _repr_html_(self) -> str:
        """The files with their models and tasks, as a notebook shows them."""
        frame = self.to_pandas().groupby(["file", "model", "benchmark", "task"], sort=False)["id"].count()
        return frame.to_frame("rows").reset_index().to_html(index=False)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows of all files: what each model predicted, with the columns file, model, benchmark and task."""
        import pandas

        lines = []
        for path in self.paths:
            found = read_predictions(path)
            about = {"file": path.name, "model": found.model, "benchmark": found.benchmark, "task": found.task}
            lines += [{**about, **vars(row)} for row in found.rows]
        return pandas.DataFrame(lines)

    def report(self, **options: Any) -> Report:
        """Evaluate the predictions; the options are `ties`, `confidence`, `resamples` and `seed`."""
        return report(self.paths, metrics=self.metrics, captions=self.captions, **options)

    def per_example(self) -> pandas.DataFrame:
        """What each example contributes to each score; see `Report.per_example`."""
        return Report([], self.paths, self.metrics, None, self.captions).per_example()

    def plot(self) -> Figure:
        """The profile of the models; see `Report.plot`."""
        return self.report().plot()
