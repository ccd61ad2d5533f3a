"""A model of one's own returns what its forward gives: numbers of any library, dtype and device, with gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import Recorder

from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import ModelInfo, predict
from vl_assay.model_wrappers.engine.checking import check
from vl_assay.model_wrappers.engine.protocol import Detections

INFO = ModelInfo("mine")
# What a forward may give for float64 numbers that all types hold exactly.
FORMS = {
    "lists": lambda rows: rows.tolist(),
    "float16": lambda rows: rows.astype(np.float16),
    "integers": lambda rows: rows.astype(np.int64),
    "booleans": lambda rows: rows.astype(bool),
    "a tensor": torch.from_numpy,
    "bfloat16": lambda rows: torch.from_numpy(rows).bfloat16(),
    "half": lambda rows: torch.from_numpy(rows).half(),
    "whole numbers": lambda rows: torch.from_numpy(rows).long(),
    "gradients": lambda rows: torch.from_numpy(rows).requires_grad_(),
    "a parameter": lambda rows: torch.nn.Parameter(torch.from_numpy(rows).bfloat16()),
    "a sparse tensor": lambda rows: torch.from_numpy(rows).to_sparse(),
    "a list of tensors": lambda rows: list(torch.from_numpy(rows).requires_grad_()),
    "a list of arrays": lambda rows: list(rows.astype(np.float32)),
}


class Model:
    """Answers of 0 and 1 in one of `FORMS`."""

    info, max_tokens = INFO, 1000

    def __init__(self, form):
        self.form = form

    def prepare_image(self, image):
        return np.asarray(image).sum() % 2

    def prepare_captions(self, captions):
        return [list(caption.encode()) for caption in captions]

    def values(self, count):
        return self.form(np.arange(count) % 2.0)


class Dual(Model):
    def encode_images(self, images, *, exact=False):
        return self.form(np.eye(3)[[int(image) for image in images]])

    def encode_captions(self, captions, *, exact=False):
        return self.form(np.eye(3)[[len(ids) % 2 for ids in captions]])


class Cross(Model):
    def encode_images(self, images, *, exact=False):
        return images

    def match(self, features, images, captions, *, exact=False):
        return self.form(np.array([float(len(ids) % 2) for ids in captions]))

    prepare_questions, answer = Model.prepare_captions, match


class Choice(Model):
    encode_images = Cross.encode_images

    def prepare_choices(self, captions):
        return self.prepare_captions(captions)

    def choose(self, features, images, choices, *, exact=False):
        return [self.values(len(choice)) for choice in choices]


class Pairs:
    info = INFO

    def __init__(self, form):
        self.form = form

    def score(self, image, captions):
        return self.form(np.arange(len(captions)) % 2.0)


class TextPairs:
    info = INFO

    def __init__(self, form):
        self.form = form

    def score_texts(self, text, others):
        return self.form(np.array([float(len(other) % 2) for other in others]))


class TextOnly(Model):
    def score_captions(self, captions, *, exact=False):
        return self.form(np.array([float(len(ids) % 2) for ids in captions]))


class Boxes(Model):
    def detect(self, images, sizes, queries):
        boxes, scores = np.array([[0.0, 0, 1, 1], [0, 1, 1, 1]]), np.array([1.0, 0])
        return [[Detections(self.form(boxes), self.form(scores)) for _ in asked] for asked in queries]


class Remote:
    info, task_types, compares_texts, threads = INFO, ("matching", "vqa"), False, 2

    def __init__(self, form):
        self.form = form

    def plan(self, items):
        return "nothing"

    def connect(self):
        pass

    def ask(self, item):
        return self.form(np.array([float(len(text) % 2) for text in item.texts]))

    def facts(self, items):
        return {}

    stop = connect


PROTOCOLS = [
    (Dual, "itm"),
    (Dual, "paraphrases"),
    (Cross, "groups"),
    (Cross, "vqa"),
    (Choice, "itm"),
    (Pairs, "itm"),
    (TextOnly, "itm"),
    (TextPairs, "paraphrases"),
    (Boxes, "detection"),
    (Remote, "itm"),
    (Remote, "vqa"),
]


def rows(model, part, out):
    [file] = predict(model, f"toy_scenes/{part}", out=out, limit=7, progress=False)
    return [[getattr(row, name, None) for name in ("scores", "score", "boxes")] for row in read_predictions(file).rows]


@pytest.mark.parametrize(("protocol", "part"), PROTOCOLS)
def test_the_numbers_of_every_library_are_read(protocol, part, toy, tmp_path):
    expected = rows(protocol(lambda values: values), part, tmp_path / "float64")
    forms = FORMS if part == "itm" and protocol in (Dual, Pairs) else ("a parameter", "a list of tensors")
    for name in forms:
        assert rows(protocol(FORMS[name]), part, tmp_path / name) == expected, name


@pytest.mark.parametrize(
    ("protocol", "part", "form", "message"),
    [
        (
            Pairs,
            "itm",
            lambda values: ["high", "low"],
            "mine gave something else than rows of numbers .*return an array",
        ),
        (Pairs, "itm", lambda values: values + 1j, "something else than rows of numbers .*complex"),
        (Pairs, "itm", lambda values: torch.from_numpy(values) + 1j, "something else .*complex numbers"),
        (Pairs, "itm", lambda values: values[:, None], r"of the shape \((\d+), 1\) for \1 texts; expected \(\1,\)"),
        (Pairs, "itm", lambda values: values * np.nan, "NaN or infinity"),
        (Choice, "itm", lambda values: values[:-1], r"of the shape \(1,\) for 2 texts"),
        (Dual, "itm", lambda rows: rows * np.nan, "NaN or infinity"),
        (Dual, "itm", lambda rows: rows * 2, "embeddings of images of length 2 to 2; .*divide each by its norm"),
        (Dual, "itm", lambda rows: rows * 0, "of length 0 to 0"),
        (Dual, "itm", lambda rows: rows[:, None], "expected one row of numbers for each item"),
        (Dual, "itm", lambda rows: list(rows)[:-1], "gave .* results for .* items"),
        (Boxes, "detection", lambda values: values.ravel(), r"boxes of the shape \(8,\) and scores .*\(2,\)"),
    ],
)
def test_other_results_are_refused(protocol, part, form, message, toy, tmp_path):
    with pytest.raises(ModelError, match=message):
        rows(protocol(form), part, tmp_path)
    with pytest.raises(ModelError, match=message):
        check(protocol(form))


class Unlike(Recorder):
    """A dual encoder whose captions, or later batches of images, have embeddings of another length or size."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def encode_images(self, images, *, exact=False):
        rows = super().encode_images(images, exact=exact)
        return np.eye(9 + len(rows))[[0] * len(rows)] if self.change == "batches" else rows

    def encode_captions(self, captions, *, exact=False):
        rows = super().encode_captions(captions, exact=exact)
        return {"size": np.eye(9)[[0] * len(rows)], "length": rows * 1.1}.get(self.change, rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("size", "embeds images in 48 dimensions and captions in 9"),
        ("length", "embeddings of captions of length 1.1 to 1.1"),
        ("batches", "gave arrays of the shapes .*expected one row"),
    ],
)
def test_images_and_captions_have_embeddings_of_one_size_and_length(change, message, toy, tmp_path):
    with pytest.raises(ModelError, match=message):
        predict(Unlike(change), "toy_scenes/itm", out=tmp_path, limit=20, batch_size=2, progress=False)


def test_embeddings_normalised_in_half_precision_are_of_length_1(toy, tmp_path):
    def bfloat16(rows):
        return torch.nn.functional.normalize(torch.from_numpy(rows + 0.1).bfloat16())

    assert rows(Dual(bfloat16), "itm", tmp_path)
