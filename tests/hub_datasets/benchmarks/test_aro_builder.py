"""The ARO builder: relations and attributes, their crops, what is asked of the user's files, and that its card is true.

The order configurations are tested in `test_aro_order`.
"""

from __future__ import annotations

import ast
import io
import json
import re
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import sources_aro
from builder_support import Small, card_table, paper_text
from PIL import Image

from vl_assay.hub_datasets import get_benchmark, report
from vl_assay.hub_datasets.aro import builder as module
from vl_assay.hub_datasets.aro import release as release_module
from vl_assay.hub_datasets.aro.builder import CONFIG_NAMES
from vl_assay.hub_datasets.aro.karpathy import SOURCES
from vl_assay.hub_datasets.aro.order import SOURCE_NAMES
from vl_assay.metrics.functional.aro import SYMMETRIC
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import score

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
COMMON = ["id", "category", "image", "filename", "caption", "negative_caption"]
ORDER = CONFIG_NAMES[2:]
RELATION_FILE, ATTRIBUTION_FILE = "visual_genome_relation.json", "visual_genome_attribution.json"


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small("aro", tmp_path)


def released_rows(folder: Path, name: str = RELATION_FILE) -> list[dict[str, Any]]:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def rewrite(folder: Path, name: str = RELATION_FILE, **fields: Any) -> None:
    """Change fields of the first row."""
    rows = released_rows(folder, name)
    sources_aro.write(folder / name, [rows[0] | fields, *rows[1:]])


@pytest.mark.parametrize(("config", "label"), [("vg_relation", "relation"), ("vg_attribution", "attributes")])
def test_columns_and_types_are_the_documented_ones(small, config, label):
    features = small.build(config).features
    assert list(features) == [*COMMON, label, "bbox"]
    assert isinstance(features["image"], datasets.Image)
    assert features["bbox"] == datasets.List(datasets.Value("float32"))
    text = datasets.Value("string")
    assert features[label] == (datasets.List(text) if label == "attributes" else text)
    assert {repr(features[name]) for name in COMMON if name != "image"} == {repr(text)}


def test_a_relation_row_holds_what_the_file_holds(small):
    row = small.build()[5]
    del row["image"]
    assert row == {  # row 5 of sources_aro: image 5 % 5, relation 5 % 4, left 5 % 7, top 5 % 3
        "id": "vg_relation/5",
        "category": "eating",
        "filename": "2315000.jpg",
        "caption": "the horse is eating the grass",
        "negative_caption": "the grass is eating the horse",
        "relation": "eating",
        "bbox": [5.0, 2.0, 45.0, 32.0],
    }


def test_an_attribution_row_holds_what_the_file_holds(small):
    row = small.build("vg_attribution")[27]
    del row["image"]
    assert row == {  # row 27 of sources_aro: image 27 % 5, left 27 % 7, top 27 % 3
        "id": "vg_attribution/27",
        "category": "open & white",
        "filename": "2315002.jpg",
        "caption": "the open cat and the white door",
        "negative_caption": "the white cat and the open door",
        "attributes": ["open", "white"],
        "bbox": [6.0, 0.0, 44.0, 30.0],
    }


def test_text_is_kept_exactly_as_released(small):
    rewrite(small.folder, true_caption=" The horse  is on Ö.\n", false_caption="the horse")
    row = small.build(with_images=False)[0]
    assert (row["caption"], row["negative_caption"]) == (" The horse  is on Ö.\n", "the horse")


def test_no_row_is_left_out_not_even_a_symmetric_relation(small):
    relations = small.build(with_images=False)["relation"][:]
    assert relations == [row["relation_name"] for row in released_rows(small.folder)]
    assert "next to" in relations
    assert "next to" in SYMMETRIC


def test_the_image_is_what_the_box_shows_pixel_by_pixel(small):
    for row in small.build():
        whole = np.asarray(Image.open(small.folder / "images" / row["filename"]))
        x, y, width, height = map(int, row["bbox"])
        assert np.array_equal(np.asarray(row["image"]), whole[y : y + height, x : x + width])


def test_a_crop_is_a_png_whose_name_tells_photograph_and_corners(small):
    file = small.rows()[5]["image"]
    assert file["path"] == "2315000-5-2-50-34.png"  # box [5, 2, 45, 32]: 5 + 45, 2 + 32
    assert Image.open(io.BytesIO(file["bytes"])).format == "PNG"


def test_crops_of_one_photograph_are_told_apart_and_equal_crops_are_not(small):
    rows = released_rows(small.folder)[:2]
    box = {side: rows[0][side] for side in ("image_path", "bbox_x", "bbox_y", "bbox_w", "bbox_h")}
    sources_aro.write(small.folder / RELATION_FILE, [rows[0], rows[1] | box, rows[1] | box | {"bbox_w": 20}])
    one, same, other = (row["image"] for row in small.rows())
    assert one == same
    assert one["path"] != other["path"]
    assert one["bytes"] != other["bytes"]


