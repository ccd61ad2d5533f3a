"""Every kind of task, from a model of each protocol through the runner to a sheet and its results."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vl_assay.hub_datasets import judge
from vl_assay.hub_datasets.benchmarks import Task
from vl_assay.hub_datasets.examples import Example, Phrase, TaskData
from vl_assay.metrics.errors import ModelError, SheetError
from vl_assay.metrics.sheet_rows import AnswerRow, DetectionRow, MatchingRow, RetrievalRow
from vl_assay.metrics.sheets import Sheet, read_sheet, write_sheet
from vl_assay.model_wrappers import ModelInfo, score
from vl_assay.model_wrappers._detection import detect
from vl_assay.model_wrappers._pairs import score_answers, score_by_crossing, score_by_pairs
from vl_assay.model_wrappers._parts import PartStore
from vl_assay.model_wrappers._processes import Processes
from vl_assay.model_wrappers._progress import Progress
from vl_assay.model_wrappers._protocol import Found, Query, abilities
from vl_assay.model_wrappers._scoring import score_blindly, score_by_embeddings
from vl_assay.model_wrappers._sheets import Results
from vl_assay.model_wrappers._stages import Stages
from vl_assay.model_wrappers._work import Work

INFO = ModelInfo("fake", "test", "fake", "1", "float32")


class Images(Work):
    """A work whose images are drawn from their number."""

    def open_image(self, number):
        from PIL import Image

        return Image.new("RGB", (40 + number, 30), (number, 0, 0))


def task(kind, examples, name="task"):
    data = TaskData("bench", Task(name, ("c",), ("image",), ("caption",), {}, kind=kind), ("c",), "test")
    data.examples += examples
    return data


def matching(count=7):
    return [Example(f"m{i}", "c", "c", (f"i{i % 4}",), (f"caption {i}", "x" * (i + 1))) for i in range(count)]


def stages(tmp_path, batch_size=3):
    return Stages("fake", PartStore(tmp_path), Processes(), Progress(show=False), batch_size)


def text_value(text):
    return float(sum(text.encode() if isinstance(text, str) else text) % 997)


class Cross:
    """A cross encoder whose score is a function of image and caption alone, off by its place in the batch."""

    info, max_tokens = INFO, 100

    def __init__(self, noise=0.0):
        self.encoded, self.matched, self.noise = [], 0, noise

    def prepare_image(self, image):
        return float(image.size[0])

    def prepare_captions(self, captions):
        return [list(caption.encode()) for caption in captions]

    def encode_images(self, images, *, exact=False):
        if not exact:
            self.encoded += images
        return np.array(images)

    def match(self, features, images, captions, *, exact=False):
        assert not exact or len(captions) == 1
        self.matched += len(captions)
        place = 0 if exact else np.arange(len(captions)) * self.noise
        return features[list(images)] * 1000 + [text_value(ids) for ids in captions] + place

    prepare_questions, answer = prepare_captions, match


class Pairwise:
    info = INFO

    def score(self, image, captions):
        return [image.size[0] * 1000 + text_value(caption) for caption in captions]


class Blind:
    info, max_tokens = INFO, 8

    def prepare_captions(self, captions):
        return [list(caption.encode()) for caption in captions]

    def score_captions(self, captions, *, exact=False):
        return np.array([text_value(ids) for ids in captions])


class Dual:
    """Embeds an image as its number and a caption as its value; the length of 1 is left out."""

    info, max_tokens = INFO, 100

    def prepare_image(self, image):
        return np.array([image.size[0] * 1000.0, 1.0])

    def prepare_captions(self, captions):
        return [list(caption.encode()) for caption in captions]

    def encode_images(self, images, *, exact=False):
        return np.stack(images)

    def encode_captions(self, captions, *, exact=False):
        return np.array([[1.0, text_value(ids)] for ids in captions])


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
                    Found(np.array([[0, 0, width, i + 1] for i in range(n)]).reshape(-1, 4), 1 - np.arange(n) / 99)
                    for n in counts
                ]
            )
        return found


def retrieval():
    """Three images, two captions each; the second caption is shared by the first two."""
    texts = [("a", "shared"), ("b", "shared"), ("c", "d")]
    return [Example(f"r{i}", "c", "c", (f"i{i}",), own) for i, own in enumerate(texts)]


class NoCache:
    def embed(self, kind, keys, encode):
        return encode(range(len(keys)), kind)

    def facts(self):
        return {}


def expected(work):
    """Width of the image times 1000 plus the value of the caption, pair by pair and pool by pool."""
    images, texts = work.captions.everything()
    return [
        (40 + image) * 1000 + text_value(work.captions.texts[text]) for image, text in zip(images, texts, strict=True)
    ]


@pytest.mark.parametrize("how", ["dual", "cross", "pairs"])
def test_matching_and_retrieval_in_one_work_score_every_pair(how, tmp_path):
    work = Images([task("matching", matching()), task("retrieval", retrieval(), "pool")])
    if how == "dual":
        scores = score_by_embeddings(Dual(), work, stages(tmp_path), NoCache())
    elif how == "cross":
        scores = score_by_crossing(Cross(), work, stages(tmp_path))
    else:
        scores = score_by_pairs(Pairwise(), work, stages(tmp_path))
    assert [*scores.pairs, *scores.pools[0].ravel()] == pytest.approx(expected(work), rel=1e-7)
    assert scores.pools[0].shape == (3, 5)
    assert work.captions.pools[0].correct == [[0, 1], [2, 1], [3, 4]]


def test_a_cross_encoder_sees_each_image_once_and_each_pair_once(tmp_path):
    examples = [*matching(), *(dataclasses.replace(example, id=f"again {example.id}") for example in matching())]
    model, work = Cross(), Images([task("matching", examples)])
    scores = score_by_crossing(model, work, stages(tmp_path))
    assert len(model.encoded) == len(set(model.encoded)) == 4
    assert model.matched == 14 + scores.facts["settled_pairs"] / 2  # each pair is there twice


def test_pairs_that_rounding_cannot_tell_apart_are_settled_one_by_one(tmp_path):
    examples = [Example("a", "c", "c", ("i",), ("ab", "ba")), Example("b", "c", "c", ("i",), ("ab", "q"))]
    scores = score_by_crossing(Cross(noise=1e-7), Images([task("matching", examples)]), stages(tmp_path))
    assert scores.pairs[0] == scores.pairs[1]
    assert scores.facts["settled_pairs"] == 2


def test_the_margin_of_settling_grows_with_the_scores(tmp_path):
    work = Images([task("matching", [Example("a", "c", "c", ("i",), ("x", "y"))])])
    near = [work.captions.near_ties(np.array([level, level + 3e-5]), 1e-6).all() for level in (1.0, 100.0, -100.0)]
    assert near == [False, True, True]


def test_two_rows_of_one_image_share_what_is_right(tmp_path):
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
    work = Images([task("matching", [Example("a", "c", "c", ("i",), texts)])])
    scores = score_by_crossing(Large(), work, stages(tmp_path, batch_size=8))
    assert scores.pairs.tolist() == expected(work)


def test_a_blind_model_settles_only_texts_that_are_near(tmp_path):
    groups = [Example(f"g{i}", "c", "c", (f"a{i}", f"b{i}"), (f"one {i}", f"two {i}!")) for i in range(5)]
    scores = score_blindly(Blind(), Images([task("matching", groups)]), stages(tmp_path))
    assert scores.facts["settled_pairs"] == 0


def test_a_blind_model_is_shown_no_image_and_reads_each_caption_once(tmp_path):
    class Unseen(Work):
        def open_image(self, number):
            raise AssertionError("a blind model opened an image")

    work = Unseen([task("matching", matching()), task("retrieval", retrieval(), "pool")])
    scores = score_blindly(Blind(), work, stages(tmp_path))
    _, texts = work.captions.everything()
    wanted = [text_value(work.captions.texts[text]) for text in texts]
    assert [*scores.pairs, *scores.pools[0].ravel()] == wanted
    assert scores.facts["truncated_captions"] == 7


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
    work = Images([task("detection", detections()), task("answers", answers(), "asked")])
    model = Boxes()
    boxes = detect(model, work, stages(tmp_path / "boxes"))
    said = score_answers(Cross(), work, stages(tmp_path / "answers"))
    assert sorted(model.calls) == [2, 3]  # the phrases of two captions of one image in one go
    assert len(boxes[0, Query("a red cat and x", 14, 15)].boxes) == 0
    results = Results(work, np.empty(0), [], said.pairs, boxes)
    first, second, third = results.rows(work.tasks[0])
    assert [len(found) for found in first.boxes] == [7, 0]
    assert first.boxes[0][1] == [0.0, 0.0, 40.0, 2.0]
    assert second.boxes[0][1] == [0.0, 0.0, 41.0, 2.0]
    assert (second.truth, second.positive, second.pair) == ([[], []], False, "p")
    assert third.phrases == [{"text": "red cat", "start": 0, "end": 7}]
    rows = results.rows(work.tasks[1])
    assert [row.score for row in rows] == [(40 + i) * 1000 + text_value(f"is it {i}") for i in range(4)]


def test_what_a_model_can_do_follows_from_its_methods():
    assert abilities(Boxes()) == ("detection",)
    assert abilities(Cross()) == ("matching", "retrieval", "answers")
    assert abilities(Blind()) == abilities(Pairwise()) == ("matching", "retrieval")


def test_a_model_is_not_given_what_it_cannot_do(tmp_path):
    with pytest.raises(ModelError, match="fake does detection, but toy_scenes/groups is matching"):
        score(Boxes(), "toy_scenes/groups", out=tmp_path, progress=False)
    with pytest.raises(ModelError, match="fake does matching and retrieval, but toy_scenes/detection is detection"):
        score(Pairwise(), "toy_scenes/detection", out=tmp_path, progress=False)


METADATA = {"model": {"name": "m"}, "run": {}}


def sheet(benchmark, name, *rows):
    described = {"name": benchmark, "task": name, "rows": len(rows), "missing": []}
    return Sheet(list(rows), METADATA | {"benchmark": described})


def detection_row(name="a", **changes):
    phrases = [{"text": "cat", "start": 0, "end": 3}]
    row = DetectionRow(name, "c", "object", ["i"], True, "p", phrases, [[[0, 0, 4, 4]]], [[[0, 0, 4, 4]]], [[0.9]])
    return dataclasses.replace(row, **changes)


def test_rows_of_every_kind_come_back_from_their_file(tmp_path):
    kinds = {
        "detection": [detection_row(), detection_row("b", images=[""], boxes=None, scores=None)],
        "answers": [AnswerRow("a", "c", "x", ["i"], "is it", True, -0.5, tags=["t", "u"], cluster="k")],
        "retrieval": [
            RetrievalRow(f"r{i}", "c", "c", [f"i{i}"], [i], np.array([0.5, 0.25], np.float32)) for i in (0, 1)
        ],
    }
    for kind, rows in kinds.items():
        write_sheet(tmp_path / "s.parquet", sheet("bench", "task", *rows))
        found = read_sheet(tmp_path / "s.parquet")
        assert found.kind == kind
        for ours, theirs in zip(rows, found.rows, strict=True):
            for name, value in vars(ours).items():
                assert (
                    np.array_equal(value, getattr(theirs, name))
                    if name == "scores" and kind == "retrieval"
                    else value == getattr(theirs, name)
                )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (detection_row(scores=[[]]), "other numbers of boxes than of scores"),
        (detection_row(boxes=[]), "of 0, 1 and 1 of 1 phrases"),
        (detection_row(boxes=[[[4, 0, 0, 4]]]), r"the box \[4, 0, 0, 4\] is not x1, y1"),
        (detection_row(boxes=[[[0, 0, float("nan"), 4]]]), "is not x1, y1"),
        (detection_row(scores=[[float("inf")]]), "NaN, infinite"),
        (detection_row(images=["i", "j"]), "a row of a detection sheet has one"),
        (detection_row(boxes=None), "of 0, 1 and 1 of 1 phrases"),
        (AnswerRow("a", "c", "x", ["i"], "is it", True, None), "no scores, though no image is missing"),
        (AnswerRow("a", "c", "x", ["i"], "is it", True, float("nan")), "NaN, infinite"),
        (RetrievalRow("a", "c", "c", ["i"], [2], np.zeros(2, np.float32)), r"right captions \[2\] outside the 2"),
        (RetrievalRow("a", "c", "c", ["i"], [], np.zeros(2, np.float32)), r"right captions \[\] outside"),
        (RetrievalRow("a", "c", "c", ["i"], [0], np.array([0, np.nan], np.float32)), "NaN, infinite"),
    ],
)
def test_rows_that_break_their_schema_are_refused(row, message, tmp_path):
    with pytest.raises(SheetError, match=message):
        write_sheet(tmp_path / "s.parquet", sheet("bench", "task", row))


def test_rows_of_a_retrieval_sheet_have_one_width(tmp_path):
    rows = [RetrievalRow(f"r{i}", "c", "c", ["i"], [0], np.zeros(2 + i, np.float32)) for i in (0, 1)]
    with pytest.raises(SheetError, match="3 scores, not 2 as those before"):
        write_sheet(tmp_path / "s.parquet", sheet("bench", "task", *rows))


def test_a_caption_counts_with_all_its_images_or_not_at_all(tmp_path):
    def pair(name, number, **changes):
        nothing = {"truth": [[]], "positive": False}
        true = detection_row(f"{name}+", pair=name, images=[f"{name}+"], tags=[])
        return [true, dataclasses.replace(true, id=f"{name}-", images=[f"{name}-"], **nothing, **changes)]

    missing = {"images": [""], "boxes": None, "scores": None}
    rows = [*pair("p", 1), *pair("q", 2)]
    rows[3] = dataclasses.replace(rows[3], **missing)
    path = tmp_path / "s.parquet"
    described = {"name": "toy_scenes", "task": "detection", "rows": 4, "missing": ["q-"]}
    write_sheet(path, Sheet(rows, METADATA | {"benchmark": described}))
    results = judge(path, resamples=100)
    assert [result.metric for result in results] == ["cpd_ap", "grounding_recall", "group_recall_at_1"]
    assert {result.missing for result in results} == {2}
    assert (results[0].scores["n"], results[2].scores["n_pairs"]) == (2, 1)


def test_rows_of_several_images_have_their_captions_in_order(tmp_path):
    row = MatchingRow("a", "c", "c", ["i", "j"], [1, 0], [[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(SheetError, match="of several images each has the caption of its number"):
        write_sheet(tmp_path / "s.parquet", sheet("toy_scenes", "groups", row))
    row = MatchingRow("a", "c", "c", ["i"], [1], [[0.0, 1.0, 0.5]])
    write_sheet(tmp_path / "t.parquet", sheet("toy_scenes", "hard_positives", row))
    with pytest.raises(SheetError, match="augmented_accuracy takes the first caption for the right one"):
        judge(tmp_path / "t.parquet", resamples=100)


def test_values_that_cannot_be_read_are_an_error_of_the_sheet(tmp_path):
    rows = [RetrievalRow(f"r{i}", "c", "c", [f"i{i}"], [i], np.array([0.5, 0.25], np.float32)) for i in (0, 1)]
    write_sheet(tmp_path / "s.parquet", sheet("bench", "task", *rows))
    table = pq.read_table(tmp_path / "s.parquet")
    place = table.schema.get_field_index("scores")
    holes = pa.array([[0.5, None], [0.25, 0.5]], pa.list_(pa.float32()))
    pq.write_table(table.set_column(place, table.schema.field(place), holes), tmp_path / "t.parquet")
    with pytest.raises(SheetError, match="NaN, infinite or missing"):
        read_sheet(tmp_path / "t.parquet")


def test_a_kind_that_does_not_exist_is_refused(tmp_path):
    write_sheet(tmp_path / "s.parquet", sheet("bench", "task", detection_row()))
    table = pq.read_table(tmp_path / "s.parquet")
    changed = {b"vl_assay": table.schema.metadata[b"vl_assay"].replace(b'"detection"', b'"smell"')}
    pq.write_table(table.replace_schema_metadata(changed), tmp_path / "t.parquet")
    with pytest.raises(SheetError, match="of the kind 'smell'; there are matching, retrieval, detection, answers"):
        read_sheet(tmp_path / "t.parquet")


def test_a_sheet_of_another_kind_than_its_task_is_not_judged(tmp_path):
    write_sheet(tmp_path / "s.parquet", sheet("toy_scenes", "groups", detection_row()))
    with pytest.raises(SheetError, match="is a sheet of the kind detection, but the task groups of toy_scenes"):
        judge(tmp_path / "s.parquet")
