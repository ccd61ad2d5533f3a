"""Every type of task, from a model of each protocol to the rows of predictions."""

from __future__ import annotations

import threading
import zlib

import numpy as np
import pytest
import torch
from support import Recorder, all_scores, run_quietly

from vl_assay.hub_datasets import load_examples
from vl_assay.hub_datasets.core.images import decode
from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import ModelInfo, predict
from vl_assay.model_wrappers.engine.protocol import Detections

INFO = ModelInfo("fake", "test", "fake", "1", "float32")
MATCHING = ("itm", "groups", "retrieval")


def image_value(image):
    return zlib.crc32(np.asarray(image.convert("RGB")).tobytes()) % 97 / 97


def text_value(text):
    """A number that a caption with two words exchanged shares."""
    return sum(text.encode() if isinstance(text, str) else text) % 97 / 97


class Reader:
    info, max_tokens = INFO, 100

    def prepare_captions(self, captions):
        return [list(caption.encode()) for caption in captions]


class Cross(Reader):
    """A cross-encoder whose score is the sum of an image's and a caption's value, plus noise by the index in the batch.

    It runs out of memory if a batch has more than `most` captions.
    """

    def __init__(self, noise=0.0, most=10**6):
        self.encoded, self.matched, self.noise, self.most = [], 0, noise, most

    def prepare_image(self, image):
        return image_value(image)

    def encode_images(self, images, *, exact=False):
        if not exact:
            self.encoded += images
        return np.array(images)

    def match(self, features, images, captions, *, exact=False):
        assert not exact or len(captions) == 1
        assert type(images) is type(captions) is list
        if len(captions) > self.most:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        self.matched += 0 if exact else len(captions)
        noise = 0 if exact else np.arange(len(captions)) * self.noise
        return features[images] + [text_value(ids) for ids in captions] + noise

    prepare_questions, answer = Reader.prepare_captions, match


class Dual(Reader):
    """A dual encoder whose scores are a quarter of those of `Cross`; the last dimensions make the lengths 1."""

    def __init__(self, noise=0.0):
        self.read, self.noise = [], noise

    def prepare_image(self, image):
        value = image_value(image)
        return np.array([value, 1, (3 - value**2) ** 0.5, 0]) / 2

    def encode_images(self, images, *, exact=False):
        return np.stack(images)

    def encode_captions(self, captions, *, exact=False):
        assert not exact or len(captions) == 1
        self.read += [] if exact else [bytes(ids) for ids in captions]
        noise = 0 if exact else np.arange(len(captions)) * self.noise
        values = np.array([text_value(ids) for ids in captions]) + noise
        return np.stack([np.ones(len(values)), values, np.zeros(len(values)), (3 - values**2) ** 0.5], axis=1) / 2


class Pairwise:
    info = INFO

    def score(self, image, captions):
        return [image_value(image) + text_value(caption) for caption in captions]


class TextOnly(Reader):
    max_tokens = 8

    def score_captions(self, captions, *, exact=False):
        return np.array([text_value(ids) for ids in captions])


class TextPairs:
    """Compares texts by the difference of their lengths."""

    info = INFO

    def score_texts(self, text, others):
        return [-abs(len(text) - len(other)) for other in others]


class Boxes:
    """Draws up to three boxes for a phrase, as its length says."""

    info = INFO

    def __init__(self):
        self.asked = 0

    def prepare_image(self, image):
        return image.size

    def detect(self, images, sizes, queries):
        assert images == sizes
        self.asked += sum(map(len, queries))
        return [[self.draw(query.text) for query in asked] for asked in queries]

    def draw(self, text):
        count = len(text) % 4
        return Detections(np.array([[0, 0, 9, i + 1] for i in range(count)]).reshape(-1, 4), 1 - np.arange(count) / 99)


def run(model, out, parts, **options):
    """Return the rows with their examples for each part of toy_scenes, the parts' examples, and facts of the run."""
    names = [f"toy_scenes/{part}" for part in parts]
    files = predict(model, names, out=out, limit=12, progress=False, cache=False, **options)
    found, tasks = [read_predictions(file) for file in files], [load_examples(name, limit=12)[0] for name in names]
    rows = [[*zip(one.rows, task.examples, strict=True)] for one, task in zip(found, tasks, strict=True)]
    return rows, tasks, found[0].metadata["run"]


def expected(tasks, sees_images=True):
    """The scores of all pairs of an example, or of an image and all captions of the retrieval set."""
    for task in tasks:
        pool = [*dict.fromkeys(caption for example in task.examples for caption in example.captions)]
        for example in task.examples:
            seen = [image_value(decode(task.image_bytes(key))) if sees_images else 0 for key in example.images]
            captions = pool if task.task.task_type == "retrieval" else example.captions
            yield np.add.outer(seen, [text_value(caption) for caption in captions]).ravel()


