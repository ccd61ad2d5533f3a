"""MMVP-VLM (Tong et al., CVPR 2024) as a `datasets` builder.

A row is a pair of images that CLIP confuses, each with a statement that is not true of the other. Images 2k - 1 and 2k
of the release are a pair. A caption is the authors' prefix followed by the statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ...metrics.common.errors import DataError
from ..sources.builders import Images, ReleasedRows, Rows, VerifiedConfig, make_configs
from ..sources.columns import GROUP
from ..sources.hub_tables import HubFiles
from ..sources.records import Row
from ..sources.source_files import SourceFile, is_file_name

_REVISION = "211372d5357398f914d806d07dc305aea1f257d2"
_GET = (
    f"Get it with `hf download MMVP/MMVP_VLM --repo-type dataset --revision {_REVISION} --local-dir MY_COPY` "
    "(https://huggingface.co/datasets/MMVP/MMVP_VLM)"
)
_SCHEMA = {"Question ID": str, "Type": str, "Statement": str}


@dataclass
class MMVPConfig(VerifiedConfig):
    """`prefix` precedes each statement in the captions; if it is empty, captions are the statements."""

    prefix: str = "a photo of "


class MMVPVLM(ReleasedRows):
    """One configuration, `pairs`, one split `test`; the card has the columns and the layout of `data_dir`."""

    BUILDER_CONFIGS: ClassVar = make_configs(MMVPConfig, "MMVP-VLM", ["pairs"])
    BUILDER_CONFIG_CLASS = MMVPConfig
    IS_DOWNLOADED = True
    RELEASE = HubFiles("MMVP/MMVP_VLM", "Questions.csv", "MLLM_VLM Images/*", _REVISION)
    ROWS: ClassVar = {"pairs": Rows(SourceFile("Questions.csv", remedy=_GET), _SCHEMA, 270)}
    IMAGES = Images(("MLLM_VLM Images", "MMVP_VLM_Images"), _GET)
    COLUMNS = f"id category {GROUP} statement_0 statement_1"

    def _problem(self, record: Row) -> str | None:
        number, pattern, statement = record.values()
        if not (number.isascii() and number.isdigit() and int(number)):
            return f"Question ID is {number!r}, not a number from 1"
        if not is_file_name(pattern):
            return f"Type {pattern!r} is not the name of a folder"
        return None if statement.strip() else "Statement is empty"

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        number = int(record["Question ID"])
        yield {
            "id": number,
            "category": record["Type"],
            "filename": f"{record['Type']}/{number}.jpg",
            "statement": record["Statement"],
        }

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        statements = super()._read_rows(dl_manager)
        by_number = {row["id"]: row for row in statements}
        if len(by_number) < len(statements):
            raise DataError("Questions.csv: a Question ID occurs twice. Expected one statement for each image.")
        pairs = dict.fromkeys((number + 1) // 2 for number in by_number)
        return [self._pair(by_number, 2 * pair - 1) for pair in pairs]

    def _pair(self, by_number: dict[int, Row], first: int) -> Row:
        """Return the row of images `first` and `first` + 1."""
        both = [by_number.get(number) for number in (first, first + 1)]
        patterns = [row and row["category"] for row in both]
        if None in patterns or patterns[0] != patterns[1]:
            listed = " and ".join(repr(pattern) for pattern in patterns)
            raise DataError(
                f"Questions.csv: Question ID {first} and {first + 1} have Type {listed} (None where there is no row). "
                "Expected pairs of one Type, as released."
            )
        row: Row = {"id": f"{self.config.name}/{first}-{first + 1}", "category": patterns[0]}
        for side, statement in enumerate(filter(None, both)):
            row[f"filename_{side}"] = statement["filename"]
            row[f"caption_{side}"] = self.config.prefix + statement["statement"]
            row[f"statement_{side}"] = statement["statement"]
        return row
