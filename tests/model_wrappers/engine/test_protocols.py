"""Every type of task, from a model of each protocol to the rows of predictions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import sources_tricd
from support import run_quietly

from vl_assay.hub_datasets.core.benchmarks import Task
from vl_assay.hub_datasets.core.examples import Example, Phrase, TaskData
from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import ModelInfo, predict
from vl_assay.model_wrappers.engine.cache import EmbeddingCache
from vl_assay.model_wrappers.engine.chunks import ChunkStore
from vl_assay.model_wrappers.engine.detection import detect
from vl_assay.model_wrappers.engine.distributed import Processes
from vl_assay.model_wrappers.engine.embeddings import score_by_embeddings, score_text_only
from vl_assay.model_wrappers.engine.pairs import score_answers, score_by_matching, score_by_pairs, score_text_pairs
from vl_assay.model_wrappers.engine.pipeline import Pipeline
from vl_assay.model_wrappers.engine.plan import ScoringPlan
from vl_assay.model_wrappers.engine.progress import Progress
from vl_assay.model_wrappers.engine.protocol import Detections, PhraseQuery, abilities
from vl_assay.model_wrappers.engine.results import Results

INFO = ModelInfo("fake", "test", "fake", "1", "float32")


class Images(ScoringPlan):
    """A plan whose images are drawn from their number."""

    def open_image(self, number):
        from PIL import Image

        return Image.new("RGB", (40 + number, 30), (number, 0, 0))


def task(task_type, examples, name="task"):
    data = TaskData("bench", Task(name, ("c",), ("image",), ("caption",), {}, task_type=task_type), ("c",), "test")
    data.examples += examples
    return data


def matching(count=7):
    return [Example(f"m{i}", "c", "c", (f"i{i % 4}",), (f"caption {i}", "x" * (i + 1))) for i in range(count)]


def pipeline(tmp_path, batch_size=3):
    return Pipeline("fake", ChunkStore(tmp_path), Processes(), Progress(show=False), batch_size)


def no_cache(tmp_path):
    return EmbeddingCache(None, ChunkStore(tmp_path), Processes())


def text_value(text):
    return float(sum(text.encode() if isinstance(text, str) else text) % 997)


class Reader:
    info, max_tokens = INFO, 100

    def prepare_captions(self, captions):
        return [list(caption.encode()) for caption in captions]


class Cross(Reader):
    """A cross encoder whose score is a function of image and caption alone, plus noise by the index in the batch."""

    def __init__(self, noise=0.0):
        self.encoded, self.matched, self.noise = [], 0, noise

    def prepare_image(self, image):
        return float(image.size[0])

    def encode_images(self, images, *, exact=False):
        if not exact:
            self.encoded += images
        return np.array(images)

    def match(self, features, images, captions, *, exact=False):
        assert not exact or len(captions) == 1
        self.matched += len(captions)
        place = 0 if exact else np.arange(len(captions)) * self.noise
        return features[list(images)] * 1000 + [text_value(ids) for ids in captions] + place

    prepare_questions, answer = Reader.prepare_captions, match


class Pairwise:
    info = INFO

    def score(self, image, captions):
        return [image.size[0] * 1000 + text_value(caption) for caption in captions]


class TextOnly(Reader):
    max_tokens = 8

    def score_captions(self, captions, *, exact=False):
        return np.array([text_value(ids) for ids in captions])


class Dual(Reader):
    """Embeds an image as its number and a caption as its value; the embeddings are not of length 1."""

    def prepare_image(self, image):
        return np.array([image.size[0] * 1000.0, 1.0])

    def encode_images(self, images, *, exact=False):
        return np.stack(images)

    def encode_captions(self, captions, *, exact=False):
        return np.array([[1.0, text_value(ids)] for ids in captions])


class Noisy(Dual):
    """Embeds captions with an error that depends on the batch, except one at a time."""

    def __init__(self):
        self.read = []

    def encode_captions(self, captions, *, exact=False):
        assert not exact or len(captions) == 1
        if not exact:
            self.read += [bytes(ids) for ids in captions]
        values = np.array([sum(ids) % 97 / 97 for ids in captions])
        return np.stack([np.ones(len(values)), values + (0 if exact else 1e-7 * np.arange(len(values)))], axis=1)


class TextPairs:
    """Compares texts by the difference of their lengths."""

    info = INFO

    def score_texts(self, text, others):
        return [-abs(len(text) - len(other)) for other in others]


class Boxes:
    """Draws as many boxes for a phrase as it has letters; none for a phrase of one."""

    info = INFO

    def __init__(self):
        self.calls = []

    def prepare_image(self, image):
        return image.size[0]

    def detect(self, images, sizes, queries):
        self.calls += [len(asked) for asked in queries]
        found = []
        for width, size, asked in zip(images, sizes, queries, strict=True):
            assert size == (width, 30)
            counts = [len(query.text) if len(query.text) > 1 else 0 for query in asked]
            found.append(
                [
                    Detections(np.array([[0, 0, width, i + 1] for i in range(n)]).reshape(-1, 4), 1 - np.arange(n) / 99)
                    for n in counts
                ]
            )
        return found


def retrieval():
    """Three images, two captions each; the second caption is shared by the first two."""
    texts = [("a", "shared"), ("b", "shared"), ("c", "d")]
    return [Example(f"r{i}", "c", "c", (f"i{i}",), own) for i, own in enumerate(texts)]


def expected(plan):
    """Width of the image times 1000 plus the value of the caption, pair by pair and pool by pool."""
    images, texts = plan.captions.everything()
    return [
        (40 + image) * 1000 + text_value(plan.captions.texts[text]) for image, text in zip(images, texts, strict=True)
    ]


@pytest.mark.parametrize("how", ["dual", "cross", "pairs"])
def test_matching_and_retrieval_in_one_plan_score_every_pair(how, tmp_path):
    # An image that no caption goes with comes first.
    boxes = [Example("d", "c", "c", ("boxes alone",), ("a cat",), phrases=(Phrase("cat", 2, 5),))]
    plan = Images([task("detection", boxes), task("matching", matching()), task("retrieval", retrieval(), "pool")])
    if how == "dual":
        scores = score_by_embeddings(Dual(), plan, pipeline(tmp_path), no_cache(tmp_path))
    elif how == "cross":
        scores = score_by_matching(Cross(), plan, pipeline(tmp_path), no_cache(tmp_path))
    else:
        scores = score_by_pairs(Pairwise(), plan, pipeline(tmp_path))
    assert [*scores.pairs, *scores.pools[0].ravel()] == pytest.approx(expected(plan), rel=1e-7)
    assert scores.pools[0].shape == (3, 5)
    assert plan.captions.pools[0].correct == [[0, 1], [2, 1], [3, 4]]


def test_a_cross_encoder_sees_each_image_once_and_each_pair_once(tmp_path):
    examples = [*matching(), *(dataclasses.replace(example, id=f"again {example.id}") for example in matching())]
    model, plan = Cross(), Images([task("matching", examples)])
    scores = score_by_matching(model, plan, pipeline(tmp_path), no_cache(tmp_path))
    assert len(model.encoded) == len(set(model.encoded)) == 4
    assert model.matched == 14 + scores.facts["rechecked_pairs"] / 2  # each pair is there twice


def test_near_ties_are_rechecked_one_by_one(tmp_path):
    examples = [Example("a", "c", "c", ("i",), ("ab", "ba")), Example("b", "c", "c", ("i",), ("ab", "q"))]
    scores = score_by_matching(
        Cross(noise=1e-7), Images([task("matching", examples)]), pipeline(tmp_path), no_cache(tmp_path)
    )
    assert scores.pairs[0] == scores.pairs[1]
    assert scores.facts["rechecked_pairs"] == 2


def test_the_margin_of_near_ties_grows_with_the_scores(tmp_path):
    plan = Images([task("matching", [Example("a", "c", "c", ("i",), ("x", "y"))])])
    near = [plan.captions.near_ties(np.array([level, level + 3e-5]), 1e-6).all() for level in (1.0, 100.0, -100.0)]
    assert near == [False, True, True]


def test_two_rows_of_one_image_share_their_correct_captions(tmp_path):
    examples = [Example(f"r{i}", "c", "c", (key,), (text,)) for i, (key, text) in enumerate(["xa", "xb", "yc"])]
    pool = Images([task("retrieval", examples)]).captions.pools[0]
    assert pool.correct == [[0, 1], [0, 1], [2]]


def test_texts_share_a_smaller_batch_where_those_of_one_image_do_not_fit(tmp_path):
    class Large(Cross):
        def match(self, features, images, captions, *, exact=False):
            if len(captions) > 6:
                raise RuntimeError("CUDA out of memory")
            return super().match(features, images, captions, exact=exact)

    texts = tuple("z" * (i + 1) for i in range(40))
    plan = Images([task("matching", [Example("a", "c", "c", ("i",), texts)])])
    scores = score_by_matching(Large(), plan, pipeline(tmp_path, batch_size=8), no_cache(tmp_path))
    assert scores.pairs.tolist() == expected(plan)


def test_a_text_only_model_rechecks_only_texts_with_near_ties(tmp_path):
    groups = [Example(f"g{i}", "c", "c", (f"a{i}", f"b{i}"), (f"one {i}", f"two {i}!")) for i in range(5)]
    scores = score_text_only(TextOnly(), Images([task("matching", groups)]), pipeline(tmp_path))
    assert scores.facts["rechecked_pairs"] == 0


def test_a_text_only_model_is_given_no_image_and_reads_each_caption_once(tmp_path):
    class Unseen(ScoringPlan):
        def open_image(self, number):
            raise AssertionError("a text-only model opened an image")

    plan = Unseen([task("matching", matching()), task("retrieval", retrieval(), "pool")])
    scores = score_text_only(TextOnly(), plan, pipeline(tmp_path))
    _, texts = plan.captions.everything()
    wanted = [text_value(plan.captions.texts[text]) for text in texts]
    assert [*scores.pairs, *scores.pools[0].ravel()] == wanted
    assert scores.facts["truncated_captions"] == 7


def compared():
    """Captions to compare: the first two and another; the last three are the same to `Noisy`, which adds bytes."""
    texts = [("a cat", "one cat", "a dog"), ("caption 1", "a cat", "xx"), ("abc", "bca", "cab")]
    return [Example(f"t{i}", "c", "c", (), own) for i, own in enumerate(texts)]


def test_captions_are_compared_in_pairs_by_the_embeddings_that_images_are_matched_with(tmp_path):
    plan = Images([task("matching", matching()), task("text_similarity", compared(), "texts")])
    model = Noisy()
    scores = score_by_embeddings(model, plan, pipeline(tmp_path), no_cache(tmp_path))
    # "caption 1" and "xx" are captions of both tasks.
    assert len(model.read) == len(set(model.read)) == 7 + 7 + 8 - 2
    results = Results(plan, scores.pairs, scores.text_pairs, [], np.empty(0), {})
    for row, example in zip(results.rows(1), compared(), strict=True):
        one, two, three = (sum(caption.encode()) % 97 / 97 for caption in example.captions)
        assert row.scores[0] == pytest.approx([1 + one * two, 1 + one * three, 1 + two * three], abs=1e-5)
        assert (row.images, row.correct) == ([], [0])
    assert len(set(results.rows(1)[2].scores[0])) == 1, "equal captions tie, whatever batch they were in"
    assert len(results.rows(0)) == 7


def test_captions_alone_need_no_image_and_no_embeddings(tmp_path):
    plan = Images([task("text_similarity", compared())])
    assert plan.images == []
    embedded = score_by_embeddings(Noisy(), plan, pipeline(tmp_path), no_cache(tmp_path))
    assert (len(embedded.pairs), len(embedded.text_pairs)) == (0, 9)
    found = score_text_pairs(TextPairs(), plan, pipeline(tmp_path / "texts"))
    assert found.tolist() == [-2, 0, -2, -4, -7, -3, 0, 0, 0]


def test_a_model_without_a_text_encoder_is_refused_and_told_why(tmp_path):
    message = "matching and retrieval, but toy_scenes/paraphrases is text_similarity, which takes a model that embeds"
    with pytest.raises(ModelError, match=message):
        predict(Pairwise(), "toy_scenes/paraphrases", out=tmp_path, progress=False)


def answers():
    return [Example(f"q{i}", "c", "cat", (f"i{i}",), (f"is it {i}",), answer=i % 2 == 0) for i in range(4)]


def detections():
    caption = "a red cat and x"
    phrases = (Phrase("red cat", 2, 9, ((1.0, 2.0, 3.0, 4.0),)), Phrase("x", 14, 15, ()))
    first = Example("d0", "c", "object", ("i0",), (caption,), phrases=phrases, pair="p")
    empty = tuple(dataclasses.replace(phrase, boxes=()) for phrase in phrases)
    return [
        first,
        dataclasses.replace(first, id="d1", images=("i1",), phrases=empty, positive=False),
        dataclasses.replace(first, id="d2", images=("i0",), captions=("red cat!",), phrases=(Phrase("red cat", 0, 7),)),
    ]


def test_boxes_and_answers_reach_their_rows(tmp_path):
    plan = Images([task("detection", detections()), task("vqa", answers(), "asked")])
    model = Boxes()
    boxes = detect(model, plan, pipeline(tmp_path / "boxes"))
    said = score_answers(Cross(), plan, pipeline(tmp_path / "answers"))
    assert sorted(model.calls) == [2, 3]  # the phrases of two captions of one image in one go
    assert len(boxes[0, PhraseQuery("a red cat and x", 14, 15)].boxes) == 0
    results = Results(plan, np.empty(0), np.empty(0), [], said.pairs, boxes)
    first, second, third = results.rows(0)
    assert [len(found) for found in first.boxes] == [7, 0]
    assert first.boxes[0][1] == [0.0, 0.0, 40.0, 2.0]
    assert second.boxes[0][1] == [0.0, 0.0, 41.0, 2.0]
    assert (second.truth, second.positive, second.pair) == ([[], []], False, "p")
    assert third.phrases == [{"text": "red cat", "start": 0, "end": 7}]
    rows = results.rows(1)
    assert [row.score for row in rows] == [(40 + i) * 1000 + text_value(f"is it {i}") for i in range(4)]
    assert results.rows(0)[0] == first, "tasks can be asked for in any order"


def test_what_a_model_can_do_follows_from_its_methods():
    assert abilities(Boxes()) == ("detection",)
    assert abilities(Dual()) == ("matching", "retrieval", "text_similarity")
    assert abilities(TextPairs()) == ("text_similarity",)
    assert abilities(Cross()) == ("matching", "retrieval", "vqa")
    assert abilities(TextOnly()) == abilities(Pairwise()) == ("matching", "retrieval")


def test_a_model_is_not_given_what_it_cannot_do(coco, tmp_path):
    with pytest.raises(ModelError, match="fake does detection, but sugarcrepe/swap_obj is matching"):
        run_quietly(Boxes(), coco(), tmp_path, ["sugarcrepe/swap_obj"])
    sources_tricd.make(tmp_path / "tricd")
    with pytest.raises(ModelError, match="fake does matching and retrieval, but tricd/val is detection"):
        run_quietly(Pairwise(), tmp_path / "tricd", tmp_path, ["tricd/val"])