def scores(parts):
    return [np.ravel(row.scores) for part in parts for row, _ in part]


# The last one has batches that are halved, as memory ends.
@pytest.mark.parametrize(("kind", "settings"), [(Dual, {}), (Cross, {}), (Pairwise, {}), (Cross, {"most": 6})])
def test_matching_and_retrieval_in_one_run_score_every_pair(kind, settings, toy, tmp_path):
    parts, tasks, _ = run(kind(**settings), tmp_path, MATCHING, batch_size=5)
    for ours, theirs in zip(scores(parts), expected(tasks), strict=True):
        np.testing.assert_allclose(ours, theirs / (4 if kind is Dual else 1), atol=1e-6)


@pytest.mark.parametrize("kind", [Dual, Cross])
def test_near_ties_are_rechecked_one_by_one(kind, toy, tmp_path):
    parts, _, facts = run(kind(noise=1e-7), tmp_path, ["itm"])
    equal = [row.scores[0] for row, example in parts[0] if len({*map(text_value, example.captions)}) == 1]
    assert len(equal) > 1
    assert all(one == other for one, other in equal)
    assert facts["rechecked_pairs"] >= 2 * len(equal)


def test_captions_are_compared_in_pairs_by_the_embeddings_that_images_are_matched_with(toy, tmp_path):
    model = Dual()
    (_, parts), tasks, _ = run(model, tmp_path / "dual", ("itm", "paraphrases"))
    captions = {caption for task in tasks for example in task.examples for caption in example.captions}
    assert sorted(model.read) == sorted(caption.encode() for caption in captions)
    for row, example in parts:
        one, two, three = map(text_value, example.captions)
        similarities = [
            1 + a * b + ((3 - a**2) * (3 - b**2)) ** 0.5 for a, b in ((one, two), (one, three), (two, three))
        ]
        assert row.scores[0] == pytest.approx(np.array(similarities) / 4, abs=1e-6)
        assert (row.images, row.correct) == ([], [0])
    [parts], _, _ = run(TextPairs(), tmp_path / "texts", ["paraphrases"])
    for row, example in parts:
        one, two, three = map(len, example.captions)
        assert row.scores[0] == [-abs(one - two), -abs(one - three), -abs(two - three)]


def test_boxes_and_answers_reach_their_rows(toy, tmp_path):
    model = Boxes()
    [parts], _, _ = run(model, tmp_path / "boxes", ["detection"])
    for row, example in parts:
        drawn = [model.draw(phrase.text) for phrase in example.phrases]
        assert row.boxes == [each.boxes.tolist() for each in drawn]
        assert row.scores == [each.scores.tolist() for each in drawn]
        assert row.truth == [[list(box) for box in phrase.boxes] for phrase in example.phrases]
        assert (row.positive, row.pair) == (example.positive, example.pair)
    assert model.asked == len({(e.images, e.captions, p.start, p.end) for _, e in parts for p in e.phrases})
    [parts], tasks, _ = run(Cross(), tmp_path / "answers", ["vqa"])
    for (row, _), theirs in zip(parts, expected(tasks), strict=True):
        assert row.score == pytest.approx(theirs[0])


def test_a_model_is_not_given_what_it_cannot_do(coco, tmp_path):
    with pytest.raises(ModelError, match="fake does detection, but sugarcrepe/swap_obj is matching"):
        run_quietly(Boxes(), coco(), tmp_path, ["sugarcrepe/swap_obj"])
    message = "matching and retrieval, but toy_scenes/paraphrases is text_similarity, which takes a model that embeds"
    with pytest.raises(ModelError, match=message):
        predict(Pairwise(), "toy_scenes/paraphrases", out=tmp_path, progress=False)


def test_a_model_that_does_not_fit_into_the_memory_says_what_to_try(toy, tmp_path):
    with pytest.raises(ModelError, match="even with one item at a time"):
        run(Cross(most=0), tmp_path, ["itm"])


class Counting(Recorder):
    """Counts images that are prepared and not yet encoded."""

    def __init__(self, error=None):
        super().__init__()
        self.lock, self.waiting, self.most, self.error = threading.Lock(), 0, 0, error

    def prepare_image(self, image):
        with self.lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        return super().prepare_image(image)

    def encode_images(self, images, *, exact=False):
        if self.error:
            raise self.error
        with self.lock:
            self.waiting -= 0 if exact else len(images)
        return super().encode_images(images, exact=exact)


