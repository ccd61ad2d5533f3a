"""A study in miniature: what hard negatives and hard positives do to a model, on toy_scenes with demo-clip.

After *The Hard Positive Truth* (Kamath et al. 2024, sections 5.2 and 5.3, Tables 1 and 3) and SugarCrepe (Hsieh et al.
2023, section 5.2). Only the losses and the texts that they look at differ between the variants: the captions, their
order, the number of steps and the learning rate are the same. The hard negatives and hard positives are exact, from
the scenes; NegCLIP's loss is taken without its neighbouring images, so that it sees no more images than the others.

How long and how fast is trained was settled before the study was run, by cost and by training loss alone. As many
steps are taken as three seeds can in less than forty minutes of two CPU cores. The learning rate is, of 5e-5, 1e-4,
2e-4 and 4e-4, the one with the lowest loss over the last 100 of 300 steps on new captions (HN, a seed of its own:
0.462, 0.452, 0.449, 0.461; at 4e-4 the loss rises first).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....metrics.common.errors import DataError, ModelError, ScoresError
from ....metrics.common.storage import write_text
from ....metrics.records.results import code_version
from ...engine.distributed import default_device, end_with_parent
from ...engine.families import load_model
from ...engine.progress import Progress
from ...engine.protocol import LoadOptions
from ..data.data import TrainingSet, read_training_set
from ..train.checkpoints import read_json
from ..train.losses import Weights
from ..train.recipes import Recipe, get_recipe
from ..train.training import TrainingConfig, finetune
from ._examples import ARTEFACTS, Example, make_examples, score_examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ARTEFACTS", "BASE", "FULL", "QUICK", "VARIANTS", "Example", "Size", "Study", "Variant", "run_study"]

MODEL = BASE = "demo-clip"


@dataclass(frozen=True)
class Variant:
    """One way to fine-tune.

    Args:
        name: of its folder.
        label: its row in the tables.
        recipe: the recipe that it follows in all that is not said here.
        weights: what each loss counts.
        kinds: of hard negatives and hard positives, of ``"swap"`` and ``"replace"``.
        artefact: of `ARTEFACTS`, the one that all its negatives have.
    """

    name: str
    label: str
    recipe: str
    weights: Weights
    kinds: tuple[str, ...] = ("swap", "replace")
    artefact: str | None = None


_NEGCLIP, _HN, _BOTH = Weights(contrastive=0, negclip=1), Weights(hard_negative=1), Weights(1, 0, 1, 1)
VARIANTS = (
    Variant("plain", "plain fine-tuning", "coco", Weights()),
    Variant("negclip-swap", "NegCLIP's loss, swap", "negclip", _NEGCLIP, ("swap",)),
    Variant("negclip-replace", "NegCLIP's loss, replace", "negclip", _NEGCLIP, ("replace",)),
    Variant("hn", "HN", "hn", _HN),
    Variant("hp+hn", "HP+HN", "hp+hn", _BOTH),
    Variant("swap-only", "HP+HN, swap only", "swap-only", _BOTH, ("swap",)),
    Variant("replace-only", "HP+HN, replace only", "replace-only", _BOTH, ("replace",)),
    *(
        Variant(f"hn-weight-{weight:g}", f"HP + {weight:.2f} HN", "hp+hn", _BOTH._replace(hard_negative=weight))
        for weight in (0, 0.25, 0.5, 0.75)
    ),
    Variant("hn-article", "HN, negatives with a wrong article", "hn", _HN, artefact="article"),
    Variant("hn-stop", "HN, negatives with a final stop", "hn", _HN, artefact="stop"),
)


@dataclass(frozen=True)
class Size:
    """How large a study is.

    Args:
        captions: that each variant is trained on, five for a scene; others for each seed.
        epochs, batch_size, learning_rate, warmup_steps: of each training. demo-clip was trained at 1e-3, for 6,200
            steps of 128 captions.
        scenes: of the test split that are tested on, at most 1,000.
        seeds: how many trainings each variant has.
    """

    captions: int
    scenes: int
    seeds: int = 3
    epochs: int = 2
    batch_size: int = 32
    learning_rate: float = 2e-4
    warmup_steps: int = 10

    def __post_init__(self) -> None:
        limits = {"captions": (2, 10**6), "scenes": (2, 1000), "seeds": (1, 100)}
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ScoresError(f"{name} is {getattr(self, name)}; it must be from {low} to {high}")


FULL = Size(captions=5000, scenes=1000)
QUICK = Size(captions=320, scenes=150, seeds=1)


@dataclass(frozen=True)
class Study:
    """What came of a study.

    Args:
        size: how large it was.
        examples: what the models were tested on, m of them.
        scores: by variant, `BASE` among them, cosines of shape (seeds, m, 3); the base has a single row.
        variants: those that were trained.
    """

    size: Size
    examples: Sequence[Example]
    scores: Mapping[str, NDArray[np.float64]]
    variants: Sequence[Variant]


class Job(NamedTuple):
    """A model to score, trained first: a variant with a seed, or the base where there is none."""

    out: Path
    size: Size
    seed: int = 0
    variant: Variant | None = None


def run_study(
    out: str | Path, size: Size = FULL, *, variants: Sequence[Variant] = VARIANTS, jobs: int = 1, progress: bool = True
) -> Study:
    """Train each variant with each seed, score all models, and write the report (`_study_report.write_study`).

    A variant is a model folder, ``out/seed-0/hn``, that `finetune` wrote; those that are finished are not trained or
    scored again, and one that was killed goes on. Each is computed by one thread, so that how many are does not change
    a bit of them.

    Args:
        out: the study's folder.
        size: how large it is.
        variants: what to train; findings and rows of tables that need another are left out.
        jobs: how many are trained at once, in processes of their own where it is more than 1; each takes 1.5 GB.
            A script that asks for several needs the guard of `multiprocessing`, ``if __name__ == "__main__"``.
        progress: whether to show progress.

    Raises:
        ScoresError: no jobs.
        ModelError: one of several processes died.
        DataError: ``out`` holds a study of another size, or something else.
        StorageError: no space is left; what is finished stays.
    """
    from .report import write_study

    if jobs < 1:
        raise ScoresError(f"jobs is {jobs}; it must be 1 or more")
    out = Path(out)
    _claim(out, size)
    trainings = [Job(out, size, seed, variant) for seed in range(size.seeds) for variant in variants]
    every = [Job(out, size), *trainings]
    bars = Progress(show=progress)
    bars.say(
        f"{len(trainings)} trainings on {size.captions:,} captions each, {jobs} at once; tested on {size.scenes:,} "
        "scenes"
    )
    found: dict[Job, NDArray[np.float64]] = {}
    with bars.bar("models", len(every)) as advance:
        for job, scores in _work(every, jobs):
            found[job] = scores
            advance(1)
    scores = {BASE: found[every[0]][None]}
    for variant in variants:
        scores[variant.name] = np.stack([found[Job(out, size, seed, variant)] for seed in range(size.seeds)])
    study = Study(size, make_examples(size.scenes), scores, variants)
    write_study(study, out)
    return study


def _claim(out: Path, size: Size) -> None:
    """Make the folder this study's, or raise where it holds another one or something else."""
    file, ours = out / "size.json", asdict(size)
    if not file.exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise DataError(f"{out} is not empty and holds no study; name a new folder")
        write_text(file, json.dumps(ours) + "\n")
    theirs = read_json(file, out)
    if not isinstance(theirs, dict) or {**theirs, "seeds": 0} != {**ours, "seeds": 0}:
        raise DataError(f"{out} holds a study of another size ({theirs}, not {ours}); name a new folder")


