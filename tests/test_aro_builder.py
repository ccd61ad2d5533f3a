"""The ARO builder: relations and attributes, their crops, what is asked of the user's files, and that its card is true.

The order configurations are tested in `test_aro_order`.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import sources_aro
from huggingface_hub import DatasetCard
from PIL import Image

from vl_assay.hub_datasets import build as build_repository
from vl_assay.hub_datasets import get_benchmark, judge
from vl_assay.hub_datasets.aro import builder as module
from vl_assay.hub_datasets.aro import release as release_module
from vl_assay.hub_datasets.aro.builder import ARO, CONFIG_NAMES
from vl_assay.hub_datasets.aro.karpathy import SOURCES
from vl_assay.hub_datasets.aro.order import SOURCE_NAMES
from vl_assay.metrics.aro import SYMMETRIC
from vl_assay.metrics.citations import ARO as CITATION
from vl_assay.metrics.errors import DataError
from vl_assay.metrics.sheets import read_sheet
from vl_assay.model_wrappers import score

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
COMMON = ["id", "category", "image", "filename", "caption", "negative_caption"]
VISUAL_GENOME, ORDER = CONFIG_NAMES[:2], CONFIG_NAMES[2:]
RELATION_FILE, ATTRIBUTION_FILE = "visual_genome_relation.json", "visual_genome_attribution.json"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A folder laid out like the authors' release."""
    folder = tmp_path / "release"
    sources_aro.make(folder)
    return folder


@pytest.fixture
def make(tmp_path: Path):
    """Make a builder; the small files of these tests have other numbers of rows than the release."""

    def make(data_dir: Path | str | None = None, config: str = "vg_relation", **options: Any) -> ARO:
        return ARO(
            cache_dir=str(tmp_path / "cache"),
            dataset_name="aro",
            config_name=config,
            data_dir=None if data_dir is None else str(data_dir),
            **{"verify": False, **options},
        )

    return make


@pytest.fixture
def build(make):
    def build(*args: Any, **options: Any) -> datasets.Dataset:
        builder = make(*args, **options)
        builder.download_and_prepare()
        return builder.as_dataset(split="test")

    return build


def files_of(dataset: datasets.Dataset) -> list[dict[str, Any]]:
    return list(dataset.cast_column("image", datasets.Image(decode=False))["image"])


def released_rows(folder: Path, name: str = RELATION_FILE) -> list[dict[str, Any]]:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def rewrite(folder: Path, name: str = RELATION_FILE, **fields: Any) -> None:
    """Change fields of the first row."""
    rows = released_rows(folder, name)
    sources_aro.write(folder / name, [rows[0] | fields, *rows[1:]])


# --- what a row holds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "label"), [("vg_relation", "relation"), ("vg_attribution", "attributes")])
def test_columns_and_types_are_the_documented_ones(build, release, config, label):
    features = build(release, config).features
    assert list(features) == [*COMMON, label, "bbox"]
    assert isinstance(features["image"], datasets.Image)
    assert features["bbox"] == datasets.List(datasets.Value("float32"))
    text = datasets.Value("string")
    assert features[label] == (datasets.List(text) if label == "attributes" else text)
    assert {repr(features[name]) for name in COMMON if name != "image"} == {repr(text)}


def test_a_relation_row_holds_what_the_file_holds(build, release):
    row = build(release)[5]
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


def test_an_attribution_row_holds_what_the_file_holds(build, release):
    row = build(release, "vg_attribution")[27]
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


def test_text_is_kept_exactly_as_released(build, release):
    rewrite(release, true_caption=" The horse  is on Ö.\n", false_caption="the horse")
    row = build(release, with_images=False)[0]
    assert (row["caption"], row["negative_caption"]) == (" The horse  is on Ö.\n", "the horse")


def test_no_row_is_left_out_not_even_a_symmetric_relation(build, release):
    relations = build(release, with_images=False)["relation"][:]
    assert relations == [row["relation_name"] for row in released_rows(release)]
    assert "next to" in relations
    assert "next to" in SYMMETRIC