def test_no_more_than_three_batches_are_in_memory_and_a_log_tells_each_stage(coco, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NO_COLOR", "1")
    model, folder = Counting(), coco(rows=40, images=40)
    options = {"out": tmp_path / "out", "data_dir": folder, "options": {"verify": False}, "cache": False}
    ours = all_scores(predict(model, ["sugarcrepe/swap_obj"], batch_size=5, **options))
    assert model.most <= 15
    assert "encoding images: 40" in capsys.readouterr().err.splitlines()
    assert (ours == all_scores(run_quietly(Recorder(), folder, tmp_path / "all", ["sugarcrepe/swap_obj"]))).all()
    with pytest.raises(RuntimeError, match="shapes do not agree"):  # which is not taken for a lack of memory
        run_quietly(Counting(RuntimeError("shapes do not agree")), folder, tmp_path / "failed")


class Choice(Cross):
    prepare_choices = Reader.prepare_captions

    def choose(self, features, images, choices, *, exact=False):
        return [
            features[image] + np.array([text_value(ids) for ids in choice])
            for image, choice in zip(images, choices, strict=True)
        ]

    match = answer = None


# What a forward pass may give in place of arrays of float64.
FORMS = {
    "a parameter in bfloat16": lambda values: torch.nn.Parameter(torch.from_numpy(values).bfloat16()),
    "a list of tensors with gradients": lambda values: list(torch.from_numpy(values).requires_grad_()),
    "a sparse tensor": lambda values: torch.from_numpy(values).to_sparse(),
    "a list of arrays in float16": lambda values: list(values.astype(np.float16)),
}
PROTOCOLS = {
    (Dual, "itm"): ("encode_images", "encode_captions"),
    (Cross, "groups"): ("match",),
    (Choice, "itm"): ("choose",),
    (Pairwise, "itm"): ("score",),
    (TextOnly, "itm"): ("score_captions",),
    (TextPairs, "paraphrases"): ("score_texts",),
    (Boxes, "detection"): ("draw",),
}


def returning(form, kind, methods):
    """A model of a kind whose methods return their results in another form."""

    def changed(method):
        def call(self, *given, **options):
            found = method(self, *given, **options)
            if isinstance(found, Detections):
                return Detections(*(form(np.asarray(part, np.float64)) for part in found))
            return form(np.asarray(found, np.float64))

        return call

    return type("Mine", (kind,), {name: changed(getattr(kind, name)) for name in methods})()


def results(model, part, out):
    [file] = predict(model, f"toy_scenes/{part}", out=out, limit=4, progress=False)
    rows = read_predictions(file).rows
    return np.array(
        [np.ravel(getattr(row, name)) for row in rows for name in ("scores", "score") if hasattr(row, name)]
    )


@pytest.mark.parametrize(("kind", "part"), PROTOCOLS)
def test_results_may_be_of_any_library_and_dtype_and_have_gradients(kind, part, toy, tmp_path, monkeypatch):
    monkeypatch.setattr(Boxes, "draw", lambda self, text: Detections(np.array([[0, 0, 9, 9]]), np.array([0.25])))
    expected = results(kind(), part, tmp_path / "float64")
    assert expected.size
    for name in FORMS if kind is Dual else list(FORMS)[:2]:
        model = returning(FORMS[name], kind, PROTOCOLS[kind, part])
        np.testing.assert_allclose(results(model, part, tmp_path / name), expected, atol=0.02)


@pytest.mark.parametrize(
    ("kind", "part", "form", "message"),
    [
        (Pairwise, "itm", lambda values: ["high", "low"], "fake gave something else than rows of numbers .*of NumPy"),
        (Pairwise, "itm", lambda values: torch.from_numpy(values) + 1j, "something else .*complex numbers"),
        (Pairwise, "itm", lambda values: values[:, None], r"of the shape \((\d+), 1\) for \1 texts; expected \(\1,\)"),
        (Choice, "itm", lambda values: values[:, :-1], r"of the shape \(1,\) for 2 texts"),
        (Dual, "itm", lambda rows: rows * np.nan, "NaN or infinity"),
        (Dual, "itm", lambda rows: rows * 2, "embeddings of images of length 2 to 2; .*divide each by its norm"),
        (Dual, "itm", lambda rows: rows[:, None], "expected one row of numbers for each item"),
        (Dual, "itm", lambda rows: np.eye(9 + len(rows))[: len(rows)], "gave arrays of the shapes .*expected one row"),
        (Dual, "itm", lambda rows: list(rows)[:-1], "gave .* results for .* items"),
        (
            Boxes,
            "detection",
            lambda values: values.ravel() + 0.0,
            r"boxes of the shape .* expected \(k, 4\) and \(k,\)",
        ),
    ],
)
def test_other_results_are_refused(kind, part, form, message, toy, tmp_path):
    model = returning(form, kind, PROTOCOLS[kind, part])
    with pytest.raises(ModelError, match=message):
        predict(model, f"toy_scenes/{part}", out=tmp_path, limit=12, batch_size=5, progress=False)


def test_images_and_captions_have_embeddings_of_one_size(toy, tmp_path):
    model = returning(lambda rows: np.eye(9)[[0] * len(rows)], Dual, ["encode_captions"])
    with pytest.raises(ModelError, match="embeds images in 4 dimensions and captions in 9"):
        results(model, "itm", tmp_path)
