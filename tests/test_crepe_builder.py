"""The CREPE builder: what a row holds, what is kept out of the scores, and how it names what is wrong."""

from __future__ import annotations

import dataclasses
import io
import math
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import sources_crepe as sources
from datasets.exceptions import DatasetGenerationError
from huggingface_hub import DatasetCard
from PIL import Image

from vl_assay.hub_datasets import get_benchmark, judge, load_examples
from vl_assay.hub_datasets.benchmarks import config_names
from vl_assay.hub_datasets.crepe import builder as module
from vl_assay.hub_datasets.crepe import release as layout
from vl_assay.hub_datasets.crepe.builder import CREPE, CREPEConfig
from vl_assay.hub_datasets.repository import build as build_repository
from vl_assay.hub_datasets.repository import read_build
from vl_assay.metrics.errors import DataError
from vl_assay.model_wrappers import score

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A user's own copy: the unpacked archives and the images beside them."""
    folder = tmp_path / "release"
    sources.make(folder)
    return folder


@pytest.fixture
def make(tmp_path: Path):
    def make(data_dir: Path | str | None, config: str = "productivity_swap", **options: Any) -> CREPE:
        return CREPE(
            cache_dir=str(tmp_path / "cache"),
            dataset_name="crepe",
            config_name=config,
            data_dir=None if data_dir is None else str(data_dir),
            **options,
        )

    return make


@pytest.fixture
def build(make):
    def build(*args: Any, split: str = "test", **options: Any) -> datasets.Dataset:
        builder = make(*args, **options)
        builder.download_and_prepare()
        return builder.as_dataset(split=split)

    return build


def spoil(release: Path, **fields: Any) -> Path:
    """Replace fields of row 1 of the file of swaps of complexity 7."""
    path = sources.productivity_file(release, "swap", 7)
    rows = sources.productivity_rows("swap", 7)
    rows[1] |= fields
    sources.write(path, rows)
    return path


def files_of(dataset: datasets.Dataset) -> list[dict[str, Any]]:
    return dataset.cast_column("image", datasets.Image(decode=False))["image"][:]


# What a row holds


def test_columns_and_types_are_the_documented_ones(build, release):
    text = datasets.Value("string")
    productivity = build(release).features
    assert list(productivity) == [
        "id", "category", "image", "filename", "caption", "hard_negatives", "bbox", "complexity", "defects",
    ]  # fmt: skip
    assert isinstance(productivity["image"], datasets.Image)
    assert productivity["complexity"] == datasets.Value("int32")
    assert datasets.Features({"x": productivity["hard_negatives"]}) == datasets.Features({"x": [text]})
    systematicity = build(release, "systematicity_atom_laion").features
    assert list(systematicity) == [name for name in productivity if name != "complexity"]


def test_rows_of_all_complexities_follow_each_other_with_their_own_negatives(build, release):
    rows = build(release, with_images=False)
    expected = [(c, n, row) for c in range(4, 13) for n, row in enumerate(sources.productivity_rows("swap", c))]
    assert rows["id"][:] == [f"productivity_swap/{c}/{n}" for c, n, _ in expected]
    assert rows["complexity"][:] == [c for c, _, _ in expected]
    assert rows["category"][:] == [str(c) for c, _, _ in expected]
    assert rows["caption"][:] == [row["caption"] for _, _, row in expected]
    assert rows["hard_negatives"][:] == [row["hard_negs"] for _, _, row in expected]
    assert set(map(len, rows["hard_negatives"][:])) == {3, 4, 5}
    assert rows[1]["bbox"] == [4, 2, 21, 15]
    assert rows[1]["filename"] == "61.jpg"


def test_replace_is_what_the_release_calls_atom(build, release):
    negatives = build(release, "productivity_replace", with_images=False)["hard_negatives"][0]
    assert negatives == sources.productivity_rows("atom", 4)[0]["hard_negs"]


