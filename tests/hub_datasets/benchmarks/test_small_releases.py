"""How the records of the smaller releases become rows, and which damage is named."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sources_coco_cf as coco_cf
import sources_cola as cola
import sources_colorswap as colorswap
import sources_conme as conme
import sources_imagecode as imagecode
import sources_mmvp_vlm as mmvp
from builder_support import Small
from hub_server import serving_hub

from vl_assay.hub_datasets import build
from vl_assay.hub_datasets.core.benchmarks import get_builder
from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.vismin.builder import VisMin
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.functional.groups import group_match
from vl_assay.model_wrappers import predict


@pytest.fixture
def small(tmp_path):
    """A function from a benchmark's name to its small copy."""
    return lambda name, *config: Small(name, tmp_path, *config)


def texts(row, *columns):
    return tuple(row[column] for column in columns)


GROUP = ("filename_0", "caption_0", "filename_1", "caption_1")


@pytest.mark.parametrize("key", ["236308_0", 7])
def test_coco_cf_has_both_captions_and_the_files_that_the_stems_name(small, key):
    copy = small("coco_cf")
    coco_cf.write_records(copy.folder, [coco_cf.records()[0] | {"id": key}])
    [row] = copy.rows(with_images=False)
    names = ("236308_0_img_0.jpg", "A dog in a park.", "236308_0_img_1.jpg", "A cat in a park.")
    assert (row["id"], texts(row, *GROUP)) == (f"pairs/{key}", names)


def test_cola_has_each_image_beside_its_own_caption_in_the_order_of_the_file(small):
    dataset = small("cola").build()
    assert dataset["id"][:] == [f"multiobjects/{number}" for number in range(5)]
    assert [texts(row, *GROUP) for row in dataset] == list(cola.GROUPS)


def test_released_images_of_cola_all_come_from_one_server(shared_data):
    rows = json.loads((shared_data / "data" / "cola" / Path(cola.ANNOTATIONS).name).read_text("utf-8"))
    assert {row[place].rsplit("/", 1)[0] for row in rows for place in (0, 2)} == {cola.SERVER}


@pytest.mark.parametrize("config", ["test", "train"])
def test_both_sources_of_colorswap_give_the_same_rows_and_images(config, small, tmp_path, monkeypatch):
    copy, tables = small("colorswap"), tmp_path / "hub" / "stanfordnlp" / "colorswap"
    colorswap.make_tables(tables, copy.folder)
    expected = copy.rows(config)
    assert [row["id"] for row in expected] == [f"{config}/{number}" for number in colorswap.IDS[config]]
    assert copy.rows(config, data_dir=tables) == expected
    with serving_hub(tables.parents[1], monkeypatch):
        assert copy.rows(config, data_dir=None) == expected


def test_the_caption_of_conme_is_the_option_that_the_letter_names(small):
    first, second = small("conme").rows("replace_rel", with_images=False)
    columns = ("id", "category", "filename", "question", "caption", "negative_caption")
    expected = ("replace_rel/0", "replace_rel", "000000000001.jpg", "What is it?", "a red cup", "a cup that isn't red")
    assert texts(first, *columns) == expected
    assert texts(second, "caption", "negative_caption") == ("a dog", "a cat, running")


