"""How the rows of ARO are scored and judged (ARO, sections 2.1 to 2.3)."""

from ..benchmarks import Benchmark, Task


def _exchanged(name: str, config: str) -> Task:
    """A task of pairs: the caption, and the same words with two of them exchanged."""
    return Task(
        name=name,
        configs=(config,),
        images=("image",),
        captions=("caption", "negative_caption"),
        category="category",
        metrics={"aro_itm": {"task": name}},
    )


BENCHMARK = Benchmark(
    tasks=(
        _exchanged("relation", "vg_relation"),
        _exchanged("attribution", "vg_attribution"),
    ),
    source="the authors' release on Google Drive (1 GB with images; the card says how), as --data-dir",
)
