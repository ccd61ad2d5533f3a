"""Damage to the sources of each benchmark is named with its file, and nothing that stands in a file is evaluated."""

import csv
import json
import re

import pytest
from builder_support import Small
from sources_cola import ANNOTATIONS as COLA
from sources_cola import SERVER
from sources_eqben import SUBSET, groups
from sources_imagecode import VIDEO

from vl_assay.metrics.common.errors import DataError


def edited(file, change):
    """Damage: `change` alters the content of a JSON file in place."""

    def write(folder):
        content = json.loads((folder / file).read_text(encoding="utf-8"))
        change(content)
        (folder / file).write_text(json.dumps(content), encoding="utf-8")

    return write


def changed(file, *place, **fields):
    """Damage: fields of the entry at a place in a JSON file have other values."""

    def change(content):
        for key in place:
            content = content[key]
        content.update(fields)

    return edited(file, change)


def written(file, content):
    """Damage: a file of JSON with this content."""
    return lambda folder: (folder / file).write_text(json.dumps(content), encoding="utf-8")


def replaced(file, old, new):
    """Damage: a text in a file is replaced once."""

    def write(folder):
        text = (folder / file).read_text(encoding="utf-8")
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")

    return write


def table(file, *rows):
    """Damage: a CSV file of these rows."""

    def write(folder):
        with (folder / file).open("w", encoding="utf-8", newline="") as target:
            csv.writer(target).writerows(rows)

    return write