@pytest.mark.parametrize("kind", ["atom", "comp", "combined"])
@pytest.mark.parametrize("training_set", sources.TRAINING_SETS)
def test_systematicity_reads_its_kind_from_the_files_of_its_training_set(build, release, kind, training_set):
    rows = build(release, f"systematicity_{kind}_{training_set}", with_images=False)
    expected = [(c, row) for c in sources.COMPOUNDS for row in sources.systematicity_rows(c, training_set)]
    assert rows["category"][:] == [compounds for compounds, _ in expected]
    assert rows["hard_negatives"][:] == [row[f"valid_hard_negs_{kind}"] for _, row in expected]
    assert rows["id"][3] == f"systematicity_{kind}_{training_set}/unseen_compounds/0"


def test_an_image_is_the_box_of_its_photograph(build, release):
    dataset = build(release)
    file = files_of(dataset)[1]
    with Image.open(release / sources.IMAGES[1]) as whole:
        expected = np.asarray(whole.convert("RGB"))[2 : 2 + 15, 4 : 4 + 21]
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(file["bytes"]))), expected)
    assert file["path"] == "61-4-2-25-17.png"


def test_what_of_a_box_lies_outside_the_photograph_is_black(build, release):
    spoil(release, x=-2, y=30, width=10, height=20)
    pixels = np.asarray(build(release)["image"][10])
    assert pixels.shape == (20, 10, 3)
    assert not pixels[:, :2].any()
    assert not pixels[10:].any()
    assert pixels[:10, 2:].any()


def test_a_crop_has_three_colours_whatever_the_photograph_has(build, release):
    Image.new("L", (60, 40), 77).save(release / sources.IMAGES[0])
    image = build(release)["image"][0]
    assert (image.mode, image.getpixel((0, 0))) == ("RGB", (77, 77, 77))


def test_without_crop_an_image_is_the_file_itself(build, release):
    file = files_of(build(release, crop=False))[1]
    assert file == {"path": "61.jpg", "bytes": (release / sources.IMAGES[1]).read_bytes()}


def test_a_file_without_boxes_gives_whole_images_and_no_box(build, release):
    for complexity in sources.COMPLEXITIES:
        rows = sources.productivity_rows("swap", complexity)
        for row in rows:
            for side in ("x", "y", "width", "height"):
                del row[side]
        sources.write(sources.productivity_file(release, "swap", complexity), rows)
    dataset = build(release)
    assert dataset["bbox"][:] == [None] * 27
    assert files_of(dataset)[0]["bytes"] == (release / sources.IMAGES[0]).read_bytes()


def test_streaming_gives_the_same_rows(make, build, release):
    assert list(make(release).as_streaming_dataset(split="test")) == list(build(release))


def test_several_processes_give_the_same_rows(make, build, release, tmp_path):
    expected = list(build(release, with_images=False))
    builder = CREPE(
        cache_dir=str(tmp_path / "other"), config_name="productivity_swap", data_dir=str(release), with_images=False
    )
    builder.download_and_prepare(num_proc=2)
    assert list(builder.as_dataset(split="test")) == expected


# Where the files lie


@pytest.mark.parametrize("place", ["data/prod_hard_negatives/swap", "swap", "."])
def test_files_may_lie_in_a_clone_or_without_their_folders(build, release, place):
    folder = release / place
    folder.mkdir(parents=True, exist_ok=True)
    for complexity in sources.COMPLEXITIES:
        path = sources.productivity_file(release, "swap", complexity)
        path.rename(folder / path.name)
    assert len(build(release, with_images=False)) == 27


@pytest.mark.parametrize("place", ["images/VG_100K", "images", "."])
def test_images_may_lie_in_a_folder_of_images_or_beside_the_files(build, release, place):
    (release / place).mkdir(parents=True, exist_ok=True)
    for name in sources.IMAGES:
        (release / name).rename(release / place / Path(name).name)
    assert len(build(release)["image"]) == 27


def test_no_data_dir_is_an_error_that_says_what_to_get_and_where(make):
    with pytest.raises(FileNotFoundError, match=r"no data_dir .* archives from https://github\.com/RAIVNLab/CREPE"):
        make(None).download_and_prepare()


