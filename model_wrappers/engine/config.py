"""The configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...metrics.common.errors import ModelError


@dataclass(frozen=True)
class RunConfig:
    """How `run`, `predict` and `plan` load and run a model; every field is a keyword argument of theirs, too.

    | field | default | meaning |
    |---|---|---|
    | `data_dir` | None | the user's own copy of the benchmarks' sources; None downloads them |
    | `options` | None | fields of the builders' configurations, such as ``{"allow_missing": True}`` |
    | `batch_size` | None | images or texts in a batch; None: what suits the device. Halved when memory runs out |
    | `dtype` | "float32" | type of weights and activations: ``"float32"``, ``"bfloat16"`` or ``"float16"`` |
    | `revision` | None | branch, tag or commit of the model's Hub repository |
    | `settings` | None | settings of the model's family, such as ``{"head": "itc"}`` |
    | `compile` | False | whether to compile the model with `torch.compile`; needs a model given by name |
    | `workers` | None | processes that prepare images; None: 0 on a CPU, which uses threads, up to 8 for a GPU |
    | `cache` | None | whether to use the cache of embeddings; None: only for models given by name |
    | `check_precision` | 0 | count the decisions on so many examples of each task that differ from float32 |
    | `progress` | True | whether to show progress bars and a summary |

    In float32 neither `batch_size` nor `workers` changes a decision. Other models are not cached by default, since
    they may change without changing their `info`. `check_precision` loads the model again, so it needs a name.

    Raises:
        ModelError: a batch size below 1.
    """

    data_dir: str | Path | None = None
    options: Mapping[str, Any] | None = None
    batch_size: int | None = None
    dtype: str = "float32"
    revision: str | None = None
    settings: Mapping[str, str] | None = None
    compile: bool = False
    workers: int | None = None
    cache: bool | None = None
    check_precision: int = 0
    progress: bool = True

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise ModelError(f"the batch size is {self.batch_size}; it must be 1 or more")

    @classmethod
    def of(cls, config: RunConfig | None, changes: Mapping[str, Any]) -> RunConfig:
        """The configuration, or the default one, with some fields replaced; `TypeError` for an unknown field."""
        return replace(config or cls(), **changes)
