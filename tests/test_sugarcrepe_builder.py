"""The SugarCrepe builder: what a row holds, where its files come from, and how it names what is wrong."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest
from huggingface_hub import DatasetCard
from PIL import Image

from vl_assay.hub_datasets.sugarcrepe import builder as module
from vl_assay.hub_datasets.sugarcrepe.builder import CATEGORIES, CONFIG_NAMES, SugarCrepe

FOLDER = Path(module.__file__).parent
# Keys with a gap, text with stray white space, an image that two rows share: as in the released files.
ROWS = {
    "0": {"filename": "cat.jpg", "caption": "A cat on a mat.", "negative_caption": "A mat on a cat."},
    "2": {"filename": "dog.jpg", "caption": " A dog by a  car\n", "negative_caption": "A car by a dog."},
    "10": {"filename": "cat.jpg", "caption": "A mat under a cat ", "negative_caption": "A cat under a mat."},
}
RELEASED_ROWS = {
    "add_att": 692,
    "add_obj": 2062,
    "replace_att": 788,
    "replace_obj": 1652,
    "replace_rel": 1406,
    "swap_att": 666,
    "swap_obj": 245,
}


def write_annotations(path: Path, rows: Any = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    return path


def write_image(path: Path, colour: str = "red") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 3), colour).save(path)
    return path


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A folder laid out like the repository with its images beside."""
    root = tmp_path / "release"
    write_annotations(root / "data" / "swap_obj.json")
    write_image(root / "val2017" / "cat.jpg", "red")
    write_image(root / "val2017" / "dog.jpg", "blue")
    return root


