"""The tasks of ARO and their metrics (ARO, sections 2.1 to 2.3)."""

from .. import Benchmark, Task


def _exchanged(name: str, config: str) -> Task:
    """Return a task of pairs: the caption, and the same words with two of them exchanged."""
    return Task(
        name=name,
        configs=(config,),
        category="category",
        # Two crops of one photograph are different images, and not independent.
        cluster="filename",
        metrics={"aro_itm": {"task": name}},
        skills="binding",
    )


def _order(config: str) -> Task:
    """Return a task of five captions of the same words; off by default, as few users have all three photo sources."""
    return Task(
        name=config,
        captions=("caption", "negative_captions"),
        metrics={"aro_itm": {"task": "order"}},
        skills="order",
        by_default=False,
    )


BENCHMARK = Benchmark(
    tasks=(
        _exchanged("relation", "vg_relation"),
        _exchanged("attribution", "vg_attribution"),
        _order("coco_order"),
        _order("flickr30k_order"),
    ),
    summary="relations, attributes, word order",
    source=(
        "huggingface.co/datasets/mteb/ARO-Visual-Relation (770 MB) and -Attribution (650 MB), or --data-dir with the "
        "authors' release; for the order tasks COCO val2014 (800 MB of it) and mteb/ARO-Flickr-Order"
    ),
    main_scores=(
        ("relation", "aro_itm", "macro_accuracy"),
        ("attribution", "aro_itm", "macro_accuracy"),
        ("coco_order", "aro_itm", "accuracy"),
    ),
    caution=(
        "Text-only models beat the best of 17 CLIP models on each part: 61.71 to 53.87 on relations, 82.59 to 63.37 on "
        "attribution, 74.33 to 44.89 on COCO's order, 76.26 to 52.46 on Flickr30k's (SugarCrepe, Table 8)."
    ),
)
