"""The retrieval builder: what each condition holds, that seed and content alone decide it, that its card is true."""

from __future__ import annotations

import ast
import csv
import io
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import sources_retrieval
from huggingface_hub import DatasetCard
from PIL import Image

from vl_assay.hub_datasets import build as build_repository
from vl_assay.hub_datasets import get_benchmark, judge
from vl_assay.hub_datasets.authoring import perturb
from vl_assay.hub_datasets.retrieval import builder as module
from vl_assay.hub_datasets.retrieval import karpathy
from vl_assay.hub_datasets.retrieval.builder import CONFIG_NAMES, IMAGE_SHUFFLES, PARTS, TEXT_SHUFFLES, Retrieval
from vl_assay.metrics.citations import ARO as CITATION
from vl_assay.metrics.errors import DataError, UnknownNameError
from vl_assay.model_wrappers import score

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
COLUMNS = ["id", "image", "filename", "captions", "condition", "seed", "unchanged", "tagger"]
FILE = "coco_karpathy_test.json"
ENTRIES = sources_retrieval.ENTRIES[FILE]
IMAGE = ENTRIES[0][0]
GRIDS = {"shuffle_rows_4": (1, 4), "shuffle_columns_4": (4, 1), "shuffle_patches_9": (3, 3)}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    sources_retrieval.make(folder)
    return folder


@pytest.fixture
def make(tmp_path: Path):
    def make(data_dir: Path | None = None, config: str = "coco", **options: Any) -> Retrieval:
        return Retrieval(
            cache_dir=str(tmp_path / "cache"),
            dataset_name="retrieval",
            config_name=config,
            data_dir=None if data_dir is None else str(data_dir),
            **{"verify": False, "tagger": "plain", **options},
        )

    return make


@pytest.fixture
def build(make):
    def build(*args: Any, **options: Any) -> datasets.Dataset:
        builder = make(*args, **options)
        builder.download_and_prepare()
        return builder.as_dataset(split="test")

    return build


def raw(dataset: datasets.Dataset | datasets.IterableDataset) -> list[dict[str, Any]]:
    return list(dataset.cast_column("image", datasets.Image(decode=False)))


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("RGB"))


# --- what a row holds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIG_NAMES)
def test_every_image_is_a_row_with_all_its_captions(build, sources, config):
    dataset = build(sources, config)
    name, condition = PARTS[config]
    entries = sources_retrieval.ENTRIES[karpathy.SOURCES[name].annotations]
    assert dataset.column_names == COLUMNS
    assert dataset["id"][:] == [f"{config}/{place}" for place in range(len(entries))]
    assert dataset["filename"][:] == [Path(path).name for path, _ in entries]
    assert [len(captions) for captions in dataset["captions"]] == [len(captions) for _, captions in entries]
    assert set(dataset["condition"]) == {condition}
    assert set(dataset["seed"]) == {0}
    needs_tags = condition in ("shuffle_nouns_and_adjectives", "shuffle_all_but_nouns_and_adjectives")
    assert set(dataset["tagger"]) == {"plain 1" if needs_tags else None}


def test_column_types_are_the_documented_ones(make):
    features = make().info.features
    text, numbers = datasets.Value("string"), datasets.List(datasets.Value("int32"))
    assert features["captions"] == datasets.List(text)
    assert features["unchanged"] == numbers
    assert features["seed"] == datasets.Value("int64")
    assert isinstance(features["image"], datasets.Image)
    assert all(features[name] == text for name in ("id", "filename", "condition", "tagger"))


def test_the_plain_task_holds_captions_and_files_as_released(build, sources):
    for row, (path, captions) in zip(raw(build(sources)), ENTRIES, strict=True):
        assert row["captions"] == captions
        assert row["image"] == {"path": Path(path).name, "bytes": (sources / path).read_bytes()}
        assert row["unchanged"] == []


def test_cleaned_captions_keep_their_order(build, sources):
    rows = build(sources, "coco_cleaned", with_images=False)
    assert rows[4]["captions"][:2] == [
        "a small brown dog sits on a red chair",
        "two men in blue shirts ride horses near a wooden fence",
    ]
    assert not any(rows["unchanged"])


