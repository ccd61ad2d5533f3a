"""The tasks of CREPE and their metrics: the caption is ranked among its own hard negatives."""

from .. import Benchmark, Task
from .configs import PRODUCTIVITY, SYSTEMATICITY


def _ranked(config: str, *, by_default: bool) -> Task:
    """Return a task of one configuration: pooling recall at k over kinds of negatives would mean little."""
    return Task(
        name=config,
        captions=("caption", "hard_negatives"),
        category="category",
        cluster="filename",
        metrics={"retrieval_recall": {"pool": "own", "ks": [1, 3, 5, 10]}},
        by_default=by_default,
        # "replace" and the compounds of systematicity change words of every kind.
        skills={"productivity_swap": "binding", "productivity_negate": "negation"}.get(config),
    )


BENCHMARK = Benchmark(
    tasks=(
        *(_ranked(config, by_default=True) for config in PRODUCTIVITY),
        # Valid only for models trained on the one set of three that it was made for.
        *(_ranked(config, by_default=False) for config in SYSTEMATICITY),
    ),
    summary="new compounds, long captions",
    source="github.com/RAIVNLab/CREPE (no licence stated) and Visual Genome's images, unpacked, as --data-dir",
    caution=(
        "A text-only model beats the best of 17 CLIP models on productivity: 43.70 to 27.63 on replaced atoms, "
        "70.80 to 32.74 on swaps, 66.15 to 31.25 on negation (SugarCrepe, Table 8)."
    ),
)
