"""The table of published compositional checkpoints and the document made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vl_assay.metrics.common.documents import simple_table, to_markdown
from vl_assay.model_wrappers.loading.published import find_published, published_checkpoints

ROOT = Path(__file__).parents[3]


def test_the_document_shows_the_table():
    header = ["checkpoint", "code", "licence", "weights", "architecture", "activation", "model", "note"]
    lines = [
        [
            *(row.title, row.repository, row.licence, row.weights, row.architecture, row.activation or "not known"),
            *(f"`{row.how}`" if row.how else "–", row.note),
        ]
        for row in published_checkpoints().values()
    ]
    table = to_markdown([simple_table(header, lines)]).strip()
    assert table in (ROOT / "docs" / "checkpoints.md").read_text("utf-8"), f"docs/checkpoints.md lacks:\n{table}"


def test_rows_have_a_licence_an_address_and_an_activation_where_they_load():
    rows = published_checkpoints()
    assert {"negclip", "ce-clip", "dac", "svlc", "tripletclip", "read-clip", "degla", "clove", "clic"} <= rows.keys()
    for name, row in rows.items():
        assert name == row.name
        assert row.licence
        assert row.weights
        assert bool(row.how) == (row.weights != "none published")
        assert row.activation in ("quick_gelu", "gelu", "as configured", "")
        assert not row.files or row.architecture in ("ViT-B-32", "ViT-B-16", "ViT-L-14")


@pytest.mark.parametrize(
    ("file", "name", "model"),
    [
        ("negclip.pth", "negclip", "ViT-B-32-quickgelu"),
        ("coco_fsc-clip-lora-ViT-B-32.pt", "fsc-clip-b-32", "ViT-B-32-quickgelu"),
        ("dcxl_fsc-clip-lora-ViT-B-32.pt", "fsc-clip-dcxl", "ViT-B-32"),
        ("NegCLIP_CC12M_NegFull_x/checkpoint.pt", "negbench", "ViT-B-32"),
        ("epoch_5/checkpoint.pt", None, None),
    ],
)
def test_a_downloaded_file_is_recognised_by_its_name(file, name, model, tmp_path):
    found = find_published(tmp_path / file)
    assert (found and found.name, found and found.model) == (name, model)
