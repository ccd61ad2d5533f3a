"""Progress bars and messages on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Progress:
    """Progress bars; nothing is printed if `show` is False (a quiet run, or not the main process)."""

    def __init__(self, *, show: bool) -> None:
        self._console = Console(stderr=True, quiet=not show, highlight=False)

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, soft_wrap=True, markup=False)

    @contextmanager
    def bar(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar for `total` items (in a log, one line with their number), and yield the function to advance it."""
        if not self._console.is_terminal:
            self.say(f"{name}: {total:,}")
            yield lambda count: None
            return
        columns = (
            TextColumn("{task.description:30}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Bars(*columns, console=self._console) as bars:
            task = bars.add_task(name, total=total)
            yield lambda count: bars.advance(task, count)