def test_data_dir_that_is_no_folder_is_an_error(make, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        make(tmp_path / "nowhere").download_and_prepare()


def test_missing_files_are_counted_and_named_with_their_folder_and_source(make, release):
    for complexity in (5, 9):
        sources.productivity_file(release, "swap", complexity).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        make(release).download_and_prepare()
    message = str(caught.value)
    assert "productivity_swap: 2 of 9 files are missing" in message
    assert "prod_hard_negatives/swap/prod_vg_hard_negs_swap_complexity_5.csv" in message
    assert "https://github.com/RAIVNLab/CREPE/tree/master/data" in message


def test_a_configuration_needs_only_its_own_files(build, release):
    for path in (release / "prod_hard_negatives").rglob("*.csv"):
        path.unlink()
    assert len(build(release, "systematicity_comp_yfcc", with_images=False)) == 6


def test_missing_image_is_an_error_that_names_it_its_rows_and_the_cure(make, release):
    (release / sources.IMAGES[2]).write_bytes(b"")
    with pytest.raises(FileNotFoundError) as caught:
        make(release).download_and_prepare()
    message = str(caught.value)
    assert "1 of 3 images are missing" in message
    assert "2400110.jpg (for productivity_swap/4/2, productivity_swap/5/2" in message
    assert "and 4 more" in message
    assert "allow_missing=True" in message
    assert "VG_100K and VG_100K_2" in message


def test_allowed_missing_image_keeps_its_row(build, release):
    (release / sources.IMAGES[2]).unlink()
    assert [image is None for image in build(release, allow_missing=True)["image"]] == [False, False, True] * 9


def test_text_only_needs_no_images_and_has_no_image_column(build, release):
    for name in sources.IMAGES:
        (release / name).unlink()
    dataset = build(release, with_images=False)
    assert "image" not in dataset.column_names
    assert len(dataset) == 27


def test_a_file_that_is_no_image_is_an_error_that_names_it_and_the_cure(make, build, release):
    (release / sources.IMAGES[0]).write_text("<html>")
    with pytest.raises(DatasetGenerationError) as caught:
        make(release).download_and_prepare()
    assert "2.jpg cannot be read as an image" in str(caught.value.__cause__)
    assert "crop=False" in str(caught.value.__cause__)
    assert files_of(build(release, crop=False))[0]["bytes"] == b"<html>"


# Rows with defects


@pytest.mark.parametrize(
    ("fields", "defects"),
    [
        ({"hard_negs": ["a", "a "]}, ["repeated_negative"]),
        ({"hard_negs": ["a", " c"], "caption": "c"}, ["same_text"]),
        ({"hard_negs": ["a", ""]}, ["blank_negative"]),
        ({"hard_negs": ["a", "A"]}, []),
    ],
)
def test_a_row_that_can_be_ranked_is_kept_with_its_defects(build, release, fields, defects):
    spoil(release, **fields)
    rows = build(release, with_images=False)
    assert len(rows) == 27
    assert {row["id"]: row["defects"] for row in rows if row["defects"]} == (
        {"productivity_swap/7/1": defects} if defects else {}
    )
    assert rows[10]["hard_negatives"] == fields["hard_negs"]


@pytest.mark.parametrize(
    ("fields", "defect"),
    [
        ({"hard_negs": []}, "no_negatives"),
        ({"hard_negs": ""}, "no_negatives"),
        ({"caption": " "}, "blank_caption"),
    ],
)
def test_a_row_with_nothing_to_rank_is_in_a_split_of_its_own(build, release, fields, defect):
    spoil(release, **fields)
    test = build(release)
    [row] = build(release, split="unranked")
    assert len(test) == 26
    assert "productivity_swap/7/1" not in test["id"][:]
    assert test["id"][10] == "productivity_swap/7/2"
    assert row["id"] == "productivity_swap/7/1"
    assert row["defects"] == [defect]
    assert row["image"] is not None


def test_there_is_no_split_of_unranked_rows_without_such_rows(make, release):
    builder = make(release)
    builder.download_and_prepare()
    assert list(builder.info.splits) == ["test"]


def test_the_card_of_a_build_states_how_many_rows_are_left_out(release, tmp_path):
    spoil(release, hard_negs=[])
    out = build_repository("crepe", tmp_path / "built", configs=["productivity_swap"], data_dir=release)
    assert "| productivity_swap | test | 26 | " in (out / "README.md").read_text(encoding="utf-8")
    assert "| productivity_swap | unranked | 1 | 1 | 1 |" in (out / "README.md").read_text(encoding="utf-8")
    assert read_build(out)["configs"]["productivity_swap"]["unranked"]["rows"] == 1
    assert len(datasets.load_dataset(str(out), "productivity_swap", split="unranked")) == 1


# Damaged files


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"hard_negs": "['a', "}, "hard_negs is \"['a', \", not a list of texts"),
        ({"hard_negs": "{'a': 'b'}"}, "not a list of texts"),
        ({"hard_negs": "['a', 1]"}, "not a list of texts"),
        ({"hard_negs": "a dog"}, "hard_negs is 'a dog', not a list of texts"),
        ({"hard_negs": "[" * 500 + "]" * 500}, "not a list of texts"),
        ({"image_id": "../2"}, "image_id is '../2', not a whole number"),
        ({"image_id": ""}, "image_id is '', not a whole number"),
        ({"x": "left"}, "x is 'left', no number of pixels"),
        ({"y": "nan"}, "y is 'nan', no number of pixels"),
        ({"width": "1e9"}, "width is '1e9', no number of pixels"),
        ({"height": 0}, "holds no pixel"),
    ],
)
def test_a_damaged_row_is_an_error_that_names_file_row_and_field(make, release, fields, found):
    path = spoil(release, **fields)
    with pytest.raises(ValueError, match="row 1: ") as caught:
        make(release, with_images=False).download_and_prepare()
    assert str(path) in str(caught.value)
    assert found in str(caught.value)