@pytest.mark.parametrize("shuffle", TEXT_SHUFFLES)
def test_a_shuffle_of_text_changes_every_caption_that_it_can_and_no_image(build, sources, shuffle):
    rows, cleaned = raw(build(sources, f"coco_{shuffle}")), build(sources, "coco_cleaned")
    for row, (path, _), texts in zip(rows, ENTRIES, cleaned["captions"], strict=True):
        assert row["image"]["bytes"] == (sources / path).read_bytes()
        for index, (shuffled, text) in enumerate(zip(row["captions"], texts, strict=True)):
            assert Counter(shuffled.split()) == Counter(text.split())
            assert (shuffled == text) == (index in row["unchanged"])
    # "Zebras" has one order; "He is running …" has neither noun nor adjective.
    assert rows[4]["unchanged"] == ([4, 5] if shuffle == "shuffle_nouns_and_adjectives" else [4])
    assert not any(row["unchanged"] for row in rows[:4])


def test_captions_are_those_of_the_perturbations(build, sources):
    captions = [text for _, texts in ENTRIES for text in texts]
    for shuffle in TEXT_SHUFFLES:
        made = perturb.perturb(captions, [shuffle], 5, tagger="plain")
        expected = [text or kept for text, kept in zip(made.perturbed[shuffle], made.captions, strict=True)]
        rows = build(sources, f"coco_{shuffle}", seed=5, with_images=False)
        assert [text for texts in rows["captions"] for text in texts] == expected


@pytest.mark.parametrize("shuffle", IMAGE_SHUFFLES)
def test_a_shuffle_of_images_moves_whole_cells_without_loss_and_keeps_the_captions(build, sources, shuffle):
    columns, rows = GRIDS[shuffle]
    width, height = 34 // columns, 25 // rows

    def cells(image):
        return [
            image[y : y + height, x : x + width].tobytes()
            for y in range(0, rows * height, height)
            for x in range(0, columns * width, width)
        ]

    for row, (path, captions) in zip(build(sources, f"coco_{shuffle}"), ENTRIES, strict=True):
        before, after = pixels(Image.open(sources / path)), pixels(row["image"])
        assert row["image"].format == "PNG"
        assert row["captions"] == captions
        assert Counter(cells(after)) == Counter(cells(before))
        assert cells(after) != cells(before)
        assert np.array_equal(after[rows * height :], before[rows * height :])
        assert np.array_equal(after[:, columns * width :], before[:, columns * width :])


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_a_shuffled_image_has_three_colours_whatever_the_photograph_has(build, sources, mode):
    Image.open(sources / IMAGE).convert(mode).save(sources / IMAGE)
    assert build(sources, "coco_shuffle_rows_4")[0]["image"].mode == "RGB"


def test_a_file_that_is_no_image_is_named_where_it_is_shuffled_and_kept_where_it_is_not(make, build, sources):
    (sources / IMAGE).write_bytes((sources / IMAGE).read_bytes()[:300])
    with pytest.raises(datasets.exceptions.DatasetGenerationError) as caught:
        make(sources, "coco_shuffle_rows_4").download_and_prepare()
    assert f"{sources / IMAGE} cannot be read as an image" in str(caught.value.__cause__)
    assert raw(build(sources))[0]["image"]["bytes"] == (sources / IMAGE).read_bytes()


def test_an_image_too_small_for_the_grid_is_named(make, sources):
    Image.new("RGB", (2, 2)).save(sources / IMAGE)
    with pytest.raises(datasets.exceptions.DatasetGenerationError) as caught:
        make(sources, "coco_shuffle_patches_9").download_and_prepare()
    assert isinstance(caught.value.__cause__, DataError)
    assert Path(IMAGE).name in str(caught.value.__cause__)


# --- fixed by seed and content alone --------------------------------------------------------------------------


@pytest.mark.parametrize("config", ["coco_shuffle_trigrams", "coco_shuffle_columns_4"])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_rows(sources, tmp_path, config):
    def files(name, **options):
        options = {"verify": False, **options}
        out = build_repository("retrieval", tmp_path / name, configs=[config], data_dir=sources, options=options)
        return {path.name: path.read_bytes() for path in out.rglob("*.parquet")}

    one = files("one")
    assert files("two") == one
    assert files("other", seed=1) != one


