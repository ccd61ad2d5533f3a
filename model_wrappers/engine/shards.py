"""Shards: parts of a run for machines that share nothing, and merging them to the predictions of one run.

Every shard makes the same scoring plan and computes every n-th chunk of each stage, which cost about the same; its
folder holds these chunks and a record. Merging collects the chunks of all shards and runs `predict`, which finds them
finished, re-checks near-ties and writes predictions: the same bits as without shards.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from ...metrics.common.command_line import parse_shard
from ...metrics.common.errors import DataError, PredictionsError
from ...metrics.common.storage import read_sealed, write_sealed
from .chunks import ChunkStore

UNFINISHED = ".unfinished"
_MOST_BYTES = 1 << 20


class Part(Protocol):
    """What a process computes of a run whose predictions are made elsewhere."""

    def open(self, record: RunRecord, folder: Path) -> ChunkStore:
        """Where the chunks of a run go, of which nothing is known yet; `folder` is the process's own."""
        ...

    def claims(self, stage: str, chunks: int) -> Iterable[int]:
        """The numbers of its chunks among those of a stage; they may be decided one by one."""
        ...

    def close(self, record: RunRecord, store: ChunkStore) -> None:
        """Take note that all claimed chunks are finished; the record has the stages."""
        ...


class Shard(NamedTuple):
    """Part number `number` of `count`, from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """``"3/16"`` → shard 3 of 16; raises as `parse_shard`."""
        return cls(*parse_shard(text))

    def open(self, record: RunRecord, folder: Path) -> ChunkStore:
        """The process's own folder."""
        return ChunkStore(folder)

    def close(self, record: RunRecord, store: ChunkStore) -> None:
        """Write the record beside the chunks: the shard is finished."""
        name = f"shard-{self.number}-of-{self.count}.json"
        write_sealed(store.folder / name, json.dumps({**vars(record), "shard": str(self)}, default=str).encode())

    def claims(self, stage: str, chunks: int) -> range:
        """The numbers of its chunks: every n-th."""
        return range(self.number - 1, chunks, self.count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


@dataclass(frozen=True)
class RunRecord:
    """The run that chunks belong to.

    Args:
        identity: the hash over model, libraries, device and plan that names the folder of its chunks.
        model, benchmarks, seeds, config: the arguments of `predict`, as JSON has them.
        stages: the number of chunks of each stage, of all shards.
        about: what the identity is the hash of, for messages.
        shard: what of it the process computes that wrote the record, such as ``"3/16"``.
    """

    identity: str
    model: str
    benchmarks: list[str]
    seeds: list[int]
    config: dict[str, Any]
    stages: dict[str, int]
    about: dict[str, dict[str, Any]]
    shard: str = "here"

    def check_same_run(self, other: RunRecord) -> None:
        """Raise PredictionsError, which says what differs, unless another shard is of the same run."""
        ours, theirs = (each._facts() for each in (self, other))
        differ = {name: (ours.get(name), theirs.get(name)) for name in {**ours, **theirs}}
        shown = [f"{name}: {one} and {two}" for name, (one, two) in differ.items() if one != two]
        if shown:
            raise PredictionsError(
                f"shards {self.shard} and {other.shard} are not of one run: {'; '.join(shown[:5])}. Model, data, "
                "libraries, batch size and kind of device must be the same"
            )

    def _facts(self) -> dict[str, Any]:
        """What all shards of a run have in common."""
        parts = {f"{part} {name}": value for part, facts in self.about.items() for name, value in facts.items()}
        common = {"run": self.identity, "batch size": self.config["batch_size"], "stages": self.stages}
        return {**json.loads(json.dumps(parts, default=str)), **common, "seeds": list(self.seeds)}

    @classmethod
    def read(cls, path: Path) -> Self:
        """The record in a file.

        Raises:
            PredictionsError: it is damaged, or no record.
        """
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise ValueError("it is too large")
            return cls(**json.loads(read_sealed(path)))
        except (OSError, ValueError, TypeError) as error:
            raise PredictionsError(f"{path} is no record of a shard ({error}); run that shard again") from error


def collect(folders: Sequence[Path], out: Path) -> RunRecord:
    """Copy the chunks of all shards into the folder in which a run with the same arguments looks for them.

    Args:
        folders: the output folders of the shards, or folders of them, in any order.
        out: the output folder of the run.

    Returns:
        The record of one of the shards, for the arguments of `predict`.

    Raises:
        DataError: shards are missing, or chunks of one are missing or damaged; the message names them.
        PredictionsError: no shards, or of different runs.
    """
    found = {}
    for path in sorted({path for folder in folders for path in folder.rglob(f"{UNFINISHED}/*/shard-*.json")}):
        record = RunRecord.read(path)
        found[Shard.parse(record.shard)] = (record, ChunkStore(path.parent))
    if not found:
        raise PredictionsError(
            f"no finished shard in {', '.join(map(str, folders))}; make them with vl-assay predict … --shard 1/2"
        )
    records = [record for record, _ in found.values()]
    for record in records[1:]:
        records[0].check_same_run(record)
    counts = {shard.count for shard in found}
    if len(counts) > 1:
        raise PredictionsError(
            f"these are shards of {' and of '.join(map(str, sorted(counts)))}; merge those of one cut"
        )
    problems = [f"shard {number}" for number in range(1, counts.pop() + 1) if all(s.number != number for s in found)]
    target = ChunkStore(out / UNFINISHED / records[0].identity)
    for shard, (record, store) in sorted(found.items()):
        for stage, chunks in record.stages.items():
            broken = [number for number in shard.claims(stage, chunks) if not store.copy(stage, number, target)]
            if broken:
                problems.append(
                    f"shard {shard.number} (chunks {', '.join(map(str, broken[:5]))} of {stage} are damaged)"
                )
    if problems:
        raise DataError(
            f"missing: {', '.join(problems)}. Run these again with the same command, and then merge again; "
            f"what is there is kept in {target.folder}"
        )
    return records[0]
