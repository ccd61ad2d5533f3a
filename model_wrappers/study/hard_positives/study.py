"""A study in miniature: hard negatives, hard positives and in-batch negatives on toy_scenes, from a bag of words.

After *The Hard Positive Truth* (Kamath et al. 2024, sections 5.2 and 5.3, Tables 1 and 3), SugarCrepe (Hsieh et al.
2023, section 5.2) and ARO (Yuksekgonul et al. 2023, section 3). Hard negatives and hard positives are exact, from the
scenes.
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

from ....hub_datasets.toy_scenes.episodes import rng_for, sample_episode
from ....metrics.common.errors import DataError, ModelError, ScoresError
from ....metrics.common.storage import write_text
from ....metrics.records.results import code_version
from ...demo_clip_web.captions import web_captions
from ...engine.distributed import default_device, end_with_parent
from ...engine.families import load_model
from ...engine.progress import Progress
from ...engine.protocol import LoadOptions
from ...finetune.data.captions import Sample, SceneImages
from ...finetune.data.hard_negatives import add_hard_captions
from ...finetune.data.training_set import TrainingSet
from ...finetune.train.checkpoints import read_json
from ...finetune.train.config import TrainingConfig
from ...finetune.train.training import finetune
from .examples import make_examples, score_examples
from .findings import Study
from .report import write_study
from .variants import BASE, FULL, GROUPS, VARIANTS, Group, Size, Variant, make_recipe, make_web_recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The purpose of the random numbers of captions, none of toy_scenes'.
_PURPOSE = 1001


class Job(NamedTuple):
    """A model to train and score: a variant or a group with a seed; or the base, which is scored only."""

    out: Path
    size: Size
    seed: int = 0
    kind: Variant | Group | None = None

    @property
    def folder(self) -> Path:
        """The folder of its model and scores."""
        return self.out / (f"seed-{self.seed}/{self.kind.name}" if self.kind else "base")


def run_study(
    out: str | Path,
    size: Size = FULL,
    *,
    variants: Sequence[Variant] = VARIANTS,
    groups: Sequence[Group] = GROUPS,
    jobs: int = 1,
    progress: bool = True,
) -> Study:
    """Train each variant and group with each seed, score all models, and write the report (see `write_study`).

    A variant is a model folder of `finetune`, such as ``out/seed-0/hn``. Finished ones are not trained or scored again,
    and a variant that was killed resumes. Each model is computed by one thread, so that the result does not depend on
    `jobs`.

    Args:
        out: the study's folder.
        size: how large it is.
        variants: the variants to fine-tune; findings and rows of tables that need others are left out.
        groups: the models of the curve, trained from nothing.
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
    every = [
        Job(out, size),
        *(Job(out, size, seed, each) for seed in range(size.seeds) for each in (*variants, *groups)),
    ]
    bars = Progress(show=progress)
    bars.say(
        f"{size.seeds * len(variants)} trainings on {size.captions:,} captions and {size.seeds * len(groups)} from "
        f"nothing, {jobs} at once; "
        f"tested on {size.scenes:,} scenes"
    )
    found: dict[Job, NDArray[np.float64]] = {}
    with bars.bar("models", len(every)) as advance:
        for job, scores in _run_all(every, jobs):
            found[job] = scores
            advance(1)
    by_name: dict[str, list[NDArray[np.float64]]] = {}
    for job in every:
        by_name.setdefault(job.kind.name if job.kind else BASE, []).append(found[job])
    scores = {name: np.stack(each) for name, each in by_name.items()}
    study = Study(size, make_examples(size.scenes), scores, variants, groups)
    write_study(study, out)
    return study


def study_training_set(variant: Variant, size: Size, seed: int) -> TrainingSet:
    """The captions on which a variant is fine-tuned, in common words, with its negatives and positives."""
    found = _read_captions(make_recipe(variant, size, seed).negatives, seed, size.captions)
    if not variant.stop:
        return found
    stopped = [sample._replace(negatives=tuple(map("{}.".format, sample.negatives))) for sample in found.samples]
    return replace(found, samples=stopped)


@lru_cache(3)  # the kinds of a seed
def _read_captions(kinds: tuple[str, ...], seed: int, captions: int) -> TrainingSet:
    """Captions of scenes that no other model saw, negatives in common and rare words alike, positives in rare ones."""
    scenes, samples, number, world = {}, {}, 0, 1 + seed
    while len(samples) < captions:
        episode, image = sample_episode(world, "train", number), f"train-{number:06d}.png"
        scenes[image] = episode.scene
        for statement in web_captions(episode, rng_for(world, "train", number, _PURPOSE), rare=0):
            key = (image, statement.text)
            samples[key] = Sample(*key, id=f"{image}#{len(samples)}")
        number += 1
    images = SceneImages(scenes)
    rows, lost = add_hard_captions([*samples.values()][:captions], images, kinds, kinds, (), seed)
    return TrainingSet("toy_scenes in common words", rows, images, lost=lost, source={"seed": world, "limit": captions})


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

    size, kind, file = job.size, job.kind, job.folder / "training" / "study.json"
    facts: dict[str, Any] = {"scenes": size.scenes, "code": code_version()}
    if isinstance(kind, Variant):
        facts |= {"recipe": make_recipe(kind, size, job.seed).as_json(), "stop": kind.stop, "captions": size.captions}
    elif kind is not None:
        facts["recipe"] = asdict(make_web_recipe(kind, size, job.seed))
    if file.exists():
        content = json.loads(file.read_text("utf-8"))
        if content["facts"] == json.loads(json.dumps(facts)):
            return np.array(content["scores"])
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = _trained(job)
        scores = score_examples(load_model(model, LoadOptions(default_device(0))), make_examples(size.scenes))
    finally:
        torch.set_num_threads(before)
    content = {"facts": facts, "scores": [[round(value, 7) for value in row] for row in scores.tolist()]}
    write_text(file, json.dumps(content) + "\n")
    return np.array(content["scores"])


def _trained(job: Job) -> str:
    """Train the model of a job, if it has one; its name or folder."""
    from ...demo_clip_web.train import train

    size, kind, folder = job.size, job.kind, job.folder
    if kind is None:
        return BASE
    if isinstance(kind, Variant):
        config = TrainingConfig(micro_batch=size.batch_size, workers=1)
        training_set = study_training_set(kind, size, job.seed)
        finetune(BASE, training_set, folder, make_recipe(kind, size, job.seed), config=config, progress=False)
    elif not (folder / "model.safetensors").exists():
        folder.mkdir(parents=True, exist_ok=True)
        *others, model = reversed(train(make_web_recipe(kind, size, job.seed), quiet=True))
        for part in (*others, model):  # the weights last: they show that the training ended
            part.save_pretrained(folder)
    return str(folder)