def test_the_images_of_imagecode_are_sorted_by_number_with_the_right_one_first(small):
    copy, video = small("imagecode"), imagecode.VIDEO
    rows = copy.rows()
    assert [texts(row, "category", "defect") for row in rows] == [
        *[("video", "")] * 2, ("static", ""), ("static", "too short"),
    ]  # fmt: skip
    assert texts(rows[0], "id", "caption") == (f"valid/{video}/7", "The hand is behind the bowl. ")
    numbers = [0, *range(4, 13)]
    order = [7, 0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert [rows[0][f"filename_{n}"] for n in range(10)] == [f"{video}_{place}.jpg" for place in order]
    files = [copy.folder / "image-sets" / video / f"img{numbers[place]}.jpg" for place in order]
    assert [rows[0][f"image_{n}"]["bytes"] for n in range(10)] == [file.read_bytes() for file in files]


def test_of_a_set_of_imagecode_without_exactly_ten_images_none_is_taken(small):
    copy = small("imagecode")
    (copy.folder / "image-sets" / imagecode.VIDEO / "img0.jpg").unlink()
    copy.error(MissingSourceError, rf"10 of 20 images .*{imagecode.VIDEO}_")
    rows = copy.rows(allow_missing=True)
    assert [row["image_0"] is None and row["image_9"] is None for row in rows] == [True, True, False, False]


def test_a_pair_of_mmvp_is_two_images_of_a_pattern_each_with_its_statement_after_the_prefix(small):
    copy = small("mmvp_vlm")
    rows = copy.rows(with_images=False)
    assert rows[0] == {
        "id": "pairs/1-2",
        "category": "Orientation",
        "filename_0": "Orientation/1.jpg",
        "caption_0": "a photo of a dog facing left",
        "filename_1": "Orientation/2.jpg",
        "caption_1": "a photo of a dog facing right",
        "statement_0": "a dog facing left",
        "statement_1": "a dog facing right",
    }
    assert rows[1]["statement_1"] == 'a cup, "seen" from the side'
    for row in copy.rows(prefix="", with_images=False):
        assert texts(row, "caption_0", "caption_1") == texts(row, "statement_0", "statement_1")
    # Pairs are found by number, whatever the order of the file.
    mmvp.write_questions(copy.folder, [mmvp.ROWS[place] for place in (1, 3, 0, 2, 5, 4)])
    assert copy.rows(with_images=False) == rows


def test_the_image_score_is_the_pair_accuracy_of_mmvps_authors():
    """Of each statement the first image where its share in a softmax over both exceeds one half, else the second."""
    scores = np.random.default_rng(0).normal(size=(400, 2, 2))  # (pair, image, statement)
    share = np.exp(scores[:, 0]) / np.exp(scores).sum(axis=1)
    pairs = (share[:, 0] > 0.5) & ~(share[:, 1] > 0.5)
    assert group_match(scores)["image_score"] == pairs.mean()
    # A tie goes to the second image there, so that it is wrong for the first statement.
    assert group_match(np.ones((3, 2, 2)))["image_score"] == 0


def test_the_true_caption_of_negbench_comes_first_and_the_others_keep_their_order(small):
    copy = small("negbench")
    rows = copy.rows("coco")
    options = [f"COCO_val 2, a cat{', but no' * number} dog" for number in range(4)]
    assert [row["category"] for row in rows] == ["positive", "negative", "hybrid"]
    assert texts(rows[2], "caption", "negative_captions") == (options[2], [*options[:2], options[3]])
    assert rows[0]["filename"] == "COCO_val0.jpg"
    plain, negated = (copy.rows(config) for config in ("coco_retrieval", "coco_negated_retrieval"))
    assert plain[1]["captions"] == ["1: a cat on a mat", "1: A cat's nap.", '1: the "cat"']
    assert [row["filename"] for row in plain] == [row["filename"] for row in negated]
    assert [row["id"] for row in negated] == ["coco_negated_retrieval/0", "coco_negated_retrieval/1"]


def test_the_category_of_svo_probes_is_the_only_flag_and_no_row_is_dropped(small):
    rows = small("svo_probes").rows()
    assert [row["category"] for row in rows] == ["subj", "verb", "obj", "mixed"]
    assert [texts(row, "filename_0", "filename_1") for row in rows][:2] == [("1.jpg", "2.jpg"), ("3.jpg", "4.jpg")]
    assert rows[1]["caption"] == "A dog lies on grass."


def test_rows_of_valse_that_fewer_than_two_annotators_prefer_are_left_out_by_default(small, monkeypatch):
    copy = small("valse", "existence")
    # The votes of the three rows are 3, 2 and 1.
    ids = [row["id"] for row in copy.rows(with_images=False)]
    assert ids == ["existence/existence_test_0", "existence/existence_test_1"]
    assert len(copy.rows(with_images=False, all_rows=True)) == 3
    part = get_builder("valse").ROWS["existence"]
    monkeypatch.setitem(get_builder("valse").ROWS, "existence", replace(part, count=3))
    copy.error(DataError, r"existence \(valid rows\) has 2 rows, but the release has 505", verify=True)


def test_captions_of_vismin_are_exchanged_where_the_solutions_say_so(small):
    found = [texts(row, "id", "caption_0", "caption_1", "order") for row in small("vismin").rows()]
    assert found == [
        ("vismin/object/0", "A cat on a bed.", "A dog on a bed.", "released"),
        ("vismin/object/1", "A red car.", "A red bus.", "exchanged"),
        ("vismin/attribute/2", "A red cup.", "A blue cup.", "released"),
        ("vismin/relation/3", "A cup right of a bowl.", "A cup left of a bowl.", "exchanged"),
        ("vismin/counting/4", "Three apples.", "Two apples.", "exchanged"),
    ]


def test_numbers_of_vismin_are_compared_unless_told_otherwise(small, monkeypatch):
    copy = small("vismin")
    solutions = copy.folder / "solutions" / "sim_solution.csv"
    text = solutions.read_text(encoding="utf-8")
    before, after = text.rsplit("\n0,", 1)
    solutions.write_text(f"{before}\n7,{after}", encoding="utf-8")
    assert len(copy.rows()) == 5
    monkeypatch.setattr(VisMin, "ROWS", {"vismin": replace(VisMin.ROWS["vismin"], count=5)})
    copy.error(DataError, "row 4: counting 7, but that row of the dataset is counting 0", verify=True)
    solutions.write_text("\n".join(text.splitlines()[:-1]), encoding="utf-8")
    copy.error(DataError, "has 4 rows, but the release has 5")


def test_the_first_option_of_whats_up_is_the_caption_and_the_name_tells_the_relation(small):
    copy = small("whats_up")
    [left, right, *_] = found = copy.rows("controlled_a", with_images=False)
    assert [row["category"] for row in found] == ["left_of", "right_of", "on", "under"]
    assert {row["objects"] for row in found} == {"pillow, chair"}
    assert left["caption"] == "A pillow left of a chair"
    assert left["negative_captions"] == ["A pillow right of a chair", "A pillow on a chair", "A pillow under a chair"]
    assert (left["defect"], right["defect"]) == ("images exchanged",) * 2
    assert [row["defect"] for row in found[2:]] == [None, None]
    for config, name in (("coco_two", "000000000007.jpg"), ("vg_two", "7.jpg")):
        first = copy.rows(config, with_images=False)[0]
        assert texts(first, "filename", "category", "objects") == (name, "left", None)
        assert first["negative_captions"] == ["A photo of a cat to the right of a dog"]


def test_a_build_of_one_configuration_of_sugarcrepe_pp_is_scored_with_images_and_as_texts(small, tmp_path):
    copy = small("sugarcrepe_pp")
    out = build("sugarcrepe_pp", tmp_path / "built", configs=["swap_att"], data_dir=copy.folder, options=copy.options)
    files = predict("mock:bag-of-words", str(out), out=tmp_path / "out", progress=False)
    assert [file.name for file in files] == ["sugarcrepe_pp.swap_att.parquet", "sugarcrepe_pp.tot+swap_att.parquet"]


def written(file, content):
    """Damage: a file of JSON with this content."""

    def write(folder):
        (folder / file).write_text(json.dumps(content), encoding="utf-8")

    return write


def replaced(file, old, new):
    """Damage: a text in a file is replaced once."""

    def write(folder):
        text = (folder / file).read_text(encoding="utf-8")
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")

    return write


def conme_row(**fields):
    row = tuple(fields.get(name, value) for name, value in zip(conme.HEADER, conme.ROWS[0], strict=True))
    return lambda folder: conme.write_rows(folder, "replace_att", [row])


def negbench_captions(value):
    def write(folder):
        with (folder / "COCO_val_retrieval.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["filepath", "captions"], ["a.jpg", value]])

    return write


RECORD = coco_cf.records()[0]
COLA = [f"{cola.SERVER}/1.jpg", "a", f"{cola.SERVER}/2.jpg", "b"]
SWAPS = colorswap.rows("test")
NEGBENCH, SVO, SOLUTIONS = "COCO_val_mcq_llama3.1_rephrased.csv", "svo_probes.csv", "solutions/sim_solution.csv"
CONME = "replace-att_HUMAN_FILTER.csv"
# Benchmark and configuration, the damage, and what the message says, in this order.
DAMAGE = [
    *(
        ("coco_cf", "pairs", lambda folder, rows=rows: coco_cf.write_records(folder, rows), ("examples.jsonl", found))
        for rows, found in (
            ([RECORD, RECORD | {"image_1": "../a"}], "row 1: image_1 '../a' is not the stem"),
            ([RECORD | {"caption_0": " "}], "row 0: caption_0 is empty"),
        )
    ),
    *(
        ("cola", "multiobjects", written(cola.ANNOTATIONS, rows), (cola.ANNOTATIONS, found, "Expected"))
        for rows, found in (
            ([COLA, COLA[:3]], "row 1: found ["),
            ([[COLA[0], " ", *COLA[2:]]], "row 0: caption_0 is empty"),
            ([[*COLA[:2], "file:///etc/hosts", "b"]], "row 0: url_1 'file:///etc/hosts' is not the http(s) URL"),
            ([[f"{cola.SERVER}/..", *COLA[1:]]], "row 0: url_0"),
            ([COLA, ["https://elsewhere.org/1.jpg", *COLA[1:]]], "have the same file name"),
        )
    ),
    *(
        ("colorswap", "test", written("test.json", [SWAPS[0], SWAPS[1] | change, *SWAPS[2:]]), (found,))
        for change, found in (({"image_1": "../img.png"}, "does not lead to a file in a folder"),)
    ),
    *(
        ("conme", "replace_att", conme_row(**change), (CONME, found))
        for change, found in (
            ({"correct": "a red cup"}, "row 0: correct is 'a red cup', not the letter"),
            ({"text_options": f"['a', '{'b' * 20_000}']"}, ", not a list of two texts"),
            ({"text_options": "[print('evaluated'), 'b']"}, "text_options: [str]"),
            ({"image": "../../etc/hosts"}, "does not lead to a file in a folder"),
        )
    ),
    *(
        ("imagecode", "valid", written("data/valid_data.json", sets), (found,))
        for sets, found in (
            ({imagecode.VIDEO: ["a text without a label"]}, "found ['a text without a label']"),
            ({"../elsewhere": {"1": "a text"}}, "'../elsewhere' is no bare name"),
        )
    ),
    *(
        ("mmvp_vlm", "pairs", lambda folder, rows=rows: mmvp.write_questions(folder, rows), ("Questions.csv", found))
        for rows, found in (
            (mmvp.ROWS[:3], "Question ID 3 and 4 have Type 'Camera Perspective' and None"),
            ([*mmvp.ROWS, mmvp.ROWS[0]], "Question ID occurs twice"),
            ([("1", "../Color", "a")], "row 0: Type '../Color' is not the name of a folder"),
        )
    ),
    *(
        ("negbench", "coco", replaced(NEGBENCH, old, new), (found,))
        for old, new, found in (
            (",2,hybrid", ",4,hybrid", "row 2: correct_answer is '4', which is not 0, 1, 2 or 3"),
            (",2,hybrid", ",2,mixed", "row 2: correct_answer_template 'mixed' is not one of positive, negative"),
            ("COCO_val1.jpg", "..", "..' does not end in a file name"),
        )
    ),
    *(
        ("negbench", "coco_retrieval", negbench_captions(value), ("row 0: captions is ", "gdown"))
        for value in ("[]", "['']", "[print('evaluated')]", "[" * 5000)
    ),
    *(
        ("svo_probes", "svo", replaced(SVO, old, new), (found,))
        for old, new, found in (
            ("True,False,False", "maybe,False,False", "row 0: subj_neg is 'maybe'"),
            (",1,2,", ",../1,2,", "pos_image_id"),
        )
    ),
    *(
        ("vismin", "vismin", replaced(SOLUTIONS, old, new), (found,))
        for old, new, found in (
            (",attribute", ",counting", "row 2: counting 0, but that row of the dataset is attribute 0"),
            ("T0_I0 > T1_I0", "T0_I0 = T1_I0", "row 0: Text and Image are"),
        )
    ),
    *(
        ("whats_up", "vg_one", written("vg_qa_one_obj.json", [record]), ("vg_qa_one_obj.json, row 0",))
        for record in ([1.5, "a", "b"], [None, "a", "b"], [1, "a"], ["../1", "a", "b"])
    ),
]


@pytest.mark.parametrize(("name", "config", "damage", "found"), DAMAGE)
def test_damage_is_named_and_nothing_is_evaluated(small, name, config, damage, found, capsys):
    copy = small(name, config)
    damage(copy.folder)
    message = copy.error(DataError, None)
    assert [text for text in found if text not in message] == []
    assert "evaluated" not in capsys.readouterr().out
