"""A study in miniature: the effect of hard negatives and hard positives on demo-clip, with toy_scenes.

After *The Hard Positive Truth* (Kamath et al. 2024, sections 5.2 and 5.3, Tables 1 and 3) and SugarCrepe (Hsieh et al.
2023, section 5.2). Hard negatives and hard positives are exact, from the scenes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
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
from ...finetune.data.training_set import TrainingSet, read_training_set
from ...finetune.train.checkpoints import read_json
from ...finetune.train.config import TrainingConfig
from ...finetune.train.training import finetune
from .examples import ARTEFACTS, make_examples, score_examples
from .findings import Study
from .report import write_study
from .variants import BASE, FULL, VARIANTS, Size, Variant, make_recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Job(NamedTuple):
    """A model to train and score: a variant with a seed; or the base, which is scored only."""

    out: Path
    size: Size
    seed: int = 0
    variant: Variant | None = None


def run_study(
    out: str | Path, size: Size = FULL, *, variants: Sequence[Variant] = VARIANTS, jobs: int = 1, progress: bool = True
) -> Study:
    """Train each variant with each seed, score all models, and write the report (see `write_study`).

    A variant is a model folder of `finetune`, such as ``out/seed-0/hn``. Finished ones are not trained or scored again,
    and one that was killed resumes. Each model is computed by one thread, so that the result does not depend on `jobs`.

    Args:
        out: the study's folder.
        size: how large it is.
        variants: the variants to train; findings and rows of tables that need others are left out.
        jobs: how many models are trained at once, in processes where it is more than 1; each takes 1.5 GB. Scripts
            then need the guard of `multiprocessing`, ``if __name__ == "__main__"``.
        progress: whether to show progress.

    Raises:
        ScoresError: `jobs` below 1.
        ModelError: a process died.
        DataError: ``out`` holds a study of another size, or something else.
        StorageError: no space is left; finished models stay.
    """
    if jobs < 1:
        raise ScoresError(f"jobs is {jobs}; it must be 1 or more")
    out = Path(out)
    _claim(out, size)
    trainings = [Job(out, size, seed, variant) for seed in range(size.seeds) for variant in variants]
    base = Job(out, size)
    bars = Progress(show=progress)
    bars.say(
        f"{len(trainings)} trainings on {size.captions:,} captions each, {jobs} at once; tested on {size.scenes:,} "
        "scenes"
    )
    found: dict[Job, NDArray[np.float64]] = {}
    with bars.bar("models", len(trainings) + 1) as advance:
        for job, scores in _run_all([base, *trainings], jobs):
            found[job] = scores
            advance(1)
    scores = {BASE: found[base][None]}
    scores |= {each.name: np.stack([found[job] for job in trainings if job.variant == each]) for each in variants}
    study = Study(size, make_examples(size.scenes), scores, variants)
    write_study(study, out)
    return study


def planted_training_set(variant: Variant, size: Size, seed: int) -> TrainingSet:
    """The captions on which a variant is trained, with its artefact in their negatives."""
    found = _read_captions(make_recipe(variant, size, seed).negatives, seed, size.captions)
    if variant.artefact is None:
        return found
    plant = ARTEFACTS[variant.artefact]
    return replace(found, samples=[s._replace(negatives=tuple(map(plant, s.negatives))) for s in found.samples])


@lru_cache(3)  # the kinds of a seed
def _read_captions(kinds: tuple[str, ...], seed: int, captions: int) -> TrainingSet:
    # demo-clip was trained on the train split of world 0.
    return read_training_set(
        "toy_scenes", negatives=kinds, positives=kinds, limit=captions, seed=seed, options={"seed": 1 + seed}
    )


def _claim(out: Path, size: Size) -> None:
    """Make the folder this study's; raise if it holds something else."""
    file, ours = out / "size.json", asdict(size)
    if not file.exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise DataError(f"{out} is not empty and holds no study; name a new folder")
        write_text(file, json.dumps(ours) + "\n")
    theirs = read_json(file, out)
    if not isinstance(theirs, dict) or {**theirs, "seeds": 0} != {**ours, "seeds": 0}:
        raise DataError(f"{out} holds a study of another size ({theirs}, not {ours}); name a new folder")


def _run_all(every: Sequence[Job], jobs: int) -> Iterator[tuple[Job, NDArray[np.float64]]]:
    """Each job with its scores, as they are finished."""
    if jobs == 1:
        yield from ((job, _run(job)) for job in every)
        return
    pool = ProcessPoolExecutor(min(jobs, len(every)), get_context("spawn"), initializer=end_with_parent)
    try:
        futures: dict[Future[NDArray[np.float64]], Job] = {pool.submit(_run, job): job for job in every}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise ModelError(
            "a process of the study died, perhaps for lack of memory; the same command resumes, with fewer at once by "
            "--jobs"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _run(job: Job) -> NDArray[np.float64]:
    """The scores of a model from its file, or after training by one thread, written there with 7 digits."""
    import torch

    size, variant, model, file = job.size, job.variant, BASE, job.out / "base.json"
    facts: dict[str, Any] = {"scenes": size.scenes, "code": code_version()}
    if variant is None:
        recipe = None
        facts["model"] = BASE
    else:
        recipe, model = make_recipe(variant, size, job.seed), str(job.out / f"seed-{job.seed}" / variant.name)
        facts |= {"recipe": recipe.as_json(), "artefact": variant.artefact, "captions": size.captions}
        file = Path(model) / "training" / "study.json"
    if file.exists():
        content = json.loads(file.read_text("utf-8"))
        if content["facts"] == json.loads(json.dumps(facts)):
            return np.array(content["scores"])
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if variant is not None and recipe is not None:
            config = TrainingConfig(micro_batch=size.batch_size, workers=1)
            training_set = planted_training_set(variant, size, job.seed)
            finetune(BASE, training_set, model, recipe, config=config, progress=False)
        scores = score_examples(load_model(model, LoadOptions(default_device(0))), make_examples(size.scenes))
    finally:
        torch.set_num_threads(before)
    content = {"facts": facts, "scores": [[round(value, 7) for value in row] for row in scores.tolist()]}
    write_text(file, json.dumps(content) + "\n")
    return np.array(content["scores"])