def _work(every: Sequence[Job], jobs: int) -> Iterator[tuple[Job, NDArray[np.float64]]]:
    """Each job with its scores, as they come."""
    if jobs == 1:
        yield from ((job, _by_one_thread(job)) for job in every)
        return
    pool = ProcessPoolExecutor(min(jobs, len(every)), get_context("spawn"), initializer=end_with_parent)
    try:
        futures: dict[Future[NDArray[np.float64]], Job] = {pool.submit(_by_one_thread, job): job for job in every}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise ModelError(
            "a process of the study died, perhaps for want of memory; the same command goes on, with fewer at once by "
            "--jobs"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _by_one_thread(job: Job) -> NDArray[np.float64]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _scores_of(job)
    finally:
        torch.set_num_threads(before)


def make_recipe(variant: Variant, size: Size, seed: int) -> Recipe:
    """The recipe of a variant in a study of that size."""
    kinds = tuple(f"scene:{kind}" for kind in variant.kinds)
    return replace(
        get_recipe(variant.recipe),
        name=variant.name,
        gaps="In miniature: data, length and learning rate are those of `vl-assay study hard-positives`.",
        weights=variant.weights,
        negatives=kinds,
        positives=kinds,
        neighbours=0,
        epochs=size.epochs,
        batch_size=size.batch_size,
        learning_rate=size.learning_rate,
        warmup_steps=size.warmup_steps,
        seed=seed,
    )


def _scores_of(job: Job) -> NDArray[np.float64]:
    """The scores of a model, trained first where it is not there yet."""
    size, variant, examples = job.size, job.variant, make_examples(job.size.scenes)
    if variant is None:
        facts = {"model": MODEL, "scenes": size.scenes, "code": code_version()}
        return _scored(job.out / "base.json", facts, MODEL, examples)
    recipe, folder = make_recipe(variant, size, job.seed), job.out / f"seed-{job.seed}" / variant.name
    facts = {"recipe": recipe.as_json(), "artefact": variant.artefact, "captions": size.captions}
    facts |= {"scenes": size.scenes, "code": code_version()}
    file = folder / "training" / "study.json"
    scores = _read_scores(file, facts)
    if scores is not None:
        return scores
    running = TrainingConfig(micro_batch=size.batch_size, workers=1)
    finetune(MODEL, _planted(recipe, size, variant.artefact), folder, recipe, running=running, progress=False)
    return _scored(file, facts, str(folder), examples)


def _planted(recipe: Recipe, size: Size, artefact: str | None) -> TrainingSet:
    """The captions of a study, with the artefact in their negatives."""
    found = _read_training_set(recipe.negatives, recipe.seed, size.captions)
    if artefact is None:
        return found
    plant = ARTEFACTS[artefact]
    return replace(found, samples=[s._replace(negatives=tuple(map(plant, s.negatives))) for s in found.samples])


@lru_cache(3)  # the kinds of a seed
def _read_training_set(kinds: tuple[str, ...], seed: int, captions: int) -> TrainingSet:
    # demo-clip has learned from the train split of world 0.
    return read_training_set(
        "toy_scenes", negatives=kinds, positives=kinds, limit=captions, seed=seed, options={"seed": 1 + seed}
    )


def _scored(file: Path, facts: Mapping[str, Any], model: str, examples: Sequence[Example]) -> NDArray[np.float64]:
    """A model's scores from its file, or computed and written there."""
    scores = _read_scores(file, facts)
    if scores is None:
        scores = score_examples(load_model(model, LoadOptions(default_device(0))), examples)
        content = {"facts": facts, "scores": [[round(value, 7) for value in row] for row in scores.tolist()]}
        write_text(file, json.dumps(content) + "\n")
        scores = np.array(content["scores"])
    return scores


def _read_scores(file: Path, facts: Mapping[str, Any]) -> NDArray[np.float64] | None:
    if not file.exists():
        return None
    content = json.loads(file.read_text("utf-8"))
    return np.array(content["scores"]) if content["facts"] == json.loads(json.dumps(facts)) else None
