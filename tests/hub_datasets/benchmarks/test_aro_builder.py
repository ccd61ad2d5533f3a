"""The ARO builder: relations and attributes, their crops, what is asked of the user's files, and that its card is true.

The order configurations are tested in `test_shuffled_captions`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import sources_aro
from builder_support import Small, paper_text

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.aro import release
from vl_assay.metrics.common.errors import DataError
from vl_assay.model_wrappers import predict

RELATION_FILE, ATTRIBUTION_FILE = "visual_genome_relation.json", "visual_genome_attribution.json"


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small("aro", tmp_path)


def released_rows(folder: Path, name: str = RELATION_FILE) -> list[dict[str, Any]]:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def rewrite(folder: Path, name: str = RELATION_FILE, **fields: Any) -> None:
    """Change fields of the first row."""
    rows = released_rows(folder, name)
    sources_aro.write(folder / name, [rows[0] | fields, *rows[1:]])


@pytest.mark.parametrize(
    ("config", "number", "expected"),
    [
        (
            "vg_relation",
            5,
            {  # row 5 of sources_aro: image 5 % 5, relation 5 % 4, left 5 % 7, top 5 % 3
                "category": "eating",
                "filename": "2315000.jpg",
                "caption": "the horse is eating the grass",
                "negative_caption": "the grass is eating the horse",
                "relation": "eating",
                "bbox": [5.0, 2.0, 45.0, 32.0],
            },
        ),
        (
            "vg_attribution",
            27,
            {  # row 27 of sources_aro: image 27 % 5, left 27 % 7, top 27 % 3
                "category": "open & white",
                "filename": "2315002.jpg",
                "caption": "the open cat and the white door",
                "negative_caption": "the white cat and the open door",
                "attributes": ["open", "white"],
                "bbox": [6.0, 0.0, 44.0, 30.0],
            },
        ),
    ],
)
def test_a_row_holds_what_the_file_holds(small, config, number, expected):
    assert small.rows(config, with_images=False)[number] == {"id": f"{config}/{number}", **expected}


@pytest.mark.parametrize("attributes", ["small & brown", ["small"], ["small", ""]])
def test_attributes_are_a_list_of_two_texts(small, attributes):
    rewrite(small.folder, ATTRIBUTION_FILE, attributes=attributes)
    small.error(DataError, r"row 0: attributes is .*Expected", "vg_attribution")


def run(small: Small, model: str, out: Path, **options: Any) -> list[Path]:
    return predict(model, ["aro"], data_dir=small.folder, options=small.options | options, out=out, progress=False)


def test_both_parts_are_judged_with_the_papers_averages(small, tmp_path):
    relation, attribution = report(run(small, "mock:shuffled", tmp_path), resamples=100)
    assert [result.metric for result in (relation, attribution)] == ["aro_itm", "aro_itm"]
    # 12 rows, 3 each of on, eating, to the left of and next to; the last is symmetric.
    assert (relation.scores["n"], relation.scores["n_symmetric"]) == (9, 3)
    assert {name: part["n"] for name, part in relation.scores["per_group"].items()} == {"spatial": 6, "verb": 3}
    assert (attribution.scores["n"], attribution.scores["rare"]) == (30, {"open & white": 4})
    assert attribution.scores["macro_accuracy"] == attribution.scores["per_category"]["small & brown"]["accuracy"]


def test_the_released_rows_are_counted_as_in_the_paper(shared_data):
    paper = re.sub(r"(\d), (\d{3})", r"\1,\2", " ".join(paper_text(shared_data, "004").split()))
    sizes = re.search(
        r"with \d+ relations .*?with ([\d,]+) test cases in total; and \d+ unique .*?([\d,]+) test", paper
    )
    assert [f"{rows:,}" for rows in release.ROWS.values()] == list(sizes.groups())