def test_streaming_gives_the_rows_of_the_prepared_dataset(build, make, release):
    stream = make(release).as_streaming_dataset(split="test").cast_column("image", datasets.Image(decode=False))
    rows = list(build(release).cast_column("image", datasets.Image(decode=False)))
    assert len(rows) == 12
    assert list(stream) == rows


def test_two_processes_give_the_rows_of_one(build, release, tmp_path):
    builder = ARO(cache_dir=str(tmp_path / "two"), config_name="vg_relation", data_dir=str(release), verify=False)
    builder.download_and_prepare(num_proc=2)
    two, one = builder.as_dataset(split="test"), build(release)
    assert len(list(Path(builder.cache_dir).glob("*.arrow"))) == 2
    assert two["id"][:] == one["id"][:]
    assert files_of(two) == files_of(one)


# --- the image ------------------------------------------------------------------------------------------------


def test_the_image_is_what_the_box_shows_pixel_by_pixel(build, release):
    for row in build(release):
        whole = np.asarray(Image.open(release / "images" / row["filename"]))
        x, y, width, height = map(int, row["bbox"])
        assert np.array_equal(np.asarray(row["image"]), whole[y : y + height, x : x + width])


def test_a_crop_is_a_png_whose_name_tells_photograph_and_corners(build, release):
    file = files_of(build(release))[5]
    assert file["path"] == "2315000-5-2-50-34.png"  # box [5, 2, 45, 32]: 5 + 45, 2 + 32
    assert Image.open(io.BytesIO(file["bytes"])).format == "PNG"


def test_crops_of_one_photograph_are_told_apart_and_equal_crops_are_not(build, release):
    rows = released_rows(release)[:2]
    box = {side: rows[0][side] for side in ("image_path", "bbox_x", "bbox_y", "bbox_w", "bbox_h")}
    sources_aro.write(release / RELATION_FILE, [rows[0], rows[1] | box, rows[1] | box | {"bbox_w": 20}])
    one, same, other = files_of(build(release))
    assert one == same
    assert one["path"] != other["path"]
    assert one["bytes"] != other["bytes"]


def test_whole_images_are_the_bytes_of_the_files(build, release):
    dataset = build(release, crop=False)
    for name, file in zip(dataset["filename"], files_of(dataset), strict=True):
        assert file == {"path": name, "bytes": (release / "images" / name).read_bytes()}
    assert dataset["bbox"][:] == build(release)["bbox"][:]


def test_what_of_a_box_lies_outside_the_photograph_is_black(build, release):
    rewrite(release, bbox_x=-3, bbox_y=10, bbox_w=70, bbox_h=40)  # the photograph is 60 × 40
    pixels = np.asarray(build(release)[0]["image"])
    assert pixels.shape == (40, 70, 3)
    inside = np.zeros((40, 70), dtype=bool)
    inside[:30, 3:63] = True
    assert not pixels[~inside].any()
    assert pixels[inside].any()


def test_a_box_of_fractions_is_rounded_as_pillow_rounds_it(build, release):
    rewrite(release, bbox_x=1.6, bbox_y=0.4, bbox_w=10.5, bbox_h=20.2)
    file = files_of(build(release))[0]
    assert file["path"] == "2315000-2-0-12-21.png"  # 1.6, 0.4, 12.1, 20.6
    whole = Image.open(release / "images" / "2315000.jpg")
    expected = whole.crop((1.6, 0.4, 1.6 + 10.5, 0.4 + 20.2))  # type: ignore[arg-type]
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(file["bytes"]))), np.asarray(expected))


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_a_crop_has_three_colours_whatever_the_photograph_has(build, release, mode):
    Image.open(release / "images" / "2315000.jpg").convert(mode).save(release / "images" / "2315000.jpg")
    assert build(release)[0]["image"].mode == "RGB"


def test_a_file_that_is_no_image_is_named_with_the_cure(make, build, release):
    path = release / "images" / "2315001.jpg"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(datasets.exceptions.DatasetGenerationError) as caught:
        make(release).download_and_prepare()
    assert f"{path} cannot be read as an image" in str(caught.value.__cause__)
    assert "crop=False" in str(caught.value.__cause__)
    assert files_of(build(release, crop=False))[1]["bytes"] == path.read_bytes()


