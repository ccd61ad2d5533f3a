"""Winoground (Thrush et al., CVPR 2022) as a `datasets` builder, from its gated repository on the Hub.

A row is a group of two images and two captions of the same words, each caption true of only one image, with the tags of
the authors and of Diwan et al. (EMNLP 2022). Text and images are exactly as released. This package contains no data of
Winoground: they are read with the user's access rights, or from the user's copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ...metrics.common.errors import DataError
from ..sources.builders import HubConfig, Images, ReleasedRows, Rows, make_configs
from ..sources.columns import GROUP, columns
from ..sources.hub_tables import HubTable
from ..sources.records import Row, check_rows, parse_records, shortened_list, with_remedy
from ..sources.source_files import SourceFile, is_file_name

TAGS = (
    "Ambiguously Correct",
    "Complex Reasoning",
    "Non Minimal",
    "Unusual Image",
    "Unusual Text",
    "Visually Difficult",
)
CATEGORIES = ("Object", "Relation", "Both")
ROWS = 400

# The revision that MTEB pins.
_REVISION = "5a77092c28e51558c5586e9c5eb71a7e17a5e43f"
_TAGS_COMMIT = "2b1611c419ba3b9d0029dd4b64a315f3ef778c4e"
TAGS_FILE = SourceFile(
    "new_tag_assignments.json",
    url=f"https://raw.githubusercontent.com/ajd12342/why-winoground-hard/{_TAGS_COMMIT}/new_tag_assignments.json",
    checksum="sha256:8a635dac806bb63484dbe9b0763ee3df6525a2ffbbab6b9c0a77a0fc3c41fc86",
)
TABLE = HubTable(
    "facebook/winoground",
    "data/test-*.parquet",
    {f"image_{side}": f"ex_{{id}}_img_{side}.png" for side in "01"},
    _REVISION,
)
# The older layout, of the user's own copy: texts, in which images are named without a suffix.
_EXAMPLES = SourceFile("data/examples.jsonl", ("examples.jsonl",), remedy=TABLE.remedy)
_TEXTS = ("caption_0", "caption_1", "tag", "secondary_tag")
_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("id", "num_main_preds"), int),
    **dict.fromkeys((*_TEXTS, "collapsed_tag", "image_0", "image_1"), str),
}


@dataclass
class WinogroundConfig(HubConfig):
    """Options of Winoground.

    With `with_tags`, rows have a column `tags`, by Diwan et al. `verify` also requires the release's 400 examples,
    with its numbers and collapsed tags. `revision` is a commit or a branch of the repository on the Hub.
    """

    revision: str = _REVISION
    with_tags: bool = True


class Winoground(ReleasedRows):
    """One configuration, `winoground`, one split `test`; the card has the columns and the layout of `data_dir`.

    Without access on the Hub a `MissingSourceError` is raised.
    """

    config: WinogroundConfig
    BUILDER_CONFIG_CLASS = WinogroundConfig
    BUILDER_CONFIGS: ClassVar = make_configs(WinogroundConfig, "Winoground", ["winoground"])
    GET_SOURCES = "Leave it out to read from the Hub"
    IS_DOWNLOADED = True
    ROWS: ClassVar = {"winoground": Rows(_EXAMPLES, _SCHEMA, ROWS, table=TABLE)}
    # An archive that was unpacked as a whole has its own folder inside.
    IMAGES = Images(
        ("data/images", "data/images/images", "images", "images/images"),
        f"Get them from {TABLE.page}, and unpack images.zip into images/ next to examples.jsonl",
    )

    def _columns(self) -> dict[str, Any]:
        tags = "tags" if self.config.with_tags else ""
        return columns(f"id category {GROUP} tag secondary_tag num_main_preds {tags}")

    def _problem(self, record: Row) -> str | None:
        lost = [side for side in "01" if not is_file_name(record[f"image_{side}"])]
        if lost:
            return f"image_{lost[0]} {record[f'image_{lost[0]}']!r} names no file"
        if self.config.verify and record["collapsed_tag"] not in CATEGORIES:
            return f"collapsed_tag is {record['collapsed_tag']!r}, not one of {', '.join(CATEGORIES)}"
        if self.config.verify and record["id"] >= ROWS:
            return f"id is {record['id']}, not below {ROWS}"
        wrong = [name for name in ("id", "num_main_preds") if record[name] < 0]
        wrong += [name for name in ("caption_0", "caption_1", "collapsed_tag") if not record[name]]
        return f"{wrong[0]} is empty or negative" if wrong else None

    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        names = {f"filename_{side}": f"{record[f'image_{side}'].removesuffix('.png')}.png" for side in "01"}
        kept = {name: record[name] for name in (*_TEXTS, "num_main_preds")}
        yield {"id": f"{part}/{record['id']}", "category": record["collapsed_tag"], **names, **kept}

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        tags = self._read_tags(dl_manager) if self.config.with_tags else None
        rows = super()._read_rows(dl_manager)
        if tags is None:
            return rows
        numbers = [row["id"].rpartition("/")[2] for row in rows]
        if untagged := [number for number in numbers if number not in tags]:
            shown = shortened_list(untagged)
            lacks = f"lacks {len(untagged)} of {len(rows)} examples, such as {shown}"
            raise DataError(f"{TAGS_FILE.name} {lacks}. {TAGS_FILE.remedy}.")
        return [row | {"tags": tags[number]} for row, number in zip(rows, numbers, strict=True)]

    def _read_tags(self, dl_manager: Any) -> dict[str, list[str]]:
        """Return the tags of each example by its number."""
        payload, origin = TAGS_FILE.read(self._folder, dl_manager, verify=self.config.verify)
        with with_remedy(TAGS_FILE.remedy):
            records = parse_records(payload, origin)
            tagged = ((label, {"tags": tags}) for label, _, tags in records)
            rows = check_rows(tagged, {"tags": [str]}, origin, _unknown_tag)
        return {key: row["tags"] for (_, key, _), row in zip(records, rows, strict=True)}


def _unknown_tag(row: Row) -> str | None:
    unknown = [tag for tag in row["tags"] if tag not in TAGS]
    return f"found the tag {unknown[0]!r}; known: {', '.join(TAGS)}" if unknown else None
