"""The settings of a new benchmark, and the review that its stages wait for."""

from __future__ import annotations

import keyword
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError, StorageError, VLAssayError, check_known
from ....metrics.common.storage import with_home
from ....metrics.estimation.bootstrap import check_share
from ...core import benchmarks
from ..config import BenchmarkConfig
from ..data.made import CANDIDATES_FILE, MADE_FILES, made_table
from ..data.tables import write_rows
from ..generate.checks import NEGATIVE_KINDS, POSITIVE_KINDS
from ..generate.rules import RULE_KINDS
from ..refine.ngrams import BLIND_SCORERS
from ..review.desk import Desk
from ..review.review import open_review
from .stages import Waiting

MADE_FILE, IMAGES, REPOSITORY = "made.json", "images", "repository"
# With fewer pairs the interval of an accuracy of 50 % is wider than 18 points on each side.
FEWEST_PAIRS = 30


@dataclass(frozen=True, kw_only=True)
class Settings(BenchmarkConfig):
    """The settings of a new benchmark: the options of ``vl-assay new-benchmark``, whose help explains them.

    Args:
        review: whether people decide.
        fewest_pairs: kinds of which the refinement keeps fewer pairs are left out.
    """

    name: str
    source: str
    work: Path
    detection: bool = False
    kinds: tuple[str, ...] = NEGATIVE_KINDS
    rules: bool = False
    model: str | None = None
    base_url: str | None = None
    limit: int | None = None
    review: bool = True
    annotators: tuple[str, ...] = ()
    licence: str | None = None
    into: Path | None = None
    fewest_pairs: int = FEWEST_PAIRS

    @property
    def reading(self) -> dict[str, Any]:
        """Return the arguments of `sources.read_captions`."""
        columns = dict(text.split("=", 1) for text in self.column or ())
        return {"columns": columns, "split": self.split, "limit": self.limit, "data_dir": self.data_dir}

    @property
    def is_benchmark(self) -> bool:
        """Return whether the source is a benchmark of this package or a part of one."""
        return self.source.partition("/")[0] in benchmarks.benchmark_names()

    @property
    def given(self) -> str:
        """Return the name of the table of pairs in the source, see `data.made`; "" if it has only captions."""
        path = with_home(self.source)
        table = made_table(path) if path.is_dir() else path
        return table.name if table and table.name in MADE_FILES and table.is_file() and not self.is_benchmark else ""

    @property
    def asks_people(self) -> bool:
        """Return whether people review the candidates; pairs that were reviewed or refined are not reviewed again."""
        return self.review and self.given in ("", CANDIDATES_FILE)

    @property
    def public_source(self) -> str:
        """Return the source as the card names it: of a file or folder only its name."""
        path = with_home(self.source)
        return path.resolve().name if not self.is_benchmark and path.exists() else self.source

    @property
    def images(self) -> Path:
        """Return the folder of the copied images."""
        return self.work / ("images" if self.detection else "captions") / IMAGES

    @property
    def folder(self) -> Path:
        """Return the folder of the result: the benchmark, or the files in TRICD's layout."""
        return self.work / "export" if self.detection else (self.into or self.work) / self.name

    @property
    def repository(self) -> Path:
        """Return the folder of the dataset repository."""
        return self.work / REPOSITORY


def check_settings(settings: Settings, stages: Iterable[str]) -> None:
    """Raise an error of `VLAssayError` if the settings of a benchmark of captions are invalid."""
    name, folder = settings.name, settings.folder
    if name in (*stages, REPOSITORY):
        raise DataError(f"{name!r} is a folder of the stages; choose another name")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name == "authoring":
        raise DataError(f"{name!r} cannot name a benchmark; use small letters, digits and _, as in my_photos")
    ours = Path(benchmarks.__file__).parents[1] / name
    if (ours / "benchmark.py").exists() and not (ours / MADE_FILE).exists():
        raise DataError(f"there is a benchmark {name} already; choose another name")
    if folder.exists() and not (folder / MADE_FILE).is_file():
        raise StorageError(f"{folder} exists and was not written by new-benchmark; choose another name or folder")
    check_share("max_blind_accuracy", settings.max_blind_accuracy)
    for kind in {*settings.kinds} & {*POSITIVE_KINDS}:
        raise VLAssayError(
            f"{kind} makes true captions, and a new benchmark has negatives only; make true captions with "
            f"`vl-assay generate --kind {kind}`"
        )
    known = [kind for kind in RULE_KINDS if kind not in POSITIVE_KINDS] if settings.rules else list(NEGATIVE_KINDS)
    check_known("kind of hard negatives", settings.kinds, known)
    check_known("blind scorer", settings.scorer or (), BLIND_SCORERS)
    if not settings.scorer and not settings.learned:
        raise VLAssayError("nothing to refine on; give a scorer, or at least one learned round")
    if settings.copy_images and settings.licence is None:
        raise VLAssayError("copy_images passes the images on: give their licence with --licence, such as cc0-1.0")


def reviewed(settings: Settings, page: str, items: Iterable[Any], source: Path) -> Desk:
    """Write items for people and return their review once no decision is missing.

    Args:
        settings: the settings.
        page: the name of the page.
        items: the items, named tuples or dictionaries.
        source: the file of the items, in the folder of the stage.

    Raises:
        Waiting: decisions are missing; the message has the command that opens the page.
    """
    write_rows(items, source)
    desk = open_review(source, page=page, images=settings.images, annotators=settings.annotators)
    missing = desk.missing()
    if not missing:
        return desk
    command = ["vl-assay", "review", str(source), "--page", page, "--images", str(settings.images)]
    command += ["--annotators", ",".join(settings.annotators)] if settings.annotators else []
    raise Waiting(
        f"{missing:,} decisions of people are missing, on {len(desk.items):,} items. Make them with\n\n"
        f"    {shlex.join(command)}\n\nand run this command again. --limit makes fewer items"
        + ("" if settings.detection else "; --no-review continues without people, and the result says so")
    )