EXAMPLES, CONME, SVO = "data/examples.jsonl", "replace-att_HUMAN_FILTER.csv", "svo_probes.csv"
NEGBENCH, SOLUTIONS = "COCO_val_mcq_llama3.1_rephrased.csv", "solutions/sim_solution.csv"
ATTRIBUTION, KARPATHY = "visual_genome_attribution.json", "coco_karpathy_test.json"
CHECKLIST, COUNT = "data/Relation/vg/spatial.json", "count/text2image.json"
PAIRS = "NaturalBench-Retrieval/metadata.json"
GROUNDING, VQA = "TRICD/TRICD_grounding_val.json", "TRICD/TRICD_VQA_val.json"
RELATIONS, SWAPS, SETS = "data/vl_checklist_relations.json", f"data/{ATTRIBUTION}", "data/valid_data.json"
TEXTS = {"POS": ["a"], "NEG": ["b"]}
# By benchmark and configuration: the damage, and what the message says of it.
CASES = {
    "aro/vg_attribution": [
        (changed(ATTRIBUTION, 0, attributes=value), "row 0: attributes is ")
        for value in ("small & brown", ["small"], ["small", ""])
    ],
    "aro/coco_order": [
        (written(KARPATHY, [{"image": "a.jpg"}]), "row 0: caption is None"),
        (written(KARPATHY, [{"image": "../a.jpg", "caption": ["a"]}]), "row 0: image '../a.jpg' does not lead to"),
        (written(KARPATHY, [{"image": "a.jpg", "caption": []}]), "row 0: caption is an empty list"),
        (
            written(KARPATHY, [{"image": f"{folder}/a.jpg", "caption": ["a"]} for folder in "xy"]),
            "row 1: image 'y/a.jpg' occurs twice",
        ),
    ],
    "coco_cf/pairs": [
        (replaced(EXAMPLES, '"236308_1_img_1"', '"../a"'), "row 1: image_1 '../a' is not the stem"),
        (replaced(EXAMPLES, '"A dog in a park."', '" "'), "row 0: caption_0 is empty"),
    ],
    "cola/multiobjects": [
        (replaced(COLA, ', "brown dog on small chair"', ""), "row 1: found ["),
        (replaced(COLA, "small dog behind large brown chair", " "), "row 1: caption_0 is empty"),
        (replaced(COLA, f"{SERVER}/12.jpg", "file:///etc/hosts"), "row 0: url_1 'file:///etc/hosts'"),
        (replaced(COLA, "11.jpg", ".."), "row 0: url_0"),
        (replaced(COLA, f"{SERVER}/13.jpg", "https://other.org/11.jpg"), "have the same file name"),
    ],
    "colorswap/test": [(changed("test.json", 1, image_1="../img.png"), "does not lead to a file in a folder")],
    "conme/replace_att": [
        (replaced(CONME, ",A", ",a red cup"), "row 0: correct is 'a red cup', not the letter"),
        (replaced(CONME, "a red cup", "b" * 20_000), ", not a list of two texts"),
        (replaced(CONME, "'a red cup'", "print('evaluated')"), "text_options: [str]"),
        (replaced(CONME, "images/000000000001.jpg", "../../etc/hosts"), "does not lead to a file in a folder"),
    ],
    "eqben/eqbenag": [
        (changed(SUBSET, 0, image1="eqbensd/1.png"), "row 0: the images lie in 'eqbenag' and 'eqbensd'"),
        (changed(SUBSET, 0, image0="other/1.png", image1="other/2.png"), "row 0: the images lie in 'other'"),
        (changed(SUBSET, 0, image0="eqbenag/../../etc/hosts"), "does not lead to a file in a folder"),
        (written(SUBSET, groups(("eqbensd",))), "has no groups of eqbenag"),
    ],
    "hard_positives/replace_relations": [
        (
            changed(RELATIONS, 1, image_path="a/.."),
            "row 1: image_path 'a/..' does not end in",
        )
    ],
    "hard_positives/swap": [
        (changed(SWAPS, 1, bbox_w=0), "row 1: the box [4, 2, 0, 30] (x, y, width, height) holds no"),
        (changed(SWAPS, 1, attributes=["x"]), "row 1: attributes is ['x'], not a list of two texts"),
    ],
    "imagecode/valid": [
        (written(SETS, {VIDEO: ["a text without a label"]}), "found ['a text without a label']"),
        (written(SETS, {"../other": {"1": "a text"}}), "'../other' is no bare name"),
    ],
    "mmvp_vlm/pairs": [
        (replaced("Questions.csv", "\n4,Camera", "\n40,Camera"), "ID 3 and 4 have Type 'Camera Perspective' and None"),
        (replaced("Questions.csv", "\n2,", "\n1,"), "Question ID occurs twice"),
        (replaced("Questions.csv", "1,Orient", "1,../Orient"), "row 0: Type '../Orientation' is not the name of a"),
    ],
    "naturalbench/retrieval": [
        (changed(PAIRS, 1, caption_0=""), "row 1: caption_0 is empty"),
        (changed(PAIRS, 1, index="one"), "row 1: index is 'one'"),
        (changed(PAIRS, 1, image_1="../1.jpg"), "'../1.jpg' of retrieval/1 does not lead to a file"),
    ],
    "negbench/coco": [
        (replaced(NEGBENCH, ",2,hybrid", ",4,hybrid"), "row 2: correct_answer is '4', which is not 0, 1, 2 or 3"),
        (replaced(NEGBENCH, ",2,hybrid", ",2,mixed"), "correct_answer_template 'mixed' is not one of"),
        (replaced(NEGBENCH, "COCO_val1.jpg", ".."), "..' does not end in a file name"),
    ],
    "negbench/coco_retrieval": [
        (table("COCO_val_retrieval.csv", ["filepath", "captions"], ["a.jpg", value]), "row 0: captions is ")
        for value in ("[]", "['']", "[print('evaluated')]", "[" * 5000)
    ],
    "spec/count_t2i": [
        (changed(COUNT, 0, keys=["one"]), "row 0: keys has 1 entries, but a row of count chooses from 9"),
        (changed(COUNT, 0, label=9), "row 0: label is 9, which is not a place in keys, from 0 to 8"),
        (changed(COUNT, 0, label=-1), "row 0: label is -1, which"),
        (changed(COUNT, 0, query=" "), "row 0: ' ' among the query and keys is empty"),
        (
            changed(COUNT, 0, keys=["../x.jpg", *"abcdefgh"], label=0),
            "the image '../x.jpg' of count_t2i/0 does not lead",
        ),
    ],
    "sugarcrepe/swap_obj": [
        (changed("data/swap_obj.json", "1", filename="../a.jpg"), "key '1': filename '../a.jpg' is not a bare file")
    ],
    "svo_probes/svo": [
        (replaced(SVO, "True,False,False", "maybe,False,False"), "row 0: subj_neg is 'maybe'"),
        (replaced(SVO, ",1,2,", ",../1,2,"), "pos_image_id"),
    ],
    "tricd/val": [
        (edited(GROUNDING, lambda content: content.pop("images")), "no list 'images'"),
        (changed(GROUNDING, "images", 2, id=1), "images[2]: id 1 occurs twice"),
        (changed(GROUNDING, "images", 2, file_name="../a.jpg"), "images[2]: file_name '../a.jpg'"),
        (changed(GROUNDING, "images", 0, phrases={"1": [[0, 99]]}), "image 1, phrase 1: found [[0, 99]]"),
        (changed(GROUNDING, "images", 0, phrases={"1": [[0, 3]]}), "phrase 2 of image 1, which is not in the file"),
        (changed(GROUNDING, "images", 3, phrases={"5": [[0, 3]]}), "phrase id 5 occurs twice"),
        (changed(GROUNDING, "images", 0, positive=False), "image 1, phrase 1: found 1 boxes. Expected none"),
        (changed(GROUNDING, "images", 2, positive=True), "image 3, phrase 5: found 0 boxes. Expected at least one"),
        (changed(GROUNDING, "annotations", 0, bbox=[1, 2, 3, 0]), "annotation 1: found bbox [1, 2, 3, 0]"),
        (changed(GROUNDING, "annotations", 0, bbox=[1, 2, 3, float("nan")]), "annotation 1: found bbox"),
    ],
    "tricd/vqa": [
        (changed(VQA, "annotations", 1, answer=2), "question 2: no usable answer"),
        (edited(VQA, lambda content: content["annotations"].pop(1)), "question 2: no usable answer"),
    ],
    "tricd/groups": [
        (edited(GROUNDING, lambda content: content["images"].pop(1)), "group 1 (images 1, 3, 4): not a cross"),
        (changed(GROUNDING, "images", 2, caption="another"), "group 1 (images 1, 2, 3, 4): not a cross"),
        (changed(GROUNDING, "images", 2, file_name="19.jpg"), "group 1 (images 1, 2, 3, 4): not a cross"),
        (edited(GROUNDING, lambda content: content["images"].append(content["images"][0] | {"id": 99})), "group 1 ("),
    ],
    "vismin/vismin": [
        (replaced(SOLUTIONS, ",attribute", ",counting"), "row 2: counting 0, but that row"),
        (replaced(SOLUTIONS, "T0_I0 > T1_I0", "T0_I0 = T1_I0"), "row 0: Text and Image are"),
    ],
    "vl_checklist/relation_spatial": [
        (edited(CHECKLIST, lambda content, row=row: content.append(row)), f"row 3: {found}. Expected")
        for row, found in (
            (["11.jpg"], "found ['11.jpg']"),
            (["11.jpg", {"POS": ["a"]}], "texts is {'POS': ['a']}"),
            (["11.jpg", TEXTS | {"POS": "a"}], "texts is {'POS': 'a', 'NEG': ['b']}"),
            (["../11.jpg", TEXTS], "'../11.jpg' is not the relative path of an image"),
        )
    ],
    "whats_up/vg_one": [
        (written("vg_qa_one_obj.json", [record]), "vg_qa_one_obj.json, row 0")
        for record in ([1.5, "a", "b"], [None, "a", "b"], [1, "a"], ["../1", "a", "b"])
    ],
    "winoground/winoground": [
        (replaced(EXAMPLES, '"id": 1', '"id": "1"'), "row 1: id is '1'"),
        (replaced(EXAMPLES, "ex_1_img_0", "../ex_1_img_0"), "row 1: image_0 '../ex_1_img_0' names no file"),
        *(
            (written("new_tag_assignments.json", tags), found)
            for tags, found in (
                ([], "holds no rows"),
                ({"0": "Unusual Text"}, "key '0': tags is 'Unusual Text'"),
                ({"0": ["Unusual"]}, "found the tag 'Unusual'"),
                ({"0": [], "1": []}, "lacks 3 of 5 examples, such as 2, 3, 4"),
            )
        ),
    ],
    "zero_shot/folder": [
        (table("test/metadata.csv", ["file_name", "label"], *rows), found)
        for rows, found in (
            ([], "holds no rows"),
            ([["../a.png", "cat"]], "no path in its folder"),
            ([["a.png", ""]], "has no label"),
            ([["a.png", "cat"], ["a.png", "dog"]], "more than one label of a.png"),
        )
    ],
}


@pytest.mark.parametrize(
    ("reference", "damage", "found"), [(reference, *case) for reference, cases in CASES.items() for case in cases]
)
def test_damage_is_named_with_its_file_and_nothing_is_evaluated(reference, damage, found, tmp_path, capsys):
    name, _, config = reference.partition("/")
    copy = Small(name, tmp_path, config)
    damage(copy.folder)
    message = copy.error(DataError, re.escape(found))
    assert any(path.name in message for path in copy.files())
    assert "evaluated" not in capsys.readouterr().out