def test_whole_images_are_the_bytes_of_the_files(small):
    for row in small.rows(crop=False):
        name = row["filename"]
        assert row["image"] == {"path": name, "bytes": (small.folder / "images" / name).read_bytes()}


def test_what_of_a_box_lies_outside_the_photograph_is_black(small):
    rewrite(small.folder, bbox_x=-3, bbox_y=10, bbox_w=70, bbox_h=40)  # the photograph is 60 × 40
    pixels = np.asarray(small.build()[0]["image"])
    assert pixels.shape == (40, 70, 3)
    inside = np.zeros((40, 70), dtype=bool)
    inside[:30, 3:63] = True
    assert not pixels[~inside].any()
    assert pixels[inside].any()


def test_a_box_of_fractions_is_rounded_as_pillow_rounds_it(small):
    rewrite(small.folder, bbox_x=1.6, bbox_y=0.4, bbox_w=10.5, bbox_h=20.2)
    file = small.rows()[0]["image"]
    assert file["path"] == "2315000-2-0-12-21.png"  # 1.6, 0.4, 12.1, 20.6
    whole = Image.open(small.folder / "images" / "2315000.jpg")
    expected = whole.crop((1.6, 0.4, 1.6 + 10.5, 0.4 + 20.2))  # type: ignore[arg-type]
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(file["bytes"]))), np.asarray(expected))


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_a_crop_has_three_colours_whatever_the_photograph_has(small, mode):
    Image.open(small.folder / "images" / "2315000.jpg").convert(mode).save(small.folder / "images" / "2315000.jpg")
    assert small.build()[0]["image"].mode == "RGB"


def test_a_file_that_is_no_image_is_named_with_the_cure(small):
    path = small.folder / "images" / "2315001.jpg"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(datasets.exceptions.DatasetGenerationError) as caught:
        small.builder().download_and_prepare()
    assert f"{path} cannot be read as an image" in str(caught.value.__cause__)
    assert "crop=False" in str(caught.value.__cause__)
    assert small.rows(crop=False)[1]["image"]["bytes"] == path.read_bytes()


def test_the_image_folder_is_preferred_to_a_bare_file(small):
    (small.folder / "2315000.jpg").write_bytes(b"another file of that name")
    assert small.rows(crop=False)[0]["image"]["bytes"] == (small.folder / "images" / "2315000.jpg").read_bytes()


def test_images_may_lie_in_folders_of_their_own(small):
    (small.folder / "images" / "VG_100K").mkdir()
    (small.folder / "images" / "2315000.jpg").rename(small.folder / "images" / "VG_100K" / "2315000.jpg")
    rows = [row for row in released_rows(small.folder) if row["image_path"] == "2315000.jpg"]
    sources_aro.write(small.folder / RELATION_FILE, [row | {"image_path": "VG_100K/2315000.jpg"} for row in rows])
    dataset = small.build()
    assert set(dataset["filename"]) == {"VG_100K/2315000.jpg"}
    assert dataset["image"][0].size == (50, 30)


def test_one_configuration_needs_its_own_file_alone(small):
    (small.folder / ATTRIBUTION_FILE).unlink()
    assert len(small.build()) == 12


def test_many_missing_images_and_rows_are_counted_after_the_first_five(small):
    rows = [sources_aro.relation_row(0, "on") | {"image_path": f"{n}.jpg"} for n in range(8)] * 7
    sources_aro.write(small.folder / RELATION_FILE, rows)
    small.error(FileNotFoundError, r"8 of 8 .*vg_relation/32, and 2 more\), .*, and 3 more\. Get")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[", "not valid JSON"),
        ("", "not valid JSON"),
        ("{}", "dict at the top level"),
        ("[]", "an empty list"),
        ("[7]", "row 0: found int instead of a row"),
    ],
)
def test_a_damaged_file_is_named_with_what_was_expected(small, text, found):
    path = small.folder / RELATION_FILE
    path.write_text(text, encoding="utf-8")
    message = small.error(ValueError, "Expected")
    assert str(path) in message
    assert found in message


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"true_caption": None}, "true_caption is None, not text"),
        ({"false_caption": ""}, "false_caption is '', not text"),
        ({"relation_name": ["on"]}, "relation_name is ['on'], not text"),
        ({"bbox_x": "3"}, "bbox_x is '3', no number of pixels"),
        ({"bbox_y": True}, "bbox_y is True, no number of pixels"),
        ({"bbox_w": float("nan")}, "bbox_w is nan, no number of pixels"),
        ({"bbox_h": 10**400}, "no number of pixels"),
        ({"bbox_w": 0}, "the box [0, 0, 0, 30] holds no pixel"),
        ({"bbox_h": -30}, "the box [0, 0, 50, -30] holds no pixel"),
        ({"bbox_w": 0.4}, "holds no pixel"),
        ({"image_path": "../secret.jpg"}, "image_path '../secret.jpg' does not lead"),
        ({"image_path": "/etc/passwd"}, "image_path '/etc/passwd' does not lead"),
        ({"image_path": "."}, "image_path '.' does not lead"),
        ({"image_path": "a\\b.jpg"}, "does not lead"),
    ],
)
def test_a_damaged_row_is_named(small, fields, found):
    rewrite(small.folder, **fields)
    assert found in small.error(ValueError, f"{RELATION_FILE}, row 0: .*Expected an object with the texts")


