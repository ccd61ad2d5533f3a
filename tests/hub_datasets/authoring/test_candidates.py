"""The candidates' file, and the captions that candidates are made of."""

import json
from pathlib import Path

import pytest
from audit_support import write_table
from review_support import draw_image

from vl_assay.hub_datasets.authoring.data.candidates import Candidate, read_candidates
from vl_assay.hub_datasets.authoring.data.sources import Captioned, read_captions
from vl_assay.hub_datasets.authoring.data.tables import write_rows
from vl_assay.metrics.common.errors import DataError

ONE = Candidate(
    "1/swap_obj", "images/1.jpg", "a cat on a dog", "a dog on a cat", "swap_obj", False, "m", {"first": "cat"}
)
TWO = Candidate("1/positive_swap", "", "a\u2028b and c", "c and a\u2028b", "positive_swap", True, "rules", {})


def test_candidates_are_read_as_they_were_written(tmp_path):
    write_rows([ONE, TWO], tmp_path / "candidates.jsonl")
    assert read_candidates(tmp_path) == read_candidates(tmp_path / "candidates.jsonl") == [ONE, TWO]
    line = json.loads((tmp_path / "candidates.jsonl").read_text().split("\n")[0])
    assert line == ONE._asdict()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2: it is not JSON"),
        ("[]", "row 1 is .* expected an object"),
        (json.dumps(ONE._asdict() | {"is_positive": 0}), "row 1 has 0 in 'is_positive'; expected a bool"),
        (json.dumps({k: v for k, v in ONE._asdict().items() if k != "kind"}), "row 1 has None in 'kind'"),
        (json.dumps(TWO._asdict()), "id comes more than once in 1/positive_swap"),
    ],
)
def test_a_line_that_is_no_candidate_is_named(tmp_path, line, why):
    write_rows([TWO], tmp_path / "c.jsonl")
    with (tmp_path / "c.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError, match=why):
        read_candidates(tmp_path / "c.jsonl")
    with pytest.raises(DataError, match="vl-assay generate"):
        read_candidates(tmp_path / "missing")


def test_a_folder_of_images_is_read_with_its_metadata_and_images_are_copied_when_asked(tmp_path):
    photos = tmp_path / "photos"
    (photos / "sub").mkdir(parents=True)
    draw_image(photos / "a.png", 0)
    draw_image(photos / "sub" / "b.png", 1)
    contents = [path.read_bytes() for path in (photos / "a.png", photos / "sub" / "b.png")]
    write_table(photos / "metadata.csv", [{"file_name": name, "caption": "a"} for name in ("a.png", "sub/b.png")])
    assert [each.image for each in read_captions(photos)] == [str(photos / "a.png"), str(photos / "sub" / "b.png")]
    copied = read_captions(photos, images=tmp_path / "images")
    assert [Path(each.image).read_bytes() for each in copied] == contents
    assert {path.name for path in (tmp_path / "images").iterdir()} == {each.image.split("/")[-1] for each in copied}
    (photos / "a.png").unlink()
    with pytest.raises(DataError, match=r"a\.png cannot be read"):
        read_captions(photos, images=tmp_path / "images")


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
    with pytest.raises(DataError, match=r"secret\.txt is not a readable image"):
        read_captions(tmp_path / "photos", images=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
