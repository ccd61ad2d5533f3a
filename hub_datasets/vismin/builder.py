"""VisMin (Awal et al., NeurIPS 2024) as a `datasets` builder: the Hub's Parquet files with the authors' solutions.

A row is a group of two images that differ in one thing, and two captions, each true of only one image. In about half of
the released rows the captions are in the other order; a file of solutions lists these rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ...metrics.common.errors import DataError
from ..sources.builders import HubConfig, ReleasedRows, Rows, make_configs
from ..sources.columns import GROUP
from ..sources.hub_tables import HubTable
from ..sources.records import Row, check_row_count
from ..sources.source_files import SourceFile

ROWS = 2_084
# The Hub's own conversion of the three Arrow files: row by row the same. The release has no names of images.
TABLE = HubTable(
    "mair-lab/vismin-bench",
    "default/test/*.parquet",
    {"image_0": "{row:04}_0.png", "image_1": "{row:04}_1.png"},
    revision="refs/convert/parquet",
)
_SCHEMA: dict[str, Any] = {"id": int} | dict.fromkeys(("image_0", "text_0", "image_1", "text_1", "category"), str)
_URL = (
    "https://raw.githubusercontent.com/rabiulcste/vismin/4fdeb0fdf9d1dfdeb5f0e3ae5df222be393ae36b/vismin-bench/"
    "solutions/sim_solution.csv"
)
SOLUTIONS = SourceFile(
    "sim_solution.csv",
    ("solutions/sim_solution.csv", "vismin-bench/solutions/sim_solution.csv"),
    url=_URL,
)
_SOLUTION: dict[str, Any] = dict.fromkeys(("idx", "Text", "Image", "category"), str)
# The inequalities between scores if text i is true of image i, and if the texts are exchanged.
RELATIONS = {
    ("T0_I0 > T1_I0 & T1_I1 > T0_I1", "T0_I0 > T0_I1 & T1_I1 > T1_I0"): "released",
    ("T1_I0 > T0_I0 & T0_I1 > T1_I1", "T0_I1 > T0_I0 & T1_I0 > T1_I1"): "exchanged",
}


class VisMin(ReleasedRows):
    """One configuration, `vismin`, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(HubConfig, "VisMin", ["vismin"])
    BUILDER_CONFIG_CLASS = HubConfig
    IS_DOWNLOADED = True
    ROWS: ClassVar = {"vismin": Rows(TABLE, _SCHEMA, ROWS)}
    COLUMNS = f"id category {GROUP} order"

    def _problem(self, record: Row) -> str | None:
        empty = [name for name in ("text_0", "text_1", "category") if not record[name].strip()]
        return f"{empty[0]} is empty" if empty else None

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        yield {"key": key, "number": str(record["id"]), "id": f"{part}/{record['category']}/{key}"} | {
            "category": record["category"],
            "filename_0": record["image_0"],
            "caption_0": record["text_0"],
            "filename_1": record["image_1"],
            "caption_1": record["text_1"],
        }

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        rows = super()._read_rows(dl_manager)
        solutions, origin = SOLUTIONS.rows(
            self._folder, _SOLUTION, dl_manager, verify=self._verifies, problem=_unknown_relations
        )
        # The authors' code pairs the two files by position; without `verify` there may be any number of rows.
        check_row_count(len(solutions), len(rows), origin)
        return [self._solved(row, solution, origin) for row, solution in zip(rows, solutions.values(), strict=True)]

    def _solved(self, row: Row, solution: Row, origin: str) -> Row:
        """Return the row with the captions in the order of their images."""
        key, number = row.pop("key"), row.pop("number")
        agrees = solution["category"] == row["category"]
        if not agrees or (self._verifies and number not in (solution["idx"], key)):
            raise DataError(
                f"{origin}, row {key}: {solution['category']} {solution['idx']}, but that row of the dataset is "
                f"{row['category']} {number}: the two files are not of one release, and nobody knows which caption "
                f"belongs to which image. {SOLUTIONS.remedy}"
                + ("; or pass verify=False to compare the categories alone." if agrees else ".")
            )
        order = RELATIONS[solution["Text"], solution["Image"]]
        if order == "exchanged":
            row["caption_0"], row["caption_1"] = row["caption_1"], row["caption_0"]
        return row | {"order": order}


def _unknown_relations(record: Row) -> str | None:
    pair = record["Text"], record["Image"]
    return None if pair in RELATIONS else f"Text and Image are {pair}, not of the known forms {list(RELATIONS)}"
