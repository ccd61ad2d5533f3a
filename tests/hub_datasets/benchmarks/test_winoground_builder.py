"""The Winoground builder: what a row holds, how it gets at gated files, and how it names what is wrong."""

import json
import shutil

import pytest
import sources_winoground as sources
from builder_support import Small
from hub_server import serving_hub

from vl_assay.metrics.common.errors import DataError

TAGS_FILE = "new_tag_assignments.json"


@pytest.fixture
def small(tmp_path):
    return Small("winoground", tmp_path)


def test_a_copy_with_only_the_tags_is_completed_from_the_hub_at_the_pinned_revision(small, tmp_path, monkeypatch):
    shutil.rmtree(small.folder / "data")
    sources.write_parquet(tmp_path / "hub" / "facebook" / "winoground" / "data")
    with serving_hub(tmp_path / "hub", monkeypatch) as hub:
        rows = small.rows()
    images = sources.images()
    for number, row in enumerate(rows):
        names = {side: f"ex_{number}_img_{side}.png" for side in "01"}
        assert all(row[f"image_{side}"] == {"path": name, "bytes": images[name]} for side, name in names.items())
    assert [row["tags"] for row in rows] == [pair[3] for pair in sources.PAIRS]
    assert hub.revisions == ["5a77092c28e51558c5586e9c5eb71a7e17a5e43f"]


def test_verify_asks_for_all_examples_and_known_categories(small):
    small.error(DataError, r"SHA-256 .*8a635dac.*verify=False", verify=True)
    small.error(DataError, r"5 rows, but the release has 400.*verify=False", verify=True, with_tags=False)
    lines = sources.examples()
    lines[2]["collapsed_tag"] = "Neither"
    (small.folder / "data" / "examples.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = "row 2: collapsed_tag is 'Neither', not one of Object, Relation, Both"
    small.error(DataError, found, verify=True, with_tags=False)


def test_the_released_tags_join_all_examples_of_a_whole_release(small, shared_data, tmp_path):
    released_tags = json.loads((shared_data / "data" / "winoground" / TAGS_FILE).read_text("utf-8"))
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copyfile(shared_data / "data" / "winoground" / TAGS_FILE, copy / TAGS_FILE)
    [pattern] = sources.examples()[:1]
    lines = [json.dumps({**pattern, "id": number}) for number in range(400)]
    (copy / "examples.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = small.build(data_dir=copy, with_images=False, verify=True)
    assert rows["tags"][:] == [released_tags[str(number)] for number in range(400)]
    assert sum(map(bool, rows["tags"][:])) == 228
