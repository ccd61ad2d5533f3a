"""The VL-CheckList builder: what a row holds, where its files come from, and how it names what is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import datasets
import pytest
import sources_vl_checklist as sources
from huggingface_hub import DatasetCard

from vl_assay.hub_datasets import get_benchmark, judge
from vl_assay.hub_datasets.repository import build as build_repository
from vl_assay.hub_datasets.repository import read_build
from vl_assay.hub_datasets.vl_checklist import builder as module
from vl_assay.hub_datasets.vl_checklist.builder import CONFIG_NAMES, VLCheckList, annotation_files
from vl_assay.metrics.errors import DataError
from vl_assay.metrics.sheets import read_sheet
from vl_assay.model_wrappers import score

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
SPATIAL = "Relation/vg/spatial.json"
# The first two have texts of the release (Attribute/vaw/action.json); the others have each other defect, or none.
DEFECTIVE = [
    ["VG_100K/11.jpg", {"POS": ["car is turning"], "NEG": ["car is running"]}],
    ["VG_100K/11.jpg", {"POS": ["car is running"], "NEG": ["car is skiing"]}],
    ["VG_100K/11.jpg", {"POS": ["car is turning"], "NEG": ["car is running"]}],
    ["VG_100K_2/12.jpg", {"POS": ["car is turning"], "NEG": ["car is running"]}],
    ["VG_100K_2/12.jpg", {"POS": ["door is open"], "NEG": ["door is open"]}],
]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A folder laid out like the repository, with the images beside."""
    folder = tmp_path / "release"
    sources.make(folder)
    return folder


@pytest.fixture
def make(tmp_path: Path):
    def make(data_dir: Path | str | None, config: str = "attribute_color", **options: Any) -> VLCheckList:
        return VLCheckList(
            cache_dir=str(tmp_path / "cache"),
            dataset_name="vl_checklist",
            config_name=config,
            data_dir=None if data_dir is None else str(data_dir),
            **options,
        )

    return make


@pytest.fixture
def build(make):
    def build(*args: Any, **options: Any) -> datasets.Dataset:
        builder = make(*args, **options)
        builder.download_and_prepare()
        return builder.as_dataset(split="test")

    return build


def write(folder: Path, file: str, rows: Any) -> Path:
    path = folder / "data" / file
    path.write_bytes(rows if isinstance(rows, bytes) else json.dumps(rows).encode())
    return path


# What a row holds


def test_columns_and_types_are_the_documented_ones(build, release):
    features = build(release).features
    assert list(features) == [
        "id", "category", "source", "part", "image", "filename", "caption", "negative_caption", "defects",
    ]  # fmt: skip
    assert isinstance(features.pop("image"), datasets.Image)
    assert features.pop("defects").feature == datasets.Value("string")
    assert set(map(repr, features.values())) == {repr(datasets.Value("string"))}


def test_only_the_first_text_of_each_list_is_used_as_released(build, release):
    dataset = build(release, "relation_spatial")
    assert [(row["caption"], row["negative_caption"]) for row in dataset] == [
        ("brown knob of Relation vg spatial", "teal knob of Relation vg spatial"),
        ("metal fence of Relation vg spatial", "wooden fence of Relation vg spatial"),
        ("man ON horse of Relation vg spatial", "man under horse of Relation vg spatial"),
    ]


def test_ids_name_the_file_and_the_place_in_it(build, release):
    ids = build(release, "attribute_color")["id"][:]
    assert ids == [f"Attribute/{source}/color/{number}" for source in ("vg", "vaw") for number in range(3)]


def test_every_type_reads_its_files_and_none_is_left_out():
    found = [f"{file.path}" for config in CONFIG_NAMES for file in annotation_files(config)]
    assert sorted(found) == sorted(sources.FILES)
    assert len(set(found)) == len(found) == 10 + 2 * 21 + 4