@pytest.mark.parametrize("attributes", ["small & brown", ["small"], ["small", "brown", "red"], ["small", ""], None])
def test_attributes_are_a_list_of_two_texts(small, attributes):
    rewrite(small.folder, ATTRIBUTION_FILE, attributes=attributes)
    small.error(ValueError, r"row 0: attributes is .*, not a list of two texts\. Expected", "vg_attribution")


@pytest.mark.parametrize(
    ("config", "name", "field"),
    [("vg_relation", RELATION_FILE, "relation_name"), ("vg_attribution", ATTRIBUTION_FILE, "attributes")],
)
def test_a_missing_field_is_named(small, config, name, field):
    rows = released_rows(small.folder, name)
    del rows[3][field]
    sources_aro.write(small.folder / name, rows)
    small.error(ValueError, rf"row 3: {field} is missing\. Expected .*{field}", config)


@pytest.mark.parametrize(
    ("config", "rows", "released"), [("vg_relation", 12, "23,937"), ("vg_attribution", 30, "28,748")]
)
def test_another_number_of_rows_than_the_release_is_refused_unless_allowed(small, config, rows, released):
    small.error(ValueError, rf"has {rows} rows, but the release has {released}\. .*verify=False", config, verify=True)
    assert len(small.build(config)) == rows


def test_a_file_of_the_size_of_the_release_is_accepted(small):
    rows = [sources_aro.relation_row(number, "on") for number in range(23_937)]
    sources_aro.write(small.folder / RELATION_FILE, rows)
    stream = small.builder(verify=True, with_images=False).as_streaming_dataset(split="test")
    assert [row["id"] for row in stream.take(2)] == ["vg_relation/0", "vg_relation/1"]


def run(small: Small, model: str, out: Path, **options: Any) -> list[Path]:
    return score(model, ["aro"], data_dir=small.folder, options=small.options | options, out=out, progress=False)


def test_both_parts_are_judged_with_the_papers_averages(small, tmp_path):
    relation, attribution = report(run(small, "mock:shuffled", tmp_path), resamples=100)
    assert [result.metric for result in (relation, attribution)] == ["aro_itm", "aro_itm"]
    # 12 rows, 3 each of on, eating, to the left of and next to; the last is symmetric.
    assert (relation.scores["n"], relation.scores["n_symmetric"]) == (9, 3)
    assert {name: part["n"] for name, part in relation.scores["per_group"].items()} == {"spatial": 6, "verb": 3}
    assert (attribution.scores["n"], attribution.scores["rare"]) == (30, {"open & white": 4})
    assert attribution.scores["macro_accuracy"] == attribution.scores["per_category"]["small & brown"]["accuracy"]


def test_a_bag_of_words_ties_everywhere_as_the_card_says(small, tmp_path):
    for result in report(run(small, "mock:bag-of-words", tmp_path), resamples=100):
        assert (result.scores["accuracy"], result.scores["tie_rate"]) == (0.0, 1.0)


def test_a_predictions_of_crops_is_not_taken_for_one_of_whole_images(small, tmp_path):
    predictions = [run(small, "mock:shuffled", tmp_path / str(crop), crop=crop) for crop in (True, False)]
    crops, wholes = (read_predictions(paths[0]) for paths in predictions)
    assert [row.id for row in crops.rows] == [row.id for row in wholes.rows]
    assert [row.scores for row in crops.rows] != [row.scores for row in wholes.rows]
    assert crops.metadata["benchmark"] != wholes.metadata["benchmark"]


def test_every_configuration_has_a_task():
    tasks = get_benchmark("aro").tasks
    assert [task.configs for task in tasks] == [(name,) for name in CONFIG_NAMES]
    assert [task.cluster for task in tasks] == ["filename", "filename", None, None]
    assert [task.by_default for task in tasks] == [True, True, False, False]