# --- where files are looked for, and what is missing ----------------------------------------------------------


@pytest.mark.parametrize("place", ["images", "."])
def test_images_are_found_in_each_documented_place(build, release, place):
    if place == ".":
        for path in (release / "images").iterdir():
            path.rename(release / path.name)
    assert [image.size for image in build(release)["image"]][:2] == [(50, 30), (49, 31)]


def test_the_image_folder_is_preferred_to_a_bare_file(build, release):
    (release / "2315000.jpg").write_bytes(b"another file of that name")
    assert files_of(build(release, crop=False))[0]["bytes"] == (release / "images" / "2315000.jpg").read_bytes()


def test_images_may_lie_in_folders_of_their_own(build, release):
    (release / "images" / "VG_100K").mkdir()
    (release / "images" / "2315000.jpg").rename(release / "images" / "VG_100K" / "2315000.jpg")
    rows = [row for row in released_rows(release) if row["image_path"] == "2315000.jpg"]
    sources_aro.write(release / RELATION_FILE, [row | {"image_path": "VG_100K/2315000.jpg"} for row in rows])
    dataset = build(release)
    assert set(dataset["filename"]) == {"VG_100K/2315000.jpg"}
    assert dataset["image"][0].size == (50, 30)


def test_data_dir_in_the_home_folder_works(build, release, monkeypatch):
    monkeypatch.setenv("HOME", str(release.parent))
    assert len(build("~/release")) == 12


def test_one_configuration_needs_its_own_file_alone(build, release):
    (release / ATTRIBUTION_FILE).unlink()
    assert len(build(release)) == 12


@pytest.mark.parametrize(
    ("config", "name", "drive_id"),
    [
        ("vg_relation", RELATION_FILE, "1kX2iCHEv0CADL8dSO1nMdW-V0NqIAiP3"),
        ("vg_attribution", ATTRIBUTION_FILE, "13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw"),
    ],
)
def test_a_missing_file_is_named_with_where_to_get_it(make, release, config, name, drive_id):
    (release / name).unlink()
    with pytest.raises(
        FileNotFoundError, match=re.escape(f"{release / name} is missing. Get it with `gdown {drive_id}")
    ):
        make(release, config).download_and_prepare()
    with pytest.raises(FileNotFoundError, match=rf"no data_dir was given\. .*gdown {drive_id}.*pass the folder"):
        make(None, config).download_and_prepare()


def test_data_dir_that_is_not_a_folder_is_named(make, tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"data_dir .*nowhere is not a folder\. .*{RELATION_FILE}"):
        make(tmp_path / "nowhere").download_and_prepare()


def test_missing_image_is_an_error_that_names_it_its_rows_and_the_cure(make, release):
    (release / "images" / "2315003.jpg").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        make(release).download_and_prepare()
    message = str(caught.value)
    assert "vg_relation: 1 of 5 images are missing" in message
    assert "2315003.jpg (for vg_relation/3, vg_relation/8)" in message
    assert "gdown 1qaPlrwhGNMrR3a11iopZUT_GPP_LrgP9" in message
    assert "allow_missing=True" in message
    assert "with_images=False" in message


def test_empty_image_file_counts_as_missing(make, release):
    (release / "images" / "2315002.jpg").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"2315002\.jpg"):
        make(release).download_and_prepare()


def test_many_missing_images_and_rows_are_counted_after_the_first_five(make, release):
    rows = [sources_aro.relation_row(0, "on") | {"image_path": f"{n}.jpg"} for n in range(8)] * 7
    sources_aro.write(release / RELATION_FILE, rows)
    with pytest.raises(FileNotFoundError, match=r"8 of 8 .*vg_relation/32, and 2 more\), .*, and 3 more\. Get"):
        make(release).download_and_prepare()


