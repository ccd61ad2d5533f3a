"""ARO+CREPE on COCO: the baseline of SugarCrepe (Hsieh et al., NeurIPS 2023 Datasets and Benchmarks), reconstructed.

The authors normalised older benchmarks to SugarCrepe's captions and compared with the result (section 5), but did not
release it. Here the positive captions come from SugarCrepe, each once per image, and rules make one hard negative of
each kind: CREPE's REPLACE, SWAP and NEGATE, and ARO's SHUFFLE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..authoring.generate.formatting import conform
from ..authoring.generate.rules import make_by_rule
from ..authoring.text.perturb import caption_rng, perturb
from ..authoring.text.shuffles import SHUFFLES
from ..sources.builders import ReleasedRows, Rows, VerifiedConfig, make_configs
from ..sources.records import Row
from ..sugarcrepe.release import CATEGORIES, IMAGES, SCHEMA, annotation_file

CONFIG_NAMES = ("replace", "swap", "negate", "shuffle")
# The kinds of `authoring.generate.rules`, of which each caption gets one.
_KINDS = {
    "replace": ("replace_obj", "replace_att", "replace_rel"),
    "swap": ("swap_obj", "swap_att"),
    "negate": ("negate",),
}
# A negative and the name of its rule; None if no rule applies.
_Made = list[tuple[str, str] | None]


@dataclass
class AROCrepeConfig(VerifiedConfig):
    """One kind of negatives; another `seed`, any whole number, draws others."""

    seed: int = 0


class AROCrepe(ReleasedRows):
    """Four configurations, one split `test`; the card has the columns and the layout of `data_dir`, SugarCrepe's."""

    config: AROCrepeConfig
    BUILDER_CONFIG_CLASS = AROCrepeConfig
    BUILDER_CONFIGS: ClassVar = make_configs(AROCrepeConfig, "ARO+CREPE", CONFIG_NAMES)
    IS_DOWNLOADED = True
    IMAGES = IMAGES
    COLUMNS = "id category image filename caption negative_caption rule"

    def _parts(self) -> Mapping[str, Rows]:
        return {name: Rows(annotation_file(name), SCHEMA) for name in CATEGORIES}

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        yield {"id": f"{part}/{key}", "filename": record["filename"], "caption": record["caption"]}

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        seed, name = self.config.seed, self.config.name
        positives = dict.fromkeys((row["filename"], row["caption"]) for row in super()._read_rows(dl_manager))
        captions = list(dict.fromkeys(caption for _, caption in positives))
        negatives = dict(zip(captions, make_negatives(name, captions, seed), strict=True))
        rows = []
        for index, (filename, caption) in enumerate(positives):
            if made := negatives[caption]:
                text = {"caption": caption, "negative_caption": made[0], "rule": made[1]}
                rows.append({"id": f"{name}/{index}", "category": name, "filename": filename, **text})
        return rows


def make_negatives(name: str, captions: Sequence[str], seed: int) -> _Made:
    """Draw one negative of each caption from all that the rules of a configuration make; return it with its rule.

    Args:
        name: one of `CONFIG_NAMES`.
        captions: n different texts; foils of REPLACE are words of other captions.
        seed: any whole number.
    """
    negatives = _shuffled(captions, seed) if name == "shuffle" else _by_rule(_KINDS[name], captions, seed)
    return [
        caption_negatives[int(caption_rng(seed, name, caption).integers(len(caption_negatives)))]
        if caption_negatives
        else None
        for caption, caption_negatives in zip(captions, negatives, strict=True)
    ]


def _by_rule(kinds: Sequence[str], captions: Sequence[str], seed: int) -> list[list[tuple[str, str]]]:
    negatives: list[list[tuple[str, str]]] = [[] for _ in captions]
    for kind in kinds:
        for caption_negatives, outcomes in zip(negatives, make_by_rule(kind, captions, seed), strict=True):
            caption_negatives += [
                (text, detail["rule"])
                for text, detail in (outcome for outcome in outcomes if isinstance(outcome, tuple))
            ]
    return negatives


def _shuffled(captions: Sequence[str], seed: int) -> list[list[tuple[str, str]]]:
    """Return the perturbations of ARO's order tasks, with the caption's first capital and full stop restored.

    ARO removes both from the caption as well. If only the caption kept them, negatives could be recognised without
    reading a word.
    """
    shuffled = perturb(captions, SHUFFLES, seed, tagger="textblob", max_words=None)
    return [
        [
            (conform(caption, text), name)
            for name, texts in shuffled.perturbed.items()
            if (text := texts[index]) is not None
        ]
        for index, caption in enumerate(captions)
    ]
