"""What the leaderboard opens with: the papers' tables, and the recomputed results of the demo models.

The tables are those of ``hub_datasets._published``, each value with its address. Here are the models that stand behind
their labels, under one name in all papers where the checkpoint is the same, and where on the leaderboard a column
belongs that no task here scores.

The folder ``launch`` has the predictions of the demo models, and of two mocks as references, on toy_scenes, and the
results computed from them. ``tests/make_launch_predictions.py`` makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ...hub_datasets.published.tables import NOTHING, Column, Row, Table, all_tables
from ...metrics.records.predictions import read_predictions
from ...metrics.records.results import Result, read_results
from ..submissions.plausibility import scores_hash
from .entries import CHANCE, PUBLISHED, REFERENCE, Entry, of_results, parameter_count

HUMAN = "Human"
SHIPPED = "shipped with VL-Assay"
RESULTS = Path(__file__).parents[1] / "launch" / "results.json"


class Model(NamedTuple):
    """What the leaderboard says of a model of the papers."""

    name: str
    family: str
    parameters: int | None
    training_data: str
    is_baseline: bool = False


class Place(NamedTuple):
    """What a column measures."""

    benchmark: str
    task: str
    metric: str
    score: str
    category: str = ""


# These tables, as those of the papers, name families, metrics and scores.
# Name | family | parameters | training data | labels | "blind" where it reads no image. The sizes are those of
# SugarCrepe's Table 6, whose architectures the others share, or stand in a model's name; the data are from that table,
# TRICD's Table 2 and the papers' texts.
_MODELS = """
CLIP ViT-B/32 | clip | 151M | WIT 400M | sugarcrepe/ViT-B-32, aro/CLIP, hard-positives/CLIP ViT-B/32
CLIP ViT-B/16 | clip | 150M | WIT 400M | hard-positives/CLIP ViT-B/16
CLIP ViT-L/14 | clip | 428M | WIT 400M | sugarcrepe/ViT-L-14, hard-positives/CLIP ViT-L/14
CLIP RN50 | clip | 102M | WIT 400M | sugarcrepe/RN50
CLIP RN101 | clip | 120M | WIT 400M | sugarcrepe/RN101, hard-positives/CLIP-RN101
CLIP RN50x4 | clip | 178M | WIT 400M | sugarcrepe/RN50x4
CLIP RN50x16 | clip | 291M | WIT 400M | sugarcrepe/RN50x16, hard-positives/CLIP-RN50x16
CLIP RN50x64 | clip | 623M | WIT 400M | sugarcrepe/RN50x64, hard-positives/CLIP-RN50x64
NegCLIP | clip | 151M | WIT 400M, COCO | sugarcrepe/ViT-B-32-negclip, aro/NegCLIP, hard-positives/NegCLIP
CLIP-FT | clip | 151M | WIT 400M, COCO | aro/CLIP-FT
CREPE-Swap | clip | 151M | WIT 400M, hard negatives | hard-positives/CREPE-Swap
CREPE-Replace | clip | 151M | WIT 400M, hard negatives | hard-positives/CREPE-Replace
SVLC | clip | 151M | WIT 400M, hard negatives | hard-positives/SVLC
SVLC+Pos | clip | 151M | WIT 400M, hard negatives | hard-positives/SVLC+Pos
DAC-LLM | clip | 151M | WIT 400M, hard negatives | hard-positives/DAC-LLM
DAC-SAM | clip | 151M | WIT 400M, hard negatives | hard-positives/DAC-SAM
CLIP + HN (Kamath et al.) | clip | 151M | WIT 400M, COCO | hard-positives/Our HN
CLIP + HP+HN (Kamath et al.) | clip | 151M | WIT 400M, COCO | hard-positives/Our HP+HN
CLIP + HP+HN, swap only (Kamath et al.) | clip | 151M | WIT 400M, COCO | hard-positives/Our HP+HN (Swap-only)
CLIP + HP+HN, replace only (Kamath et al.) | clip | 151M | WIT 400M, COCO | hard-positives/Our HP+HN (Replace-only)
OpenCLIP ViT-H/14 | clip | 986M | LAION 2B | sugarcrepe/ViT-H-14, hard-positives/OpenCLIP ViT-H/14
OpenCLIP ViT-g/14 (s12b) | clip | 1367M | LAION 2B | sugarcrepe/ViT-g-14
OpenCLIP ViT-g/14 (s34b) | clip | 1367M | LAION 2B | hard-positives/OpenCLIP ViT-g/14
OpenCLIP ViT-G/14 | clip | 2540M | LAION 2B | sugarcrepe/ViT-bigG-14, hard-positives/OpenCLIP ViT-G/14
RoBERTa-CLIP ViT-B/32 | clip | 212M | LAION 2B | sugarcrepe/roberta-ViT-B-32, hard-positives/RoBERTa-CLIP ViT-B/32
XLM-RoBERTa-CLIP ViT-B/32 | clip | 366M | LAION 5B | sugarcrepe/xlm-roberta-base-ViT-B-32
XLM-RoBERTa-CLIP ViT-H/14 | clip | 1193M | LAION 5B | sugarcrepe/xlm-roberta-large-ViT-H-14
DataComp ViT-B/32 (S) | clip | 151M | DataComp 13M | sugarcrepe/small: ViT-B-32
DataComp ViT-B/32 (M) | clip | 151M | DataComp 128M | sugarcrepe/medium: ViT-B-32
DataComp ViT-B/16 (L) | clip | 150M | DataComp 1B | sugarcrepe/large: ViT-B-16
DataComp ViT-B/32 (XL) | clip | 151M | DataComp 13B | hard-positives/DataComp-CLIP ViT-B/32
DataComp ViT-B/16 (XL) | clip | 150M | DataComp 13B | hard-positives/DataComp-CLIP ViT-B/16
DataComp ViT-L/14 (XL) | clip | 428M | DataComp 13B | sugarcrepe/xlarge: ViT-L-14, hard-positives/DataComp-CLIP ViT-L/14
BLIP, fine-tuned on COCO | blip | | | aro/BLIP
BLIP, fine-tuned on Flickr30k | blip | | | aro/BLIP (Flickr30k-PRC)
XVLM, fine-tuned on COCO | x-vlm | | | aro/XVLM
XVLM, fine-tuned on Flickr30k | x-vlm | | | aro/XVLM (Flickr30k-PRC)
XVLM-16M | x-vlm | | | hard-positives/XVLM-16M*
FLAVA | flava | | | aro/Flava
GPT-4V | gpt-4v | | | sugarcrepe/GPT-4V [33]
MDETR | mdetr | | 1.3M grounded | tricd/MDETR
GLIP-T | glip | | 1.3M grounded, 600K detection | tricd/GLIP-T, tricd/GlipT
GLIP-L | glip | | 27M grounded, 9.8M detection | tricd/GLIP-L, tricd/GlipL
FIBER | fiber | | 4M image-text, 1.3M grounded, 600K detection | tricd/FIBER
OWL-ViT | owlvit | | 400M image-text, 80K grounded, 2.5M detection | tricd/OWL-ViT, tricd/OWL-VIT
DETIC | detic | | 400M image-text, 100K detection | tricd/DETIC
OFA | ofa | | 20M image-text, 3.2M grounded, 2.98M detection | tricd/OFA
FIBER (coarse-grained, VQA) | fiber | | 4M image-text | tricd-4/FIBER
Flamingo 3B | flamingo | 3B | 1.9B image-text | tricd/Flamingo3B
Flamingo 80B | flamingo | 80B | 1.9B image-text | tricd/Flamingo80B
Vera | vera | | | sugarcrepe/Vera [27] | blind
Grammar model | cola_grammar | | | sugarcrepe/Grammar [31] | blind
"""

_TRAINED = {"demo-clip": "80,000 toy scenes", "demo-owlvit": "19,200 toy scenes"}
_REFERENCES = {"Human": HUMAN, "Human Estimate": HUMAN, "Random Chance": CHANCE, "Chance-level": CHANCE}

# TRICD's test set is not public: what is printed of it has no place beside what is computed on the validation set.
_TEST_SET = ("tricd-3", "tricd-4", "tricd-5", "tricd-6")
_ELSEWHERE = {
    ("tricd-3", "Wino"): Place("tricd", "test", "cpd_ap", "ap", "winoground"),
    ("tricd-4", "Wino"): Place("tricd", "test", "yes_no_f1", "macro_f1", "winoground"),
    ("tricd-5", "Wino"): Place("tricd", "test", "grounding_recall", "recall_at_1", "winoground"),
    ("tricd-6", "Wino"): Place("tricd", "test", "group_recall_at_1", "recall_at_1", "winoground"),
    ("tricd-4", "GQA “Exists” Testdev"): Place("GQA", "exists", "yes_no_f1", "macro_f1"),
    ("tricd-5", "Flickr30k Test"): Place("Flickr30k Entities", "test", "grounding_recall", "recall_at_1"),
    ("aro-6", "CIFAR10"): Place("CIFAR10", "", "", "accuracy"),
    ("aro-6", "CIFAR100"): Place("CIFAR100", "", "", "accuracy"),
    ("aro-6", "ImageNet"): Place("ImageNet", "", "", "accuracy"),
    ("aro-6", "Flickr30k Image R@1"): Place("retrieval", "flickr30k", "retrieval_recall", "image_recall_at_1"),
    ("aro-6", "Flickr30k Text R@1"): Place("retrieval", "flickr30k", "retrieval_recall", "text_recall_at_1"),
    ("aro-6", "COCO Image R@1"): Place("retrieval", "coco", "retrieval_recall", "image_recall_at_1"),
    ("aro-6", "COCO Text R@1"): Place("retrieval", "coco", "retrieval_recall", "text_recall_at_1"),
}


def published() -> list[Entry]:
    """Every value that the papers' tables print, in their order.

    Values of people and of chance are references; none is recomputed. ``source`` names paper, table, row and column as
    they are printed. A ± is left out: it is the spread over seeds, and no confidence interval.
    """
    return [entry for table in all_tables().values() for row in table.rows for entry in _entries(table, row)]


@cache
def shipped_results() -> list[Result]:
    """The results of the predictions that ship with this package, computed with ``_submissions.OPTIONS``."""
    return read_results(RESULTS)


def shipped_predictions() -> dict[str, Path]:
    """The files of these predictions, by their SHA-256."""
    return {result.predictions["sha256"]: RESULTS.with_name(result.predictions["file"]) for result in shipped_results()}


@cache
def shipped_scores(benchmark: str, task: str) -> dict[str, str]:
    """The models of these predictions that belong to a task, by the hash of their scores."""
    found = {
        result.predictions["sha256"]: result.model["name"]
        for result in shipped_results()
        if (result.benchmark["name"], result.benchmark["task"]) == (benchmark, task)
    }
    return {scores_hash(read_predictions(shipped_predictions()[hash])): name for hash, name in found.items()}


def shipped(submitted: Iterable[Entry]) -> list[Entry]:
    """The entries of these predictions beside those of submissions.

    Where a submission bears the name of such a model but has another predictions file, nobody knows whether it is the
    same model, and the shipped one's name says that it is shipped.
    """
    found = [
        entry
        for result in shipped_results()
        for entry in of_results(
            [result], model={"training_data": _TRAINED.get(result.model["checkpoint"])}, source=SHIPPED
        )
    ]
    own = {(entry.model, entry.predictions) for entry in found}
    taken = {entry.model for entry in submitted if (entry.model, entry.predictions) not in own}
    return [replace(entry, model=f"{entry.model}, {SHIPPED}") if entry.model in taken else entry for entry in found]


def model_of(table: Table, row: Row) -> Model:
    """The model behind a row of a table, under the leaderboard's name for it.

    Raises:
        KeyError: `_MODELS` does not have the row's label.
    """
    if not row.run.is_model:
        return Model(_REFERENCES[row.label], "", None, "")
    paper = table.name.rpartition("-")[0]
    keys = (f"{table.name}/{row.label}", f"{paper}/{row.name}", f"{paper}/{row.label}")
    return next((_models()[key] for key in keys if key in _models()), None) or _models()[keys[-1]]


def place_of(table: Table, column: Column) -> Place:
    """What a column of a table measures.

    Raises:
        KeyError: no task scores the column and `_ELSEWHERE` does not have it.
    """
    if not column.task:
        return _ELSEWHERE[table.name, column.name]
    benchmark, _, task = column.task.partition("/")
    *path, score = column.score
    return Place(benchmark, "test" if table.name in _TEST_SET else task, column.metric, score, (path or [""])[-1])


def _entries(table: Table, row: Row) -> Iterator[Entry]:
    model = model_of(table, row)
    for column, printed in zip(table.columns, row.printed, strict=True):
        if printed != NOTHING:
            yield Entry(
                *model[:4],
                *place_of(table, column),
                value=float(printed.partition("±")[0]) / table.unit,
                interval=None,
                n=column.n,
                origin=PUBLISHED if row.run.is_model else REFERENCE,
                source=_address(table, row, column),
                status="published",
                predictions="",
                is_baseline=model.is_baseline,
            )


def _address(table: Table, row: Row, column: Column) -> str:
    line, header = " / ".join(filter(None, (row.group, row.label))), column.header or column.name
    if table.transposed:
        line, header = header, line
    return f"{table.paper.short}, Table {table.number}, row {line}, column {header}"


@cache
def _models() -> dict[str, Model]:
    found = {}
    for line in _MODELS.strip().splitlines():
        name, family, parameters, data, labels, *blind = (part.strip() for part in line.split("|"))
        model = Model(name, family, parameter_count(parameters), data, is_baseline=bool(blind))
        found |= dict.fromkeys(labels.split(", "), model)
    return found