def test_errors_come_before_anything_is_written(make, release):
    (release / "images" / "2315002.jpg").unlink()
    builder = make(release)
    with pytest.raises(FileNotFoundError):
        builder.download_and_prepare()
    assert not Path(builder.cache_dir).exists()


def test_allowed_missing_image_keeps_its_rows(build, release):
    (release / "images" / "2315003.jpg").unlink()
    dataset = build(release, allow_missing=True)
    assert [number for number, image in enumerate(dataset["image"]) if image is None] == [3, 8]
    assert len(dataset) == 12


def test_text_only_needs_no_images_and_has_no_image_column(build, release):
    for path in (release / "images").iterdir():
        path.unlink()
    dataset = build(release, with_images=False)
    assert dataset.column_names == [*(name for name in COMMON if name != "image"), "relation", "bbox"]
    assert len(dataset) == 12


# --- damaged and altered files --------------------------------------------------------------------------------


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
def test_a_damaged_file_is_named_with_what_was_expected(make, release, text, found):
    path = release / RELATION_FILE
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="Expected") as caught:
        make(release).download_and_prepare()
    assert str(path) in str(caught.value)
    assert found in str(caught.value)


def test_a_file_that_is_not_utf8_is_an_error(make, release):
    (release / RELATION_FILE).write_bytes(b'["\xff"]')
    with pytest.raises(ValueError, match=rf"{RELATION_FILE} is not valid JSON"):
        make(release).download_and_prepare()


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
def test_a_damaged_row_is_named(make, release, fields, found):
    rewrite(release, **fields)
    with pytest.raises(ValueError, match=f"{RELATION_FILE}, row 0: .*Expected an object with the texts") as caught:
        make(release).download_and_prepare()
    assert found in str(caught.value)


@pytest.mark.parametrize("attributes", ["small & brown", ["small"], ["small", "brown", "red"], ["small", ""], None])
def test_attributes_are_a_list_of_two_texts(make, release, attributes):
    rewrite(release, ATTRIBUTION_FILE, attributes=attributes)
    with pytest.raises(ValueError, match=r"row 0: attributes is .*, not a list of two texts\. Expected"):
        make(release, "vg_attribution").download_and_prepare()


@pytest.mark.parametrize(
    ("config", "name", "field"),
    [("vg_relation", RELATION_FILE, "relation_name"), ("vg_attribution", ATTRIBUTION_FILE, "attributes")],
)
def test_a_missing_field_is_named(make, release, config, name, field):
    rows = released_rows(release, name)
    del rows[3][field]
    sources_aro.write(release / name, rows)
    with pytest.raises(ValueError, match=rf"row 3: {field} is missing\. Expected .*{field}"):
        make(release, config).download_and_prepare()


@pytest.mark.parametrize(
    ("config", "rows", "released"), [("vg_relation", 12, "23,937"), ("vg_attribution", 30, "28,748")]
)
def test_another_number_of_rows_than_the_release_is_refused_unless_allowed(
    build, make, release, config, rows, released
):
    with pytest.raises(ValueError, match=rf"has {rows} rows, but the release has {released}\. .*verify=False"):
        make(release, config, verify=True).download_and_prepare()
    assert len(build(release, config)) == rows


def test_a_file_of_the_size_of_the_release_is_accepted(make, release):
    rows = [sources_aro.relation_row(number, "on") for number in range(23_937)]
    sources_aro.write(release / RELATION_FILE, rows)
    stream = make(release, verify=True, with_images=False).as_streaming_dataset(split="test")
    assert [row["id"] for row in stream.take(2)] == ["vg_relation/0", "vg_relation/1"]


def test_the_number_of_rows_is_checked_by_default(release, tmp_path):
    builder = ARO(cache_dir=str(tmp_path / "cache"), config_name="vg_relation", data_dir=str(release))
    with pytest.raises(ValueError, match="23,937"):
        builder.download_and_prepare()


# --- scored and judged ----------------------------------------------------------------------------------------


def run(model: str, release: Path, out: Path, options: dict[str, Any], reference: str = "aro") -> list[Path]:
    return score(model, [reference], data_dir=release, options={"verify": False, **options}, out=out, progress=False)