def test_the_seed_changes_what_is_shuffled_and_nothing_else(build, sources):
    for config in ("coco", "coco_cleaned"):
        rows, others = raw(build(sources, config)), raw(build(sources, config, seed=7))
        assert [row | {"seed": 7} for row in rows] == others
    rows, others = (build(sources, "coco_shuffle_all_words", seed=seed)["captions"][:] for seed in (0, 7))
    assert sum(a != b for one, other in zip(rows, others, strict=True) for a, b in zip(one, other, strict=True)) >= 20
    rows, others = (raw(build(sources, "coco_shuffle_patches_9", seed=seed)) for seed in (0, 7))
    assert all(row["image"]["bytes"] != other["image"]["bytes"] for row, other in zip(rows, others, strict=True))
    assert rows[0]["image"]["path"] == "COCO_val2014_000000000000-shuffle_patches_9-0.png"


@pytest.mark.parametrize("config", ["coco_shuffle_nouns_and_adjectives", "coco_shuffle_patches_9"])
def test_a_row_does_not_depend_on_the_rows_around_it(make, sources, config):
    def read():
        return raw(make(sources, config).as_streaming_dataset(split="test"))

    rows = {row["filename"]: row for row in read()}
    sources_retrieval.write(sources / FILE, ENTRIES[::-1][1:4])
    others = read()
    assert len(others) == 3
    for row in others:
        assert row == rows[row["filename"]] | {"id": row["id"]}


@pytest.mark.parametrize("config", ["coco_shuffle_trigrams", "coco_shuffle_rows_4"])
def test_four_processes_give_the_rows_and_bytes_of_one(sources, tmp_path, config):
    tables = []
    for processes in (None, 4):
        builder = Retrieval(
            cache_dir=str(tmp_path / str(processes)), config_name=config, data_dir=str(sources), verify=False
        )
        builder.download_and_prepare(num_proc=processes)
        assert len(list(Path(builder.cache_dir).glob("*.arrow"))) == (processes or 1)
        tables.append(builder.as_dataset(split="test").data.table.combine_chunks())
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("config", ["coco", "coco_shuffle_all_words", "coco_shuffle_rows_4"])
def test_streaming_gives_the_rows_of_the_prepared_dataset(build, make, sources, config):
    rows = raw(build(sources, config))
    assert raw(make(sources, config).as_streaming_dataset(split="test")) == rows


# --- options, and what is missing -----------------------------------------------------------------------------


def test_text_only_needs_no_images_and_no_data_dir(build, sources, monkeypatch):
    monkeypatch.setattr(karpathy, "URL", str(sources))
    monkeypatch.setattr(module, "URL", str(sources))
    dataset = build(None, "coco_shuffle_trigrams", with_images=False)
    assert dataset.column_names == [name for name in COLUMNS if name != "image"]
    assert len(dataset) == 5
    (sources / FILE).unlink()
    with pytest.raises(ConnectionError, match=rf"Could not download {sources}/{FILE}"):
        build(None, "coco_shuffle_within_trigrams", with_images=False)


def test_missing_images_are_named_or_allowed(make, build, sources):
    (sources / IMAGE).unlink()
    for config in ("coco", "coco_shuffle_rows_4"):
        with pytest.raises(FileNotFoundError, match=rf"{config}: 1 of 5 images of COCO val2014 .*{Path(IMAGE).name}"):
            make(sources, config).download_and_prepare()
        rows = raw(build(sources, config, allow_missing=True))
        assert [row["image"] is None for row in rows] == [True, False, False, False, False]
        assert len(rows[0]["captions"]) == 5
    with pytest.raises(FileNotFoundError, match=r"flickr30k shows photographs of Flickr30k, .*forms\.illinois\.edu"):
        make(None, "flickr30k").download_and_prepare()


def test_numbers_and_checksum_of_the_release_are_verified_by_default(sources, tmp_path):
    for config, found in (("coco", "has MD5"), ("flickr30k", "has 4 images with 20 captions")):
        builder = Retrieval(cache_dir=str(tmp_path / "cache"), config_name=config, data_dir=str(sources))
        with pytest.raises(ValueError, match=found):
            builder.download_and_prepare()


def test_an_unknown_tagger_and_a_seed_that_is_no_number_are_refused(make, sources):
    with pytest.raises(UnknownNameError, match="tagger"):
        make(sources, "coco_shuffle_trigrams", tagger="nltk").download_and_prepare()
    with pytest.raises(ValueError, match=r"seed is '1'; pass a whole number"):
        make(sources, seed="1").download_and_prepare()


