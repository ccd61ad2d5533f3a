"""Shards: parts of a run for machines that share nothing, and merging them to the predictions of one run.

Every shard makes the same scoring plan, computes the items whose keys fall to it, and leaves their parts of the store
and a record in its folder. Merging copies the parts into one store and runs `predict`, which finds everything stored,
re-checks near-ties and writes predictions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from ...metrics.common.command_line import parse_shard
from ...metrics.common.errors import PredictionsError
from ...metrics.common.storage import read_sealed, write_sealed
from .store import Store

# The subfolder of the predictions' folder for intermediate results, which are useless once these are written.
UNFINISHED = ".unfinished"
_MOST_BYTES = 1 << 20


class Shard(NamedTuple):
    """Part number `number` of `count`, from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``"3/16"`` as shard 3 of 16; raises as `parse_shard`."""
        return cls(*parse_shard(text))

    @classmethod
    def of(cls, key: bytes, count: int) -> Self:
        """Return the shard, of `count`, that computes the item with this key."""
        return cls(int.from_bytes(key[:8]) % count + 1, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


# A shard of no items.
NOTHING = Shard(0, 1)


@dataclass(frozen=True)
class RunRecord:
    """The run that a shard belongs to.

    Args:
        identity: the hash of `about`, which names the folder of the results.
        model, benchmarks, seeds, config: the arguments of `predict`, as JSON has them.
        about: model, libraries, device and data.
        shard: the shard that wrote the record, such as ``"3/16"``.
    """

    identity: str
    model: str
    benchmarks: list[str]
    seeds: list[int]
    config: dict[str, Any]
    about: dict[str, dict[str, Any]]
    shard: str = "here"

    def write(self, folder: Path) -> None:
        """Write the record beside the results: the shard is finished."""
        name = f"shard-{self.shard.replace('/', '-of-')}.json"
        write_sealed(folder / name, json.dumps(asdict(self), default=str).encode())

    def check_same_run(self, other: RunRecord) -> None:
        """Raise PredictionsError, with the differing values, unless another shard belongs to the same run."""
        ours, theirs = (run._facts() for run in (self, other))
        differ = {name: (ours.get(name), theirs.get(name)) for name in {**ours, **theirs}}
        shown = [f"{name}: {our_value} and {two}" for name, (our_value, two) in differ.items() if our_value != two]
        if shown:
            raise PredictionsError(
                f"shards {self.shard} and {other.shard} are not of one run: {'; '.join(shown[:5])}. Model, data, "
                "libraries and kind of device must be the same"
            )

    def _facts(self) -> dict[str, Any]:
        """Return what all shards of a run have in common."""
        parts = {f"{section} {name}": value for section, facts in self.about.items() for name, value in facts.items()}
        return {**json.loads(json.dumps(parts, default=str)), "run": self.identity, "seeds": list(self.seeds)}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a record; raises PredictionsError if it is damaged or not a record."""
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise ValueError("it is too large")
            return cls(**json.loads(read_sealed(path)))
        except (OSError, ValueError, TypeError) as error:
            raise PredictionsError(f"{path} is not the record of a shard ({error}); run that shard again") from error


def collect(folders: Sequence[Path], out: Path) -> tuple[RunRecord, int]:
    """Copy the results of all shards into the folder in which a run with the same arguments looks for them.

    Args:
        folders: the output folders of the shards, or folders of them, in any order.
        out: the output folder of the run.

    Returns:
        The record of one of the shards, for the arguments of `predict`, and the number of shards.

    Raises:
        PredictionsError: there are no shards, or shards of different runs.
    """
    paths = sorted({path for folder in folders for path in folder.rglob(f"{UNFINISHED}/*/shard-*.json")})
    records = {path: RunRecord.read(path) for path in paths}
    if not records:
        raise PredictionsError(
            f"no finished shard in {', '.join(map(str, folders))}; make them with vl-assay predict … --shard 1/2"
        )
    first, *remaining = records.values()
    for record in remaining:
        first.check_same_run(record)
    counts = {Shard.parse(record.shard).count for record in records.values()}
    if len(counts) > 1:
        raise PredictionsError(
            f"these are shards of {' and of '.join(map(str, sorted(counts)))}; merge those of one cut"
        )
    target = Store(out / UNFINISHED / first.identity)
    for folder in {path.parent for path in paths}:
        Store(folder).copy_parts(target)
    return first, counts.pop()