def test_rows_say_their_type_their_source_and_the_part_of_an_object(build, release):
    dataset = build(release, "object_size")
    assert set(dataset["category"]) == {"object_size"}
    assert dataset.num_rows == 21 * 3
    for row in dataset:
        stem = row["id"].split("/")[-2]
        assert row["source"] == stem.split("_")[0]
        assert row["part"] == stem.split("_")[-1]
    assert set(dataset["part"]) == {"large", "medium", "small"}
    assert set(build(release, "relation_action")["part"]) == {None}


def test_image_bytes_are_those_of_the_file_of_the_right_source(build, release):
    rows = build(release, "relation_action").cast_column("image", datasets.Image(decode=False))
    assert rows["source"][:] == ["vg"] * 3 + ["swig"] * 3 + ["hake"] * 3
    for row in rows:
        expected = (release / row["source"] / row["filename"]).read_bytes()
        assert row["image"] == {"path": row["filename"], "bytes": expected}


def test_images_of_vaw_are_those_of_visual_genome(build, release):
    rows = build(release, sources="vaw").cast_column("image", datasets.Image(decode=False))
    assert set(rows["source"]) == {"vaw"}
    assert rows[0]["image"]["bytes"] == (release / "vg" / "VG_100K" / "11.jpg").read_bytes()


def test_streaming_gives_the_rows_of_the_prepared_dataset(build, make, release):
    assert list(make(release).as_streaming_dataset(split="test")) == list(build(release))


# Defects


def test_defects_are_flagged_and_their_rows_kept(build, release):
    write(release, SPATIAL, DEFECTIVE)
    dataset = build(release, "relation_spatial")
    assert dataset["defects"][:] == [
        ["negative_is_caption"],
        [],
        ["duplicate", "negative_is_caption"],
        [],
        ["same_text"],
    ]


def test_a_repetition_in_another_file_of_the_type_is_a_duplicate(build, release):
    for source in ("vg", "vaw"):
        write(release, f"Attribute/{source}/color.json", DEFECTIVE[3:4])
    assert build(release)["defects"][:] == [[], ["duplicate"]]


def test_sound_rows_have_no_defects(build, release):
    assert build(release)["defects"][:] == [[]] * 6


# Where files are looked for


@pytest.mark.parametrize("place", [".", "images", "images/{root}", "{root}"])
def test_images_are_found_in_each_documented_place(build, release, place):
    moved = release.with_name("moved")
    shutil.copytree(release / "data", moved / "data")
    for root in sources.IMAGES:
        target = moved / place.format(root=root)
        if place == "images":
            target = target / root
        shutil.copytree(release / root, target, dirs_exist_ok=True)
    assert [image.size for image in build(moved, "relation_action")["image"]] == [(32, 24)] * 9


def test_annotations_may_lie_without_the_folder_data(build, release):
    for path in (release / "data").iterdir():
        path.rename(release / path.name)
    assert len(build(release)) == 6


def test_without_a_copy_the_error_says_where_to_get_it(make):
    with pytest.raises(FileNotFoundError, match=r"Clone https://github\.com/om-ai-lab/VL-CheckList.*data_dir"):
        make(None).download_and_prepare()