def test_only_what_is_cleaned_or_shuffled_needs_the_package(make, build, sources, monkeypatch):
    def missing():
        raise ImportError("pip install vl-assay")

    monkeypatch.setattr(module, "load_authoring", missing)
    assert len(build(sources)) == 5
    for config in ("coco_cleaned", "coco_shuffle_trigrams", "coco_shuffle_rows_4"):
        with pytest.raises(ImportError, match="pip install vl-assay"):
            make(sources, config).download_and_prepare()


# --- the modules themselves -----------------------------------------------------------------------------------


def test_conditions_are_the_shuffles_that_there_are():
    assert TEXT_SHUFFLES == perturb.TEXT_SHUFFLES
    assert tuple(perturb.IMAGE_SHUFFLES) == IMAGE_SHUFFLES
    assert GRIDS == perturb.IMAGE_SHUFFLES
    assert [config.name for config in Retrieval.BUILDER_CONFIGS] == list(CONFIG_NAMES)
    assert len(CONFIG_NAMES) == 2 * (2 + 5 + 3)


def test_each_configuration_is_a_task_of_its_own_and_the_plain_ones_are_the_default():
    tasks = get_benchmark("retrieval").tasks
    assert [(task.name, task.configs) for task in tasks] == [(name, (name,)) for name in CONFIG_NAMES]
    assert {task.kind for task in tasks} == {"retrieval"}
    assert [task.name for task in tasks if task.by_default] == ["coco", "flickr30k"]
    assert all(task.metrics == {"retrieval_recall": {"pool": "shared", "ks": [1, 5, 10]}} for task in tasks)


def test_the_script_imports_the_standard_library_datasets_pillow_and_its_sibling():
    for name in ("builder.py", "karpathy.py"):
        tree = ast.parse((FOLDER / name).read_text(encoding="utf-8"))
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)):
            source = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            if getattr(node, "level", 0):
                assert (node.level, source, name) == (1, "karpathy", "builder.py")  # type: ignore[union-attr]
            else:
                assert source.split(".")[0] in {"datasets", "PIL", *sys.stdlib_module_names}


def test_a_repository_of_all_loads_and_its_card_has_the_counts_of_the_build(sources, tmp_path):
    out = build_repository("retrieval", tmp_path / "out", data_dir=sources, options={"verify": False})
    for config in CONFIG_NAMES:
        rows = datasets.load_dataset(str(out), config, split="test")
        assert len(rows) == len(sources_retrieval.ENTRIES[karpathy.SOURCES[PARTS[config][0]].annotations])
    card = (out / "README.md").read_text(encoding="utf-8")
    # Four images with five captions of their own, one with six of which none is theirs: "… well" tells them apart.
    assert "| coco | test | 5 | 5 | 26 |" in card
    assert "| flickr30k_shuffle_patches_9 | test | 4 | 4 | 20 |" in card


# --- scored and judged ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", ["flickr30k", "coco_shuffle_trigrams", "coco_shuffle_rows_4"])
def test_a_condition_is_scored_by_name_and_judged_as_a_pool_of_its_own(config, sources, tmp_path):
    def scores(mock):
        sheets = score(
            f"mock:{mock}",
            [f"retrieval/{config}"],
            data_dir=sources,
            options={"verify": False},
            out=tmp_path / mock,
            progress=False,
        )
        [result] = judge(sheets, resamples=100)
        assert result.metric == "retrieval_recall"
        return result.scores

    constant = scores("constant")
    assert (constant["n_images"], constant["n_captions"]) == ((4, 20) if config == "flickr30k" else (5, 26))
    assert constant["text_recall_at_1"] == constant["text_recall_at_10"] == constant["image_recall_at_1"] == 0
    assert constant["text_tie_rate"] == constant["image_tie_rate"] == 1
    shuffled = scores("shuffled")
    assert shuffled["text_tie_rate"] == 0
    assert shuffled["text_recall_at_10"] > 0


# --- the card -------------------------------------------------------------------------------------------------


def card_table(marker: str) -> dict[str, list[str]]:
    inside = CARD.split(f"<!-- {marker} -->")[1].split(f"<!-- /{marker} -->")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in inside.split("\n") if line]
    return {cells[0]: cells[1:] for cells in lines[2:]}


def test_card_is_valid_and_leaves_configs_to_the_build():
    metadata = DatasetCard(CARD, ignore_metadata_errors=False).data.to_dict()
    assert not {"configs", "dataset_info"} & set(metadata)