def test_both_parts_are_judged_with_the_papers_averages(release, tmp_path):
    relation, attribution = judge(run("mock:shuffled", release, tmp_path, {}), resamples=100)
    assert [result.metric for result in (relation, attribution)] == ["aro_itm", "aro_itm"]
    # 12 rows, 3 each of on, eating, to the left of and next to; the last is symmetric.
    assert (relation.scores["n"], relation.scores["n_symmetric"]) == (9, 3)
    assert {name: part["n"] for name, part in relation.scores["per_group"].items()} == {"spatial": 6, "verb": 3}
    assert (attribution.scores["n"], attribution.scores["rare"]) == (30, {"open & white": 4})
    assert attribution.scores["macro_accuracy"] == attribution.scores["per_category"]["small & brown"]["accuracy"]


@pytest.mark.parametrize("mock", ["constant", "bag-of-words"])
def test_a_scorer_that_ignores_order_ties_everywhere_as_the_card_says(mock, release, tmp_path):
    for result in judge(run(f"mock:{mock}", release, tmp_path, {}), resamples=100):
        assert (result.scores["accuracy"], result.scores["tie_rate"]) == (0.0, 1.0)


def test_a_sheet_of_crops_is_not_taken_for_one_of_whole_images(release, tmp_path):
    sheets = [run("mock:shuffled", release, tmp_path / str(crop), {"crop": crop}) for crop in (True, False)]
    crops, wholes = (read_sheet(paths[0]) for paths in sheets)
    assert [row.id for row in crops.rows] == [row.id for row in wholes.rows]
    assert [row.scores for row in crops.rows] != [row.scores for row in wholes.rows]
    assert crops.metadata["benchmark"] != wholes.metadata["benchmark"]


def test_a_repository_loads_and_its_card_has_the_counts_of_the_build(release, tmp_path):
    out = build_repository("aro", tmp_path / "out", data_dir=release, options={"verify": False})
    for config in CONFIG_NAMES:
        first = f"{config}/0-0" if config in ORDER else f"{config}/0"
        assert datasets.load_dataset(str(out), config, split="test")["id"][0] == first
    card = (out / "README.md").read_text(encoding="utf-8")
    # 12 rows on 12 boxes; 4 relations of 2 captions. 30 rows; box and image repeat after 105; 2 pairs of 2 captions.
    assert "| vg_relation | test | 12 | 12 | 8 |" in card
    assert "| vg_attribution | test | 30 | 30 | 4 |" in card
    # Images of 5, 5, 5, 5 and 6 captions; 4 images of 5.
    assert "| coco_order | test | 26 | 5 |" in card
    assert "| flickr30k_order | test | 20 | 4 |" in card


def test_a_build_without_its_sources_says_what_is_missing(tmp_path):
    with pytest.raises(DataError, match=rf"aro/vg_relation: .*{RELATION_FILE}.*gdown"):
        build_repository("aro", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- the modules themselves -----------------------------------------------------------------------------------


def test_every_configuration_has_a_version_a_file_and_a_task():
    assert [config.name for config in ARO.BUILDER_CONFIGS] == list(CONFIG_NAMES)
    assert {str(config.version) for config in ARO.BUILDER_CONFIGS} == {"1.0.0"}
    assert set(release_module.FILES) == set(release_module.ROWS) == set(VISUAL_GENOME)
    assert set(SOURCE_NAMES) == set(ORDER)
    tasks = get_benchmark("aro").tasks
    assert [task.configs for task in tasks] == [(name,) for name in CONFIG_NAMES]
    assert [task.cluster for task in tasks] == ["filename", "filename", None, None]
    assert [task.by_default for task in tasks] == [True, True, False, False]


def test_the_script_imports_the_standard_library_datasets_pillow_and_its_siblings():
    allowed = {"builder.py": {"release", "order", "karpathy"}, "order.py": {"karpathy"}}
    for name in ("builder.py", "release.py", "order.py", "karpathy.py"):
        tree = ast.parse((FOLDER / name).read_text(encoding="utf-8"))
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)):
            source = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            if getattr(node, "level", 0):
                assert node.level == 1  # type: ignore[union-attr]
                assert source in allowed.get(name, ())
            else:
                assert source.split(".")[0] in {"datasets", "PIL", *sys.stdlib_module_names}