def test_data_dir_that_is_not_a_folder_is_named(make, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data_dir .*nowhere is not a folder"):
        make(tmp_path / "nowhere").download_and_prepare()


def test_missing_annotation_files_are_named_with_the_cure(make, release):
    (release / "data" / "Attribute" / "vaw" / "color.json").unlink()
    (release / "data" / "Attribute" / "vg" / "color.json").write_bytes(b"")
    with pytest.raises(FileNotFoundError) as caught:
        make(release).download_and_prepare()
    message = str(caught.value)
    assert "attribute_color: 2 of 2 annotation files are missing" in message
    assert "data/Attribute/vg/color.json, data/Attribute/vaw/color.json" in message
    assert "sources='vg'" in message


def test_a_missing_annotation_file_is_no_error_where_its_source_is_left_out(build, release):
    (release / "data" / "Attribute" / "vaw" / "color.json").unlink()
    assert set(build(release, sources="vg")["source"]) == {"vg"}


def test_sources_may_be_listed_with_blanks(build, release):
    assert set(build(release, "relation_action", sources="hake, vg")["source"]) == {"hake", "vg"}


def test_unknown_source_is_answered_with_the_known_ones(make, release):
    with pytest.raises(ValueError, match=r"unknown source 'coco'.*known: vg, vaw, swig, hake"):
        make(release, sources="vg,coco").download_and_prepare()


def test_sources_that_a_type_does_not_have_are_answered_with_those_it_has(make, release):
    with pytest.raises(ValueError, match=r"relation_spatial has nothing from sources='hake', only from vg"):
        make(release, "relation_spatial", sources="hake").download_and_prepare()


# Missing images


def test_missing_images_are_named_with_their_rows_and_the_cure(make, release):
    (release / "vg" / "VG_100K" / "11.jpg").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        make(release).download_and_prepare()
    message = str(caught.value)
    assert "attribute_color: 1 of 2 images are missing" in message
    assert "4 of 6 rows lack theirs" in message
    assert "vg/VG_100K/11.jpg (for Attribute/vg/color/0, Attribute/vg/color/2, Attribute/vaw/color/0" in message
    assert "12.jpg" not in message
    assert "allow_missing=True" in message
    assert "with_images=False" in message


def test_empty_image_file_counts_as_missing(make, release):
    (release / "vg" / "VG_100K_2" / "12.jpg").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"12\.jpg"):
        make(release).download_and_prepare()


def test_many_missing_images_are_counted_after_the_first_five(make, release):
    rows = [[f"VG_100K/{n}.jpg", {"POS": ["a"], "NEG": ["b"]}] for n in range(100, 108)]
    write(release, SPATIAL, rows)
    with pytest.raises(FileNotFoundError, match=r"8 of 8 .*104\.jpg \(for Relation/vg/spatial/4\), and 3 more"):
        make(release, "relation_spatial").download_and_prepare()


def test_allowed_missing_images_keep_their_rows_and_are_counted(release, tmp_path):
    (release / "vg" / "VG_100K" / "11.jpg").unlink()
    options = {"allow_missing": True}
    out = build_repository(
        "vl_checklist", tmp_path / "b", configs=["attribute_color"], data_dir=release, options=options
    )
    counts = read_build(out)["configs"]["attribute_color"]["test"]
    assert counts == {"rows": 6, "images": 1, "missing_images": 4, "captions": 12}
    [path] = score("mock:shuffled", [str(out)], out=tmp_path / "sheets", progress=False)
    [result] = judge([path], resamples=100)
    assert (result.missing, result.scores["n"]) == (4, 2)


def test_text_only_needs_no_images_and_has_no_image_column(build, release):
    shutil.rmtree(release / "vg")
    dataset = build(release, with_images=False)
    assert "image" not in dataset.column_names
    assert len(dataset) == 6


# Damaged annotations


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'[["', "not valid JSON"),
        (b'["\xff"]', "not valid JSON"),
        ({}, "dict at the top level"),
        ([], "an empty list"),
        ([*DEFECTIVE, ["VG_100K/11.jpg"]], "row 5: found ["),
        ([["VG_100K/11.jpg", ["a", "b"]]], "row 0: found ["),
        ([["VG_100K/11.jpg", {"POS": ["a"]}]], "row 0: NEG is null"),
        ([["VG_100K/11.jpg", {"POS": [], "NEG": ["b"]}]], "row 0: POS is []"),
        ([["VG_100K/11.jpg", {"POS": "a", "NEG": ["b"]}]], 'row 0: POS is "a"'),
        ([["VG_100K/11.jpg", {"POS": [1], "NEG": ["b"]}]], "row 0: POS is [1]"),
        ([["../11.jpg", {"POS": ["a"], "NEG": ["b"]}]], "row 0: '../11.jpg' is not the relative path"),
        ([["/etc/hosts", {"POS": ["a"], "NEG": ["b"]}]], "row 0: '/etc/hosts' is not the relative path"),
        ([["", {"POS": ["a"], "NEG": ["b"]}]], "row 0: '' is not the relative path"),
    ],
)
def test_damaged_annotations_are_an_error_that_names_file_and_row(make, release, content, found):
    path = write(release, SPATIAL, content)
    with pytest.raises(ValueError, match="Expected") as caught:
        make(release, "relation_spatial").download_and_prepare()
    assert str(path) in str(caught.value)
    assert found in str(caught.value)


