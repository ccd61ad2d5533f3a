"""The candidates' file, and the captions that candidates are made of."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from review_support import draw_image

from vl_assay.hub_datasets.authoring.data.candidates import Candidate, read_candidates, to_pairs, write_candidates
from vl_assay.hub_datasets.authoring.data.sources import Captioned, read_captions
from vl_assay.metrics.common.errors import DataError, UnknownNameError

ONE = Candidate(
    "1/swap_obj", "images/1.jpg", "a cat on a dog", "a dog on a cat", "swap_obj", False, "m", {"first": "cat"}
)
TWO = Candidate("1/positive_swap", "", "a\u2028b and c", "c and a\u2028b", "positive_swap", True, "rules", {})


def test_candidates_are_read_as_they_were_written(tmp_path):
    write_candidates([ONE, TWO], tmp_path / "candidates.jsonl")
    assert read_candidates(tmp_path) == read_candidates(tmp_path / "candidates.jsonl") == [ONE, TWO]
    line = json.loads((tmp_path / "candidates.jsonl").read_text().split("\n")[0])
    assert line == ONE._asdict()


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.lists(
        st.builds(Candidate, TEXT, TEXT, TEXT, TEXT, TEXT, st.booleans(), TEXT, st.just({})), unique_by=lambda c: c.id
    )
)
def test_any_text_survives_the_file(tmp_path_factory, candidates):
    path = tmp_path_factory.mktemp("file") / "c.jsonl"
    write_candidates(candidates, path)
    assert read_candidates(path) == candidates


def test_hard_negatives_become_pairs_and_hard_positives_do_not():
    [pair] = to_pairs([ONE, TWO])
    assert tuple(pair) == ("1/swap_obj", "images/1.jpg", "a cat on a dog", "a dog on a cat", "swap_obj")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2 is no JSON"),
        ("[]", "row 1 is .* expected an object"),
        (json.dumps(ONE._asdict() | {"is_positive": 0}), "row 1 has 0 in 'is_positive'; expected a bool"),
        (json.dumps({k: v for k, v in ONE._asdict().items() if k != "kind"}), "row 1 has None in 'kind'"),
        (json.dumps(TWO._asdict()), "id comes more than once in 1/positive_swap"),
    ],
)
def test_a_line_that_is_no_candidate_is_named(tmp_path, line, why):
    write_candidates([TWO], tmp_path / "c.jsonl")
    with (tmp_path / "c.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=why):
        read_candidates(tmp_path / "c.jsonl")
    with pytest.raises(DataError, match="vl-assay generate"):
        read_candidates(tmp_path / "missing")


ROWS = [{"file_name": "a.png", "caption": "a cat, a dog "}, {"file_name": "sub/b.png", "caption": "two\nlines"}]


def write_rows(folder, name):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / name
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(ROWS[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(ROWS)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n")
    else:
        path.write_text(json.dumps(ROWS if name == "list.json" else {"0": ROWS[0], "1": ROWS[1]}))
    return path


@pytest.mark.parametrize("name", ["c.csv", "c.tsv", "c.jsonl", "c.parquet", "list.json", "object.json"])
def test_captions_are_read_from_tables_of_every_format(tmp_path, name):
    path = write_rows(tmp_path, name)
    expected = [Captioned(str(n), str(tmp_path / row["file_name"]), row["caption"]) for n, row in enumerate(ROWS)]
    assert read_captions(path) == expected
    assert read_captions(path, limit=1) == expected[:1]


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl", "metadata.parquet"])
def test_a_folder_of_images_is_read_with_its_metadata_and_images_are_copied_when_asked(tmp_path, name):
    photos = tmp_path / "photos"
    (photos / "sub").mkdir(parents=True)
    draw_image(photos / "a.png", 0)
    draw_image(photos / "sub" / "b.png", 1)
    contents = [path.read_bytes() for path in (photos / "a.png", photos / "sub" / "b.png")]
    write_rows(photos, name)
    assert [each.image for each in read_captions(photos)] == [str(photos / "a.png"), str(photos / "sub" / "b.png")]
    copied = read_captions(photos, images=tmp_path / "images")
    assert [Path(each.image).read_bytes() for each in copied] == contents
    assert {path.name for path in (tmp_path / "images").iterdir()} == {each.image.split("/")[-1] for each in copied}
    (photos / "a.png").unlink()
    with pytest.raises(DataError, match=r"a\.png cannot be read"):
        read_captions(photos, images=tmp_path / "images")


def test_columns_are_guessed_mapped_and_missed_by_name(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"name": "a cat", "key": 7, "url": "https://x.org/1.jpg"}\n')
    with pytest.raises(DataError, match=r"name, key, url.*--column caption=name"):
        read_captions(path)
    columns = {"caption": "name", "id": "key", "image": "url"}
    assert read_captions(path, columns=columns) == [Captioned("7", "https://x.org/1.jpg", "a cat")]
    with pytest.raises(DataError, match="no column 'label'; it has name"):
        read_captions(path, columns={"caption": "label"})
    with pytest.raises(UnknownNameError, match="'text'; known: caption, image, id"):
        read_captions(path, columns={"text": "name"})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"caption": ""}', "row 0 has '' in 'caption', where a caption belongs"),
        ('{"caption": 3}', "row 0 has 3 in"),
        ('{"caption": "a", "id": 1}\n{"caption": "b", "id": 1}', "id comes more than once in 1 "),
        ("[1]", "row 0 is .*; expected an object"),
        ("", "has no row"),
        ("{", "cannot be read"),
    ],
)
def test_rows_without_a_caption_are_named(tmp_path, content, why):
    (tmp_path / "c.jsonl").write_text(content)
    with pytest.raises(DataError, match=why):
        read_captions(tmp_path / "c.jsonl")


def test_several_captions_of_a_row_count_by_themselves_and_what_is_nowhere_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "c.json").write_text('{"7": {"captions": ["a", "b"], "image": "x.png"}}')
    assert [(each.id, each.caption) for each in read_captions(tmp_path / "c.json")] == [("7#0", "a"), ("7#1", "b")]
    with pytest.raises(DataError, match="there is no benchmark, file or folder"):
        read_captions(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"has no metadata\.csv"):
        read_captions(tmp_path / "empty")
    (tmp_path / "c.txt").write_text("a")
    with pytest.raises(DataError, match=r"ends in '\.txt'"):
        read_captions(tmp_path / "c.txt")
    with pytest.raises(DataError, match="OWNER/NAME"):
        read_captions("hf://datasets/name")


def test_of_a_benchmark_the_true_captions_are_taken_once_each(tmp_path, coco):
    from vl_assay.hub_datasets import build

    folder = coco(rows=6, images=3)
    built = build("sugarcrepe", tmp_path / "built", configs=["swap_obj"], data_dir=folder, options={"verify": False})
    rows = json.loads((folder / "data" / "swap_obj.json").read_text())
    found = read_captions(built)
    assert [each.caption for each in found] == [row["caption"] for row in rows.values()]
    assert {each.image for each in found} == {row["filename"] for row in rows.values()}
    with_images = read_captions(built, limit=2, images=tmp_path / "images")
    assert [each.caption for each in with_images] == [each.caption for each in found[:2]]
    assert all(Path(each.image).read_bytes()[:2] == b"\xff\xd8" for each in with_images)


def test_a_dataset_on_the_hub_is_read_as_a_stream_with_its_images_only_when_asked(tmp_path, monkeypatch):
    import datasets
    from PIL import Image

    for name in ("a", "b"):
        Image.new("RGB", (4, 4), "red" if name == "a" else "blue").save(tmp_path / f"{name}.png")
    features = datasets.Features({"text": datasets.Value("string"), "image": datasets.Image()})
    rows = {"text": ["a red square", "a blue square"], "image": [str(tmp_path / "a.png"), str(tmp_path / "b.png")]}
    table = datasets.Dataset.from_dict(rows, features=features)
    asked = []

    def load_dataset(name, config, *, split, streaming):
        asked.append((name, config, split, streaming))
        streams = datasets.IterableDatasetDict({"train": table.to_iterable_dataset()})
        return streams if split is None else streams[split]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    plain = [Captioned("0", "", "a red square"), Captioned("1", "", "a blue square")]
    assert read_captions("hf://datasets/owner/name/config", split="train") == plain
    assert read_captions("hf://datasets/owner/name", limit=1) == plain[:1]
    assert asked == [("owner/name", "config", "train", True), ("owner/name", None, None, True)]
    copied = read_captions("hf://datasets/owner/name", images=tmp_path / "images")
    assert [Image.open(each.image).getpixel((0, 0)) for each in copied] == [(255, 0, 0), (0, 0, 255)]


def test_a_file_that_is_no_image_is_not_copied(tmp_path):
    (tmp_path / "secret.txt").write_text("password")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "metadata.csv").write_text("file_name,caption\n../secret.txt,a cat\n")
    with pytest.raises(DataError, match=r"secret\.txt is no image that can be read"):
        read_captions(tmp_path / "photos", images=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
