"""What several test files of the runner use: models that tell what they saw, runs, processes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import ModelInfo, predict

REFERENCES = ("sugarcrepe/add_att", "sugarcrepe/swap_obj")
UNVERIFIED = {"verify": False}


def scores_of(path):
    return {row.id: row.scores for row in read_predictions(path).rows}


def all_scores(paths):
    return np.array([score for path in paths for rows in scores_of(path).values() for score in rows[0]])


def run_quietly(model, folder, out, references=REFERENCES, **options):
    return predict(model, references, out=out, data_dir=folder, options=UNVERIFIED, progress=False, **options)


class Recorder:
    """A dual encoder in NumPy that counts what it encodes and can fail on the way."""

    def __init__(self, noise=0.0, fail_after=None, name="recorder"):
        self.info = ModelInfo(name, "test", name, "1", "float32")
        self.max_tokens = 1000
        self.images = self.captions = self.exact = 0
        self.noise, self.fail_after = noise, fail_after
        self.rng = np.random.default_rng(0)

    def prepare_image(self, image):
        return np.asarray(image.convert("RGB").resize((4, 4)), np.float32).ravel() - 128

    def prepare_captions(self, captions):
        return [list(caption.encode()) for caption in captions]

    def encode_images(self, images, *, exact=False):
        return self._embed(np.stack(images), "images", exact)

    def encode_captions(self, captions, *, exact=False):
        rows = [np.bincount([byte % 48 for byte in ids], np.arange(1, len(ids) + 1), 48) for ids in captions]
        return self._embed(np.stack(rows), "captions", exact)

    def _embed(self, rows, kind, exact):
        if exact:
            assert len(rows) == 1
            self.exact += 1
        else:
            setattr(self, kind, getattr(self, kind) + len(rows))
            if self.fail_after is not None and self.images + self.captions > self.fail_after:
                raise KeyboardInterrupt
        rows = rows.astype(np.float64)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        if exact or not self.noise:
            return rows
        rows = rows + self.noise * self.rng.standard_normal(rows.shape)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Pairs:
    """A pair scorer whose score tells the image and the caption; can stop after so many images."""

    def __init__(self, stop_after=None, wrong=False):
        self.info = ModelInfo("pairs", "test", "pairs", "1", "float64")
        self.seen, self.stop_after, self.wrong = 0, stop_after, wrong

    def score(self, image, captions):
        self.seen += 1
        if self.stop_after is not None and self.seen > self.stop_after:
            raise KeyboardInterrupt
        level = float(np.asarray(image.convert("L"), np.float64).mean())
        return [level + len(caption) / 1000 for caption in captions][: 1 if self.wrong else None]


def command(*arguments, processes=1, **environment):
    launcher = [sys.executable, "-m"]
    if processes > 1:
        launcher += ["torch.distributed.run", "--standalone", "--nproc_per_node", str(processes), "-m"]
    env = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.Popen(
        [*launcher, "vl_assay.metrics.common.command_line", *map(str, arguments)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


# A file of settings: without the cache, which would spare a run that goes on all its work.
NO_CACHE = Path(__file__).with_name("no_cache.yaml")
