"""The task of VALSE: the caption against its foil, in each piece and on average over the pieces."""

from .. import Benchmark, Task

_SKILLS = {
    "existence": "existence",
    "plurals": "count",
    "counting_hard": "count",
    "counting_small": "count",
    "counting_adversarial": "count",
    "relations": "spatial",
    "action_replacement": "action",
    "actant_swap": "binding",
    "foil_it": "object",
}
_PIECES = (*tuple(_SKILLS)[:8], "coreference_standard", "coreference_hard", "foil_it")

BENCHMARK = Benchmark(
    tasks=(
        Task(
            name="itm",
            configs=_PIECES,
            category="category",
            metrics={"sugarcrepe_itm": {"forms": {piece: piece.upper() for piece in _PIECES}}},
            skills=_SKILLS,
        ),
    ),
    summary="linguistic phenomena, foils",
    source="github.com/Heidelberg-NLP/VALSE and COCO; --data-dir for the images of the other 8 of 11 pieces",
    main_scores=(("itm", "sugarcrepe_itm", "macro_accuracy"),),
)
