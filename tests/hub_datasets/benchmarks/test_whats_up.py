"""What'sUp: records as objects and as lists, names of images, the exchanged photographs."""

from __future__ import annotations

import json

import pytest
import sources_whats_up

from vl_assay.hub_datasets.core.benchmarks import get_builder


@pytest.fixture
def rows(tmp_path):
    options = sources_whats_up.make(tmp_path)

    def build(config):
        builder = get_builder("whats_up")(
            cache_dir=str(tmp_path / "cache"), config_name=config, data_dir=str(tmp_path), **options
        )
        builder.download_and_prepare()
        return builder.as_dataset(split="test").remove_columns("image").to_list()

    build.folder = tmp_path
    return build


def test_the_released_first_option_is_the_caption_and_the_name_tells_the_relation(rows):
    [left, right, *_] = found = rows("controlled_a")
    assert [row["category"] for row in found] == ["left_of", "right_of", "on", "under"]
    assert {row["objects"] for row in found} == {"pillow, chair"}
    assert left["caption"] == "A pillow left of a chair"
    assert left["negative_captions"] == ["A pillow right of a chair", "A pillow on a chair", "A pillow under a chair"]
    assert (left["defect"], right["defect"]) == ("images exchanged",) * 2
    assert [row["defect"] for row in found[2:]] == [None, None]


@pytest.mark.parametrize(("config", "name"), [("coco_two", "000000000007.jpg"), ("vg_two", "7.jpg")])
def test_a_list_names_its_image_by_a_number(rows, config, name):
    first = rows(config)[0]
    assert (first["filename"], first["category"], first["objects"]) == (name, "left", None)
    assert first["negative_captions"] == ["A photo of a cat to the right of a dog"]


@pytest.mark.parametrize("record", [[1.5, "a", "b"], [None, "a", "b"], [1, "a"], ["../1", "a", "b"]])
def test_a_record_of_another_form_is_refused_by_its_row(rows, record):
    (rows.folder / "vg_qa_one_obj.json").write_text(json.dumps([record]), encoding="utf-8")
    with pytest.raises(Exception, match="row 0") as caught:
        rows("vg_one")
    assert "vg_qa_one_obj.json" in f"{caught.value} {caught.value.__cause__}"