# --- the card -------------------------------------------------------------------------------------------------


def test_card_is_valid_and_leaves_configs_to_the_build():
    metadata = DatasetCard(CARD, ignore_metadata_errors=False).data.to_dict()
    assert metadata["license"] == "mit"
    assert not {"configs", "dataset_info"} & set(metadata)


def test_the_row_of_the_card_is_what_the_builder_makes_of_it(build, release):
    shown = re.search(r"\[0\]\n(\{.*?\})\n```", CARD, re.DOTALL)
    assert shown
    row = ast.literal_eval(re.sub(r"<.*?\.\.\.>", "None", shown[1]))
    image = {"image_path": row["filename"]}
    box = dict(zip(("bbox_x", "bbox_y", "bbox_w", "bbox_h"), row["bbox"], strict=True))
    texts = {"true_caption": row["caption"], "false_caption": row["negative_caption"], "relation_name": row["relation"]}
    sources_aro.write(release / RELATION_FILE, [image | box | texts])
    made = build(release)[0]
    assert f"{type(made['image']).__module__}.{type(made['image']).__name__}" in shown[1]
    assert list(made) == list(row)
    assert made | {"image": None} == row


@pytest.mark.parametrize("config", CONFIG_NAMES)
def test_the_card_lists_the_columns(make, config):
    table = CARD.split("| column | type | content |\n|---|---|---|\n")[2 if config in ORDER else 1].split("\n\n")[0]
    other = {"vg_relation": "attributes", "vg_attribution": "relation"}.get(config)
    listed = [line.strip("|").split("|")[0].strip() for line in table.splitlines()]
    assert [name for name in listed if name != other] == list(make(config=config).info.features)


def test_the_card_names_the_files_of_the_release_and_every_option():
    for name, drive_id in release_module.DRIVE_IDS.items():
        assert f"gdown {drive_id} -O {name}" in CARD
    options = set(re.findall(r"^\| `(\w+)` \|", CARD, re.MULTILINE))
    assert options == {"crop", "with_images", "allow_missing", "verify", "seed", "tagger"}
    assert list(card_table("counts")) == list(CONFIG_NAMES)
    rows = release_module.ROWS | {config: SOURCES[name].captions for config, name in SOURCE_NAMES.items()}
    assert {config: cells[1] for config, cells in card_table("counts").items()} == {
        config: f"{number:,}" for config, number in rows.items()
    }


def test_the_card_cites_the_paper():
    fields = dict(re.findall(r"(\w+)\s*=\s*\{(.*?)\}", CITATION))
    assert fields == dict(re.findall(r"(\w+)\s*=\s*\{(.*?)\}", CARD.split("## Citation")[1]))
    assert fields == dict(re.findall(r"(\w+)\s*=\s*\{(.*?)\}", module._CITATION))


def card_table(marker: str) -> dict[str, list[str]]:
    """The cells of the table between two markers of the card, by the first cell of each line."""
    inside = CARD.split(f"<!-- {marker} -->")[1].split(f"<!-- /{marker} -->")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.split("\n") if line]
    return {cells[0]: cells[1:] for cells in lines[2:]}


# --- the card and the papers ----------------------------------------------------------------------------------


def paper_text(shared_data: Path, number: str) -> str:
    found = sorted((shared_data / "papers").glob(f"{number}_*.txt"))
    if not found:
        pytest.skip("the paper's text is not there")
    return found[0].read_text(encoding="utf-8")


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
    ours = card_table("blind")
    assert ours["Vera (text only)"] == models.pop("Vera [27]")
    assert ours["Grammar (text only)"] == models.pop("Grammar [31]")
    assert len(models) == 17
    best = [max(column, key=float) for column in zip(*models.values(), strict=True)]
    assert ours["the best of 17 CLIP models, for each"] == best
