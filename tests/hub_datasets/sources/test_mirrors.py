"""Mirrors on the Hub: datasets without names of images that give the rows of the release."""

import json
import shutil
from pathlib import Path

import pytest
import sources_aro
from builder_support import Small
from hub_server import serving_hub
from parquet_sources import write_parquet

from vl_assay.hub_datasets.aro.release import FILES, MIRRORS
from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.retrieval.karpathy import SOURCES
from vl_assay.hub_datasets.sources.downloads import DownloadError
from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def hub(tmp_path, monkeypatch):
    (tmp_path / "hub").mkdir()
    with serving_hub(tmp_path / "hub", monkeypatch) as hub:
        yield hub


def test_photographs_of_flickr30k_are_found_by_their_cleaned_captions(tmp_path, hub):
    small, source = Small("aro", tmp_path, "flickr30k_order"), SOURCES["flickr30k"]
    expected = small.rows()
    entries = json.loads((small.folder / source.file.name).read_text())
    rows = [
        {"images": (small.folder / entry["image"]).read_bytes(), "correct_caption": cleaned(caption)}
        for entry in entries
        for caption in entry["caption"]
    ]
    write_parquet(hub.folder / source.mirror.repository / "data", "test", rows[::-1], ["images"], shards=2)
    shutil.rmtree(small.folder / Path(entries[0]["image"]).parent)
    assert small.rows() == expected
    assert hub.revisions == [source.mirror.revision]
    entries[1]["caption"] = ["words that the mirror lacks"]
    (small.folder / source.file.name).write_text(json.dumps(entries))
    small.error(MissingSourceError, rf"1 of 4 images .*{Path(entries[1]['image']).name}")


def cleaned(caption):
    """As the code of retrieval cleans captions, before it cuts them."""
    return " ".join(caption.lower().replace(".", " ").split())


# ARO's relations and attributes: rows and photographs


@pytest.fixture
def aro(tmp_path, hub):
    """ARO's small release, and mirrors of it, whose rows have other numbers and whose images no names."""
    small = Small("aro", tmp_path)
    for config, table in MIRRORS.items():
        rows = [
            {
                "image": (small.folder / "images" / row["image_path"]).read_bytes(),
                "bbox": {side: float(row[f"bbox_{side}"]) for side in "xywh"},
                **{
                    key: row[key]
                    for key in ("true_caption", "false_caption", "relation_name", "attributes")
                    if key in row
                },
            }
            for row in json.loads((small.folder / FILES[config]).read_text())
        ]
        write_parquet(hub.folder / table.repository / "data", "test", rows, ["image"], shards=3)
    return small


def clusters(rows):
    """Of each row the number of its photograph, in the order in which they come."""
    seen = {}
    return [seen.setdefault(row["filename"], len(seen)) for row in rows]


@pytest.mark.parametrize(("config", "crop"), [("vg_relation", True), ("vg_attribution", False)])
def test_a_mirror_of_aro_gives_the_rows_crops_and_clusters_of_the_release(config, crop, aro):
    expected, found = aro.rows(config, crop=crop), aro.rows(config, crop=crop, data_dir=None)
    assert [row["image"]["bytes"] for row in found] == [row["image"]["bytes"] for row in expected]
    assert clusters(found) == clusters(expected)
    assert len(set(clusters(found))) == sources_aro.IMAGES
    other = ("image", "filename")
    assert [{k: v for k, v in row.items() if k not in other} for row in found] == [
        {k: v for k, v in row.items() if k not in other} for row in expected
    ]


def test_a_mirror_of_aro_of_another_form_or_number_of_rows_is_named(aro, hub):
    message = r"ARO-Visual-Relation.* has 12 rows, but the release has 23,937"
    aro.error(DataError, message, data_dir=None, verify=True)
    hub.down = {path.name: [404] for path in (hub.folder / "mteb" / "ARO-Visual-Attribution" / "data").iterdir()}
    aro.error(DownloadError, r"ARO-Visual-Attribution .*pass data_dir", "vg_attribution", data_dir=None)