def test_the_row_of_the_card_is_what_the_builder_makes_of_it(small):
    shown = re.search(r"\[0\]\n(\{.*?\})\n```", CARD, re.DOTALL)
    assert shown
    row = ast.literal_eval(re.sub(r"<.*?\.\.\.>", "None", shown[1]))
    image = {"image_path": row["filename"]}
    box = dict(zip(("bbox_x", "bbox_y", "bbox_w", "bbox_h"), row["bbox"], strict=True))
    texts = {"true_caption": row["caption"], "false_caption": row["negative_caption"], "relation_name": row["relation"]}
    sources_aro.write(small.folder / RELATION_FILE, [image | box | texts])
    made = small.build()[0]
    assert f"{type(made['image']).__module__}.{type(made['image']).__name__}" in shown[1]
    assert list(made) == list(row)
    assert made | {"image": None} == row


@pytest.mark.parametrize("config", CONFIG_NAMES)
def test_the_card_lists_the_columns(small, config):
    table = CARD.split("| column | type | content |\n|---|---|---|\n")[2 if config in ORDER else 1].split("\n\n")[0]
    other = {"vg_relation": "attributes", "vg_attribution": "relation"}.get(config)
    listed = [line.strip("|").split("|")[0].strip() for line in table.splitlines()]
    assert [name for name in listed if name != other] == list(small.builder(config).info.features)


def test_the_card_names_the_files_of_the_release_and_counts_their_rows():
    for name, drive_id in release_module.DRIVE_IDS.items():
        assert f"gdown {drive_id} -O {name}" in CARD
    rows = release_module.ROWS | {config: SOURCES[name].captions for config, name in SOURCE_NAMES.items()}
    assert {config: cells[1] for config, cells in card_table("aro", "counts").items()} == {
        config: f"{number:,}" for config, number in rows.items()
    }


def test_the_card_counts_as_the_paper_counts(shared_data):
    paper = re.sub(r"(\d), (\d{3})", r"\1,\2", " ".join(paper_text(shared_data, "004").split()))
    sizes = re.search(
        r"with (\d+) relations .*?with ([\d,]+) test cases in total; and (\d+) unique .*?([\d,]+) test", paper
    )
    assert sizes
    assert f"counts {sizes[1]} relations with {sizes[2]} rows, and {sizes[3]} pairs of attributes with {sizes[4]}" in (
        " ".join(CARD.split())
    )
    assert [f"{rows:,}" for rows in release_module.ROWS.values()] == [sizes[2], sizes[4]]
    assert "‘the horse is eating the grass’ vs ‘the grass is eating the horse’" in paper  # Figure 1
    assert "such as “near” or “next to”" in paper


def test_the_card_counts_as_table_2_counts(shared_data):
    text = paper_text(shared_data, "004").split("Table 2: Fine-grained results")[1].split("B\nMODELS\n")[0]
    # A relation, six accuracies, a count: a line each.
    rows = re.findall(r"\n([a-zﬂ ]+)\n(?:[01]\.?\d*\n){6}(\d+)(?=\n)", text)
    counts = {name: int(count) for name, count in rows}
    total = sum(counts.values())
    card = " ".join(CARD.split())
    assert (
        f"Table 2 has {len(counts)} with {total:,}. The other {48 - len(counts)}, with {23_937 - total:,} rows" in card
    )
    left, right = counts["to the left of"], counts["to the right of"]
    assert left == right
    share = 100 * (left + right) / total
    assert f"have {left:,} rows each, together {share:.1f} % of the {total:,}" in card
    assert f"the rarest relations of Table 2 have {min(counts.values())}" in card


def test_the_card_counts_the_symmetric_relations():
    assert f"drops {len(SYMMETRIC)} names" in " ".join(CARD.split())
    assert {"drinking", "near", "next to"} <= SYMMETRIC


def test_the_card_quotes_table_8_of_sugarcrepe(shared_data):
    table = paper_text(shared_data, "000").split("Table 8: Blind models")[1].split("D.2 SUGARCREPE")[0]
    lines = [line.split("\t") for line in table.splitlines() if "\t" in line]
    names = lines[1][-10:]
    columns = [names.index(name) for name in ("VG-Relation", "VG-Attribution")]
    models = {cells[-11]: [cells[-10:][column] for column in columns] for cells in lines[2:]}
    ours = card_table("aro", "blind")
    assert ours["Vera (text only)"] == models.pop("Vera [27]")
    assert ours["Grammar (text only)"] == models.pop("Grammar [31]")
    assert len(models) == 17
    best = [max(column, key=float) for column in zip(*models.values(), strict=True)]
    assert ours["the best of 17 CLIP models, for each"] == best
