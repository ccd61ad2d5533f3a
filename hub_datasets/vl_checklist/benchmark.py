"""The tasks of VL-CheckList: its types, each pairwise and strict (the authors' task "itc")."""

from .. import Benchmark, Task

_SKILLS = {
    "attribute_action": "action",
    "attribute_color": "attribute",
    "attribute_material": "attribute",
    "attribute_size": "attribute",
    "attribute_state": "attribute",
    "object_location": "object",
    "object_size": "object",
    "relation_action": "action",
    "relation_spatial": "spatial",
}

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="itm",
            configs=tuple(_SKILLS),
            category="category",
            metrics={"itm_accuracy": {}},
            skills=_SKILLS,
        ),
    ),
    summary="objects, attributes, relations",
    source="--data-dir only: a clone of github.com/om-ai-lab/VL-CheckList with the images its DATASETS.md lists",
    caution=(
        "A text-only model beats the best of 17 CLIP models on attributes, 73.99 to 70.41, and relations, 85.72 to "
        "77.04; on objects it reaches 82.48 to their 87.89 (SugarCrepe, Table 8)."
    ),
)