def test_a_list_is_read_and_never_run(make, release, tmp_path):
    trace = tmp_path / "trace"
    spoil(release, hard_negs=f"[open({str(trace)!r}, 'w').name]")
    with pytest.raises(ValueError, match="not a list of texts"):
        make(release).download_and_prepare()
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "holds no column image_id, caption, hard_negs; it has none"),
        (b"image_id,caption,hard_negs\n", "holds no row"),
        (b"image_id,caption,negatives\n2,a,b\n", "no column hard_negs; it has image_id, caption, negatives"),
        (b"image_id,caption,hard_negs,x,y\n2,a,['b'],1,2\n", "no column width, height"),
        (b"image_id,caption,hard_negs\n2,a\n", "row 0: it has not as many fields as the header"),
        (b"image_id,caption,hard_negs\n2,a,['b'],c\n", "row 0: it has not as many fields as the header"),
        (b"image_id,caption,hard_negs\n2,\xff,['b']\n", "is not a CSV file in UTF-8"),
        (b'image_id,caption,hard_negs\n2,"a\n', "is not a CSV file in UTF-8"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(make, release, content, found):
    path = sources.productivity_file(release, "swap", 7)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"CSV|Expected|row 0") as caught:
        make(release).download_and_prepare()
    assert str(path) in str(caught.value)
    assert found in str(caught.value)


def test_a_byte_order_mark_and_line_ends_of_unix_change_nothing(make, build, release):
    expected = list(build(release, with_images=False))
    for complexity in sources.COMPLEXITIES:
        path = sources.productivity_file(release, "swap", complexity)
        lines = path.read_bytes().split(b"\r\n")
        # Without the index in front, so that the mark touches a name that is read.
        path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(line.partition(b",")[2] for line in lines))
    # Streamed: a second build would take the rows of the first from the cache.
    assert list(make(release, with_images=False).as_streaming_dataset(split="test")) == expected


def test_errors_come_before_anything_is_written(make, release):
    (release / sources.IMAGES[0]).unlink()
    builder = make(release)
    with pytest.raises(FileNotFoundError):
        builder.download_and_prepare()
    assert not Path(builder.cache_dir).exists()


# From sources to results


def test_each_kind_of_negatives_is_a_task_of_its_own_and_only_productivity_by_default():
    tasks = get_benchmark("crepe").tasks
    assert [task.configs for task in tasks] == [(name,) for name in config_names("crepe")]
    assert [task.name for task in tasks if task.by_default] == [
        "productivity_replace", "productivity_swap", "productivity_negate",
    ]  # fmt: skip


