"""The configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...metrics.common.errors import ModelError, check_known
from .distributed import configured_dtype
from .gpu_decoding import GPU
from .precision import AUTO
from .protocol import DTYPES
from .shards import Shard


@dataclass(frozen=True)
class RunConfig:
    """The options of `run`, `predict` and `plan`; every field is also a keyword argument of these functions.

    | field | default | meaning |
    |---|---|---|
    | `data_dir` | None | the user's copy of the benchmarks' sources; None downloads them |
    | `options` | None | fields of the builders' configurations, such as ``{"allow_missing": True}`` |
    | `batch_size` | None | images or texts in a batch; None: what suits the device. Halved when memory runs out |
    | `dtype` | None | of weights and activations, or ``"auto"``; None: as Accelerate is configured, else float32 |
    | `revision` | None | branch, tag or commit of the model's Hub repository |
    | `settings` | None | settings of the model's family, such as ``{"head": "itc"}`` |
    | `decode` | None | ``"gpu"``: decode and resize JPEG files there, another preprocessing; see `gpu_decoding` |
    | `workers` | None | processes that prepare images; None: beside a GPU all CPUs but one, for enough images |
    | `cache` | None | whether results are stored for later runs; None: only for models given by name |
    | `limit` | None | at most so many examples of each task, for a quick look; predictions are marked as partial |
    | `shard` | None | compute only this part, such as ``"3/16"``, for `merge`; see `shards` |
    | `engine` | "" | ``"ray"``: on a Ray cluster, a task for each GPU; ``"ray:0.5"``: two; see `ray_engine` |
    | `progress` | True | whether to show progress bars and a summary |

    The dtype ``"auto"`` is bfloat16, and recomputes close scores in float32; see `precision`. In float32 and ``"auto"``
    neither `batch_size` nor `workers` changes a decision. Results of other models are not kept by default, since such a
    model may change without changing its `info`.

    Raises:
        ModelError: a batch size or a limit below 1, or fewer workers than 0.
        VLAssayError: no shard.
        UnknownNameError: a dtype, or a place of decoding, that does not exist.
    """

    data_dir: str | Path | None = None
    options: Mapping[str, Any] | None = None
    batch_size: int | None = None
    dtype: str | None = None
    revision: str | None = None
    settings: Mapping[str, str] | None = None
    decode: str | None = None
    workers: int | None = None
    cache: bool | None = None
    limit: int | None = None
    shard: str | None = None
    engine: str = ""
    progress: bool = True

    def __post_init__(self) -> None:
        for name, least in (("limit", 1), ("batch_size", 1), ("workers", 0)):
            if (value := getattr(self, name)) is not None and value < least:
                raise ModelError(f"{name} is {value}; it must be {least} or more")
        check_known("dtype", [self.chosen_dtype], (*DTYPES, AUTO))
        check_known("place of decoding", [self.decode] if self.decode else [], (GPU,))
        if self.shard is not None:
            Shard.parse(self.shard)

    @property
    def chosen_dtype(self) -> str:
        """The dtype of the run."""
        return self.dtype or configured_dtype()

    @classmethod
    def of(cls, config: RunConfig | None, changes: Mapping[str, Any]) -> RunConfig:
        """Return the configuration, or the default one, with some fields replaced; TypeError for an unknown field."""
        return replace(config or cls(), **changes)
