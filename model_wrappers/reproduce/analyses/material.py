"""What analyses are made from, and how their figures are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....hub_datasets.core.examples import Example
from ....metrics.common.errors import ModelError
from ....metrics.common.figures import as_file, colours
from ....metrics.common.storage import write_atomically
from ..comparing import examples_of
from ..plans import FoundPredictions
from ..report import Comparison, Reproduction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Material:
    """What an analysis may use.

    Args:
        folder: where its figures go.
        predictions: the predictions that are there.
        compared: tables that were compared, by name.
        data_dir: the user's copies of sources, a folder for each benchmark; None for what was built before.
        options: fields of the builders' configurations.
    """

    folder: Path
    predictions: Sequence[FoundPredictions] = ()
    compared: Mapping[str, Reproduction] = field(default_factory=dict)
    data_dir: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def examples(self, task: str) -> list[Example]:
        """The examples of a task, without images.

        Raises:
            DataError: they are not here.
        """
        return examples_of(task, data_dir=self.data_dir, options=self.options)

    def ours(self, table: str) -> dict[tuple[str, str], Comparison]:
        """Our values of a table by the names of row and column; none where it was not compared."""
        found = self.compared[table].comparisons if table in self.compared else ()
        return {(one.row.name, one.column.name): one for one in found if one.ours is not None}

    def draw(self, name: str, draw: Callable[[Figure], None], size: tuple[float, float]) -> str:
        """Draw a figure of that size in inches to a file of that name; a Markdown link to it.

        Raises:
            ModelError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ModelError("figures need matplotlib: pip install 'vl-assay[plots]'") from error
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        write_atomically(self.folder / f"{name}.png", as_file(figure))
        return f"![{name}]({name}.png)"


def draw_bars(
    axes: Axes,
    names: Sequence[str],
    bars: Mapping[str, Sequence[float]],
    errors: Mapping[str, Sequence[float]] | None = None,
    *,
    is_horizontal: bool = False,
) -> dict[str, list[float]]:
    """Draw a group of bars for each name, with a bar in each group for each label.

    Args:
        axes: where to draw.
        names: of the groups, in order.
        bars: the values by label, one for each name; NaN leaves a gap.
        errors: likewise the half lengths of error bars.
        is_horizontal: whether groups follow each other downwards.

    Returns:
        The places of the bars along the axis of the names, by label.
    """
    width = 0.8 / len(bars)
    shifts = {label: width * (number - (len(bars) - 1) / 2) for number, label in enumerate(bars)}
    places = {label: [place + shift for place in range(len(names))] for label, shift in shifts.items()}
    draw = axes.barh if is_horizontal else axes.bar
    for label, colour in colours([*bars]).items():
        draw(places[label], bars[label], 0.9 * width, color=colour, label=label, yerr=errors and errors[label])
    (axes.set_yticks if is_horizontal else axes.set_xticks)(range(len(names)), names)
    return places