def test_errors_come_before_anything_is_written(make, release):
    (release / "vg" / "VG_100K" / "11.jpg").unlink()
    builder = make(release)
    with pytest.raises(FileNotFoundError):
        builder.download_and_prepare()
    assert not Path(builder.cache_dir).exists()


# From sources to results, and the card


def test_benchmark_scores_every_type_of_the_builder():
    [task] = get_benchmark("vl_checklist").tasks
    assert task.configs == CONFIG_NAMES == tuple(config.name for config in VLCheckList.BUILDER_CONFIGS)


def test_types_are_scored_pairwise_and_averaged_as_categories(release, tmp_path):
    configs = ["attribute_color", "relation_spatial"]
    out = build_repository("vl_checklist", tmp_path / "built", configs=configs, data_dir=release)
    for config in configs:
        loaded = datasets.load_dataset(str(out), config, split="test")
        assert list(datasets.load_dataset(str(out), config, split="test", streaming=True)) == list(loaded)
    [path] = score("mock:shuffled", [str(out)], out=tmp_path / "sheets", progress=False)
    [result] = judge([path], resamples=100)
    won = {config: [] for config in configs}
    for row in read_sheet(path).rows:
        [[caption, negative]] = row.scores
        won[row.category].append(caption > negative)
    per_category = {name: sum(wins) / len(wins) for name, wins in won.items()}
    assert {name: s["accuracy"] for name, s in result.scores["per_category"].items()} == pytest.approx(per_category)
    assert result.scores["macro_accuracy"] == pytest.approx(sum(per_category.values()) / 2)
    assert result.scores["rare"] == {}


def test_a_tie_is_wrong(release, tmp_path):
    [path] = score("mock:constant", ["vl_checklist/relation_spatial"], data_dir=release, out=tmp_path, progress=False)
    [result] = judge([path], resamples=100)
    assert (result.scores["accuracy"], result.scores["tie_rate"]) == (0.0, 1.0)


def test_a_build_names_what_is_missing(release, tmp_path):
    shutil.rmtree(release / "swig")
    with pytest.raises(DataError, match=r"vl_checklist/relation_action: .*swig/dialing_8\.jpg"):
        build_repository("vl_checklist", tmp_path / "built", configs=["relation_action"], data_dir=release)


def test_card_is_valid_and_leaves_configs_to_the_build():
    metadata = DatasetCard.load(FOLDER / "README.md", ignore_metadata_errors=False).data.to_dict()
    assert metadata["license"] == "unknown"
    assert not {"configs", "dataset_info"} & set(metadata)


def test_card_lists_the_types_and_the_number_of_their_files():
    inside = CARD.split("<!-- types -->")[1].split("<!-- /types -->")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.split("\n") if line]
    expected = []
    for config in CONFIG_NAMES:
        files = annotation_files(config)
        names = [source for source in module.SOURCES if any(file.source == source for file in files)]
        expected.append([config, ", ".join(names), str(len(files))])
    assert [[cells[0], cells[2], cells[3]] for cells in lines[2:]] == expected


def test_card_names_the_columns_the_options_and_the_defects():
    for name in (
        "`defects`",
        "`sources`",
        "allow_missing",
        "with_images",
        "duplicate",
        "same_text",
        "negative_is_caption",
    ):
        assert name in CARD