@pytest.fixture
def remote(tmp_path: Path, release: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands in for both servers, with the checksum that the builder expects."""
    root = tmp_path / "remote"
    annotations = root / "data" / "swap_obj.json"
    shutil.copytree(release / "data", root / "data")
    with zipfile.ZipFile(root / "val2017.zip", "w") as archive:
        for path in sorted((release / "val2017").iterdir()):
            archive.write(path, f"val2017/{path.name}")
    sums = module._CHECKSUMS | {"data/swap_obj.json": hashlib.sha256(annotations.read_bytes()).hexdigest()}
    monkeypatch.setattr(module, "_CHECKSUMS", sums)
    monkeypatch.setattr(module, "_ANNOTATIONS_URL", str(root))
    monkeypatch.setattr(module, "_IMAGES_URL", str(root / "val2017.zip"))
    return root


@pytest.fixture
def make(tmp_path: Path):
    """Make a builder; the small files of these tests have no published checksum."""

    def make(data_dir: Path | str | None = None, config: str = "swap_obj", **options: Any) -> SugarCrepe:
        return SugarCrepe(
            cache_dir=str(tmp_path / "cache"),
            dataset_name="sugarcrepe",
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


@pytest.fixture
def released(shared_data: Path, make):
    """The rows of a config, read from the real annotation files with their checksums verified."""

    def read(config: str) -> list[dict[str, Any]]:
        builder = make(shared_data / "data" / "sugarcrepe", config, with_images=False, verify=True)
        return list(builder.as_streaming_dataset(split="test"))

    return read


# What a row holds


def test_columns_and_types_are_the_documented_ones(build, release):
    features = build(release).features
    assert list(features) == ["id", "category", "image", "filename", "caption", "negative_caption"]
    assert isinstance(features.pop("image"), datasets.Image)
    assert set(map(repr, features.values())) == {repr(datasets.Value("string"))}


def test_text_is_kept_exactly_as_released(build, release):
    dataset = build(release)
    assert dataset["caption"][:] == [row["caption"] for row in ROWS.values()]
    assert dataset["negative_caption"][:] == [row["negative_caption"] for row in ROWS.values()]


def test_ids_are_the_keys_of_the_file_gaps_included(build, release):
    assert build(release)["id"][:] == ["swap_obj/0", "swap_obj/2", "swap_obj/10"]


def test_unrefined_rows_have_their_own_ids_and_the_plain_category(build, release):
    write_annotations(release / "data_unrefined" / "swap_obj.json")
    dataset = build(release, "unrefined_swap_obj")
    assert dataset["id"][0] == "unrefined_swap_obj/0"
    assert set(dataset["category"]) == {"swap_obj"}


def test_image_bytes_are_those_of_the_file(build, release):
    rows = build(release).cast_column("image", datasets.Image(decode=False))
    for row in rows:
        expected = {"path": row["filename"], "bytes": (release / "val2017" / row["filename"]).read_bytes()}
        assert row["image"] == expected


def test_image_bytes_are_not_decoded(build, release):
    (release / "val2017" / "cat.jpg").write_bytes(b"no image at all")
    rows = build(release).cast_column("image", datasets.Image(decode=False))
    assert rows[0]["image"]["bytes"] == b"no image at all"


def test_streaming_gives_the_rows_of_the_prepared_dataset(build, make, release):
    assert list(make(release).as_streaming_dataset(split="test")) == list(build(release))


def test_two_processes_give_the_rows_of_one(make, build, release, tmp_path):
    builder = SugarCrepe(cache_dir=str(tmp_path / "two"), config_name="swap_obj", data_dir=str(release), verify=False)
    builder.download_and_prepare(num_proc=2)
    assert builder.as_dataset(split="test")["id"][:] == build(release)["id"][:]


# Where files are looked for


@pytest.mark.parametrize("place", ["val2017", "images/val2017", "."])
def test_images_are_found_in_each_documented_place(build, release, place):
    moved = release.with_name("moved")
    write_annotations(moved / "data" / "swap_obj.json")
    shutil.copytree(release / "val2017", moved / place, dirs_exist_ok=True)
    assert [image.size for image in build(moved)["image"]] == [(4, 3)] * 3


def test_val2017_is_preferred_to_a_bare_file(build, release):
    (release / "dog.jpg").write_bytes(b"another file of that name")
    rows = build(release).cast_column("image", datasets.Image(decode=False))
    assert rows[1]["image"]["bytes"] == (release / "val2017" / "dog.jpg").read_bytes()


def test_annotations_may_lie_beside_the_images(build, release):
    (release / "data" / "swap_obj.json").rename(release / "swap_obj.json")
    assert len(build(release)) == 3


def test_bare_annotation_file_is_not_taken_for_the_unrefined_one(make, release, remote):
    write_annotations(release / "swap_obj.json")
    with pytest.raises(ConnectionError, match=r"data_unrefined/swap_obj\.json.*pass data_dir"):
        make(release, "unrefined_swap_obj").download_and_prepare()


def test_relative_data_dir_works(build, release, monkeypatch):
    monkeypatch.chdir(release.parent)
    assert len(build("release")) == 3


def test_data_dir_in_the_home_folder_works(build, release, monkeypatch):
    monkeypatch.setenv("HOME", str(release.parent))
    assert len(build("~/release")) == 3


def test_data_dir_that_is_not_a_folder_is_named(make, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data_dir .*nowhere is not a folder"):
        make(tmp_path / "nowhere").download_and_prepare()


def test_without_data_dir_everything_is_downloaded(build, release, remote):
    rows = build().cast_column("image", datasets.Image(decode=False))
    assert rows["id"][:] == ["swap_obj/0", "swap_obj/2", "swap_obj/10"]
    assert rows[1]["image"]["bytes"] == (release / "val2017" / "dog.jpg").read_bytes()


def test_data_dir_without_any_image_falls_back_on_the_archive(build, release, remote):
    shutil.rmtree(release / "val2017")
    assert [image.size for image in build(release)["image"]] == [(4, 3)] * 3


def test_archive_without_an_image_is_an_error_that_names_it(make, remote, release):
    with zipfile.ZipFile(remote / "val2017.zip", "w") as archive:
        archive.write(release / "val2017" / "cat.jpg", "val2017/cat.jpg")
    with pytest.raises(FileNotFoundError, match=r"1 of 2 images .* archive .*dog\.jpg \(for swap_obj/2\)"):
        make().download_and_prepare()


def test_images_do_not_stream_from_the_archive(make, remote):
    with pytest.raises(NotImplementedError, match="pass data_dir"):
        make().as_streaming_dataset(split="test")


def test_failed_download_says_what_to_do(make, remote):
    (remote / "data" / "swap_obj.json").unlink()
    with pytest.raises(ConnectionError, match=r"Could not download .*swap_obj\.json.*pass data_dir"):
        make().download_and_prepare()


# Missing images


def test_missing_image_is_an_error_that_names_it_its_rows_and_the_cure(make, release):
    (release / "val2017" / "cat.jpg").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        make(release).download_and_prepare()
    message = str(caught.value)
    assert "1 of 2 images are missing" in message
    assert "cat.jpg (for swap_obj/0, swap_obj/10)" in message
    assert "dog.jpg" not in message
    assert "allow_missing=True" in message
    assert "with_images=False" in message


def test_empty_image_file_counts_as_missing(make, release):
    (release / "val2017" / "dog.jpg").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"dog\.jpg"):
        make(release).download_and_prepare()


def test_many_missing_images_are_counted_after_the_first_five(make, release):
    rows = {str(n): ROWS["0"] | {"filename": f"{n}.jpg"} for n in range(8)}
    write_annotations(release / "data" / "swap_obj.json", rows)
    with pytest.raises(FileNotFoundError, match=r"8 of 8 .*4\.jpg \(for swap_obj/4\), and 3 more"):
        make(release).download_and_prepare()


def test_allowed_missing_image_keeps_its_row(build, release):
    (release / "val2017" / "cat.jpg").unlink()
    dataset = build(release, allow_missing=True)
    assert dataset["id"][:] == ["swap_obj/0", "swap_obj/2", "swap_obj/10"]
    assert [image is None for image in dataset["image"]] == [True, False, True]


def test_empty_image_folder_is_taken_for_the_users_own(build, release, remote):
    for image in (release / "val2017").iterdir():
        image.unlink()
    assert build(release, allow_missing=True)["image"][:] == [None] * 3


def test_text_only_needs_no_images_and_has_no_image_column(build, release):
    shutil.rmtree(release / "val2017")
    dataset = build(release, with_images=False)
    assert dataset.column_names == ["id", "category", "filename", "caption", "negative_caption"]
    assert len(dataset) == 3


# Damaged and altered annotations


GOOD = '{"filename": "cat.jpg", "caption": "a", "negative_caption": "b"}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"0": ' + GOOD, "not valid JSON"),
        ("", "not valid JSON"),
        ("[" + GOOD + "]", "list at the top level"),
        ("{}", "an empty object"),
        ('{"0": ' + GOOD + ', "0": ' + GOOD + "}", "key '0' occurs twice"),
        ('{"0": ' + GOOD + ', "accuracy": 0.5}', "key 'accuracy': found float instead of a row"),
        ('{"7": {"filename": "a.jpg", "caption": "b"}}', "key '7': negative_caption is missing"),
        ('{"7": ' + GOOD[:-1] + ', "label": "1"}}', "key '7': label is unexpected"),
        ('{"7": ' + GOOD.replace('"a"', "null") + "}", "key '7': caption is NoneType, not text"),
        ('{"7": ' + GOOD.replace('"b"', '["b"]') + "}", "key '7': negative_caption is list, not text"),
        ('{"7": ' + GOOD.replace("cat.jpg", "../cat.jpg") + "}", "'../cat.jpg' is not a bare file name"),
        ('{"7": ' + GOOD.replace("cat.jpg", "") + "}", "'' is not a bare file name"),
    ],
)
def test_damaged_annotations_are_an_error_that_names_file_and_key(make, release, text, found):
    path = write_annotations(release / "data" / "swap_obj.json", text)
    with pytest.raises(ValueError, match="Expected") as caught:
        make(release).download_and_prepare()
    assert str(path) in str(caught.value)
    assert found in str(caught.value)


def test_annotations_that_are_not_utf8_are_an_error(make, release):
    (release / "data" / "swap_obj.json").write_bytes(b'{"0": "\xff"}')
    with pytest.raises(ValueError, match=r"swap_obj\.json is not valid JSON"):
        make(release).download_and_prepare()


def test_altered_local_file_is_an_error_with_both_sums_and_the_cure(make, release):
    payload = (release / "data" / "swap_obj.json").read_bytes()
    with pytest.raises(ValueError, match="damaged or of another release") as caught:
        make(release, verify=True).download_and_prepare()
    message = str(caught.value)
    assert str(release / "data" / "swap_obj.json") in message
    assert hashlib.sha256(payload).hexdigest() in message
    assert module._CHECKSUMS["data/swap_obj.json"] in message
    assert "verify=False" in message


def test_checksums_are_verified_unless_told_otherwise(release, tmp_path):
    builder = SugarCrepe(cache_dir=str(tmp_path / "cache"), config_name="swap_obj", data_dir=str(release))
    with pytest.raises(ValueError, match="SHA-256"):
        builder.download_and_prepare()


def test_altered_download_is_an_error_whatever_verify_says(make, remote):
    with (remote / "data" / "swap_obj.json").open("a") as file:
        file.write("\n")
    with pytest.raises(ValueError, match="The download is damaged"):
        make(verify=False).download_and_prepare()


def test_errors_come_before_anything_is_written(make, release):
    (release / "val2017" / "dog.jpg").unlink()
    builder = make(release)
    with pytest.raises(FileNotFoundError):
        builder.download_and_prepare()
    assert not Path(builder.cache_dir).exists()


# The module itself


def test_there_are_fourteen_configs_with_a_version_and_a_checksum_each():
    assert [config.name for config in SugarCrepe.BUILDER_CONFIGS] == list(CONFIG_NAMES)
    assert len(CONFIG_NAMES) == 14
    assert {str(config.version) for config in SugarCrepe.BUILDER_CONFIGS} == {"1.0.0"}
    assert {module._annotation_name(name) for name in CONFIG_NAMES} == set(module._CHECKSUMS)


def test_unknown_config_is_answered_with_the_known_ones(make):
    with pytest.raises(ValueError, match="swap_att"):
        make(config="swap_rel")


def test_script_imports_only_the_standard_library_and_datasets_one_a_line():
    tree = ast.parse((FOLDER / "builder.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imports
    for node in imports:
        assert len(node.names) == 1, ast.unparse(node)
        name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        assert not getattr(node, "level", 0), ast.unparse(node)
        assert name == "datasets" or name.split(".")[0] in sys.stdlib_module_names, ast.unparse(node)


# The released files


@pytest.mark.parametrize("category", CATEGORIES)
def test_released_categories_have_the_known_number_of_rows(released, category):
    assert len(released(category)) == RELEASED_ROWS[category]


def test_unrefined_files_hold_17478_rows_and_the_refined_ones_among_them(released):
    rows = {name: Counter(map(content, released(name))) for name in CONFIG_NAMES}
    assert sum(rows[f"unrefined_{category}"].total() for category in CATEGORIES) == 17_478
    for category in CATEGORIES:
        assert not rows[category] - rows[f"unrefined_{category}"]


def test_released_rows_share_images_and_captions(released):
    rows = [row for category in CATEGORIES for row in released(category)]
    captions = [caption for row in rows for caption in (row["caption"], row["negative_caption"])]
    assert len(rows) == 7_511
    assert len({row["filename"] for row in rows}) == 1_560
    assert (len(set(captions)), len(captions)) == (11_844, 15_022)


def test_released_swap_obj_keeps_its_gap_and_its_white_space(released):
    rows = released("swap_obj")
    assert {int(row["id"].split("/")[1]) for row in rows} == set(range(246)) - {108}
    assert sum(row["caption"] != row["caption"].strip() for row in rows) == 33


def test_released_file_is_prepared_as_well_as_streamed(build, shared_data, released):
    dataset = build(shared_data / "data" / "sugarcrepe" / "data", with_images=False, verify=True)
    assert list(dataset) == released("swap_obj")


def content(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["filename"], row["caption"], row["negative_caption"]


# The card


def card_table(marker: str) -> dict[str, list[str]]:
    """The cells of the table between two markers of the card, by the first cell of each line."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    inside = text.split(f"<!-- {marker} -->")[1].split(f"<!-- /{marker} -->")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.split("\n") if line]
    return {cells[0]: cells[1:] for cells in lines[2:]}


def test_card_is_valid_and_leaves_configs_to_the_build():
    card = DatasetCard.load(FOLDER / "README.md", ignore_metadata_errors=False)
    metadata = card.data.to_dict()
    assert metadata["license"] == "mit"
    assert not {"configs", "dataset_info"} & set(metadata)


def test_card_counts_are_those_of_the_files(released):
    table = card_table("counts")
    assert list(table) == list(CONFIG_NAMES)
    for name, cells in table.items():
        rows = released(name)
        images = {row["filename"] for row in rows}
        captions = {row[column] for row in rows for column in ("caption", "negative_caption")}
        assert cells == ["test", f"{len(rows):,}", f"{len(images):,}", f"{len(captions):,}"], name


def test_card_states_the_leaks_that_the_files_have(released):
    table = card_table("leaks")
    assert list(table) == list(CATEGORIES)
    for category, cells in table.items():
        rows = released(category)
        figures = [
            share(has_stop(row["caption"]) for row in rows),
            share(has_stop(row["negative_caption"]) for row in rows),
            share(row["caption"] != row["caption"].strip() for row in rows),
            share(blind_credit(row, looks_typed) for row in rows),
            share(blind_credit(row, brevity) for row in rows),
            str(sum(bag(row["caption"]) == bag(row["negative_caption"]) for row in rows)),
        ]
        assert cells == figures, category


def test_no_released_negative_has_outer_white_space(released):
    rows = [row for category in CATEGORIES for row in released(category)]
    assert all(row["negative_caption"] == row["negative_caption"].strip() for row in rows)


def share(values) -> str:
    values = list(values)
    return f"{100 * sum(values) / len(values):.1f}"


def has_stop(text: str) -> bool:
    return text.strip().endswith(".")


def looks_typed(text: str) -> tuple[bool, bool]:
    """Rule of the card: irregular white space first, then no final full stop."""
    return text != " ".join(text.split()), not has_stop(text)


def brevity(text: str) -> int:
    return -len(text.strip())


def blind_credit(row: dict[str, Any], score) -> float:
    """1 where the caption outscores its negative, 0 where it is outscored, a half where they tie."""
    positive, negative = score(row["caption"]), score(row["negative_caption"])
    return 0.5 if positive == negative else float(positive > negative)


def bag(text: str) -> Counter[str]:
    return Counter(re.findall(r"[a-z0-9']+", text.lower()))