def test_the_row_of_the_card_is_what_the_builder_makes_of_it(build, sources):
    shown = re.search(r"\[0\]\n(\{.*?\})\n```", CARD, re.DOTALL)
    assert shown
    row = ast.literal_eval(re.sub(r"<.*?\.\.\.>", "None", shown[1]))
    released = [
        "Remarkable scene with a blue ball behind a green chair.",
        "A ball lies on the floor",
        "Ball and chair, side by side",
        "There is a chair in the room.",
        "Furniture",
    ]
    sources_retrieval.write(sources / FILE, [(f"val2014/{row['filename']}", released)])
    Image.new("RGB", (4, 3)).save(sources / "val2014" / row["filename"])
    made = build(sources, "coco_shuffle_trigrams")[0]
    assert list(made) == list(row)
    assert made | {"image": None} == row


def test_the_card_lists_columns_configurations_conditions_and_options():
    table = CARD.split("| column | type | content |\n|---|---|---|\n")[1].split("\n\n")[0]
    assert [line.strip("|").split("|")[0].strip() for line in table.splitlines()] == COLUMNS
    counts = card_table("counts")
    assert list(counts) == list(CONFIG_NAMES)
    for config, cells in counts.items():
        assert cells[:2] == ["test", f"{karpathy.SOURCES[PARTS[config][0]].images:,}"]
    conditions = re.findall(r"^\| (\w+) \| (?:as released|cleaned|in lower case)", CARD, re.MULTILINE)
    assert conditions == list(module.CONDITIONS[1:])
    options = set(re.findall(r"^\| `(\w+)` \|", CARD, re.MULTILINE))
    assert options == {"seed", "tagger", "with_images", "allow_missing", "verify"}
    for source in karpathy.SOURCES.values():
        assert f"{source.images:,}" in CARD
        assert f"{source.captions:,}" in CARD
        assert source.annotations in CARD
        assert source.md5 in CARD
    assert karpathy.URL in CARD


def test_the_card_counts_what_the_shuffles_leave_on_real_captions(shared_data):
    path = shared_data / "data" / "aro" / "valid_neg_clip.tsv"
    if not path.is_file():
        pytest.skip("the authors' file of negatives is not there")
    with path.open(encoding="utf-8", newline="") as file:
        captions = [row["title"] for row in csv.DictReader(file, delimiter="\t")]
    made = perturb.perturb(captions, TEXT_SHUFFLES, tagger="plain").perturbed
    assert f"Of the {len(captions):,} captions of COCO" in CARD
    assert card_table("unchanged") == {name: [str(made[name].count(None))] for name in TEXT_SHUFFLES}


def test_the_card_says_what_the_paper_says(shared_data):
    found = sorted((shared_data / "papers").glob("004_*.txt"))
    if not found:
        pytest.skip("the paper's text is not there")
    paper = " ".join(found[0].read_text(encoding="utf-8").split())
    assert "where COCO contains 5k images, and Flickr30k contains 1k images. We report Recall@1" in paper
    assert "compute the retrieval performance 3 times with different random seeds" in paper
    assert "The paper repeats each shuffle with 3 seeds" in CARD


def test_the_snippet_that_counts_what_is_unchanged_runs(sources, tmp_path, capsys):
    config = "coco_shuffle_nouns_and_adjectives"
    out = build_repository(
        "retrieval", tmp_path / "out", configs=[config], data_dir=sources, options={"verify": False, "tagger": "plain"}
    )
    snippet = CARD.split("How many there are in a build:\n\n```python\n")[1].split("```")[0]
    exec(snippet.replace('"DIR"', repr(str(out))), {"load_dataset": datasets.load_dataset})
    assert capsys.readouterr().out == "2\n"


def test_the_card_cites_the_paper():
    fields = dict(re.findall(r"(\w+)\s*=\s*\{(.*?)\}", CITATION))
    assert fields == dict(re.findall(r"(\w+)\s*=\s*\{(.*?)\}", CARD.split("## Citation")[1]))
    assert fields == dict(re.findall(r"(\w+)\s*=\s*\{(.*?)\}", module._CITATION))


def test_a_png_of_a_shuffled_image_reads_back_as_what_the_shuffle_made(build, sources):
    row = raw(build(sources, "coco_shuffle_patches_9", seed=2))[1]
    name = row["filename"]
    expected = perturb.shuffle_image(
        Image.open(sources / "val2014" / name).convert("RGB"), "shuffle_patches_9", name, 2
    )
    assert np.array_equal(pixels(Image.open(io.BytesIO(row["image"]["bytes"]))), pixels(expected))