def test_the_caption_comes_first_and_rows_have_as_many_candidates_as_negatives(release):
    [task] = load_examples("crepe/productivity_negate", data_dir=release)
    assert [len(example.captions) for example in task.examples] == [6, 5, 4] * 9
    assert task.examples[4].captions[0] == sources.productivity_rows("negate", 5)[1]["caption"]
    assert {example.category for example in task.examples} == set(map(str, sources.COMPLEXITIES))


def test_productivity_is_scored_and_judged_by_complexity(release, tmp_path):
    spoil(release, hard_negs=[])
    sheets = score("mock:shuffled", ["crepe"], data_dir=release, out=tmp_path / "sheets", progress=False)
    results = judge(sheets, resamples=100)
    assert [result.scores["n"] for result in results] == [27, 26, 27]
    first = results[0].scores
    assert list(first["per_category"]) == [str(complexity) for complexity in sources.COMPLEXITIES]
    assert first["mean_candidates"] == 5  # a third each of 6, 5 and 4
    assert math.isclose(first["chance_recall_at_1"], (1 / 6 + 1 / 5 + 1 / 4) / 3)
    assert first["recall_at_10"] == 1
    assert {"recall_at_1", "recall_at_3", "recall_at_5", "mean_rank", "median_rank"} <= set(first)


def test_systematicity_is_judged_by_seen_and_unseen_compounds(release, tmp_path):
    sheets = score(
        "mock:constant", ["crepe/systematicity_combined_laion"], data_dir=release, out=tmp_path, progress=False
    )
    [result] = judge(sheets, resamples=100)
    assert list(result.scores["per_category"]) == list(sources.COMPOUNDS)
    assert result.scores["recall_at_1"] == 0
    assert result.scores["tie_rate"] == 1


def test_a_build_names_what_is_missing(release, tmp_path):
    (release / sources.IMAGES[0]).unlink()
    with pytest.raises(DataError, match=r"crepe/productivity_replace: .*2\.jpg"):
        build_repository("crepe", tmp_path / "built", data_dir=release)


# The card


def card_table(marker: str) -> dict[str, list[str]]:
    """The cells of the table between two markers of the card, by the first cell of each line."""
    inside = CARD.split(f"<!-- {marker} -->")[1].split(f"<!-- /{marker} -->")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.split("\n") if line]
    return {cells[0]: cells[1:] for cells in lines[2:]}


def test_card_is_valid_and_leaves_configs_to_the_build():
    metadata = DatasetCard.load(FOLDER / "README.md", ignore_metadata_errors=False).data.to_dict()
    assert metadata["license"] == "unknown"
    assert not {"configs", "dataset_info"} & set(metadata)


def test_card_lists_configurations_columns_defects_and_options(build, release):
    assert list(card_table("counts")) == config_names("crepe")
    assert set(card_table("defects")) == {*layout._defects("", ["", ""]), *layout._defects("a", [])}
    assert len(card_table("defects")) == 5
    assert all(f"| {column} |" in CARD for column in build(release).column_names)
    options = {field.name for field in dataclasses.fields(CREPEConfig)} - {
        field.name for field in dataclasses.fields(datasets.BuilderConfig)
    }
    assert options == {"crop", "with_images", "allow_missing"}
    assert all(f"`{option}=" in CARD for option in options)


def test_card_names_every_file_of_the_release_that_is_read():
    assert "prod_vg_hard_negs_negate_complexity_<4 … 12>.csv" in CARD
    stems = {part.name.rsplit("_", 1)[0] for name in layout.PRODUCTIVITY for part in layout.parts(name)}
    assert stems == {f"prod_vg_hard_negs_{kind}_complexity" for kind in ("atom", "swap", "negate")}
    assert all(stem in CARD for stem in stems)
    names = {part.name for name in layout.SYSTEMATICITY for part in layout.parts(name)}
    assert names == {
        f"syst_vg_hard_negs_{compounds}_in_{training_set}.csv"
        for compounds in sources.COMPOUNDS
        for training_set in sources.TRAINING_SETS
    }
    assert "syst_vg_hard_negs_<seen_compounds, unseen_compounds>_in_<set>.csv" in CARD
