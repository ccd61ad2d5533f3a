"""Winoground (Thrush et al., CVPR 2022) as a `datasets` builder, from its gated repository on the Hub.

A row is a group of two images and two captions of the same words, each caption true of its own image only, with the
authors' tags and those of Diwan et al. (EMNLP 2022). Text and images are exactly as released. Nothing of Winoground
comes with this module: it is read with the user's own access, or from the user's own copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import datasets

from ..core.columns import GROUP, columns
from ..core.downloads import DownloadError
from ..core.source_files import (
    ImagePaths,
    Row,
    SourceBuilder,
    SourceFile,
    VerifiedConfig,
    check_rows,
    parse_json,
    shortened_list,
)
from .release import ARCHIVE, EXAMPLES, PAGE, PARQUET, REPOSITORY, find_release, read_images, read_rows

TAGS = (
    "Ambiguously Correct",
    "Complex Reasoning",
    "Non Minimal",
    "Unusual Image",
    "Unusual Text",
    "Visually Difficult",
)

# The revision that MTEB pins.
_REVISION = "5a77092c28e51558c5586e9c5eb71a7e17a5e43f"
_TAGS_COMMIT = "2b1611c419ba3b9d0029dd4b64a315f3ef778c4e"
TAGS_FILE = SourceFile(
    "new_tag_assignments.json",
    url=f"https://raw.githubusercontent.com/ajd12342/why-winoground-hard/{_TAGS_COMMIT}/new_tag_assignments.json",
    checksum="sha256:8a635dac806bb63484dbe9b0763ee3df6525a2ffbbab6b9c0a77a0fc3c41fc86",
)
_OWN_COPY = f"pass data_dir, a folder that holds {PARQUET}, or {EXAMPLES} with {ARCHIVE} or data/images/"


@dataclass
class WinogroundConfig(VerifiedConfig):
    """What the rows hold.

    With `with_tags`, they have a column `tags`, by Diwan et al. `verify` also requires the 400 examples of the release
    with the numbers and collapsed tags that it has. `revision` is that of the repository on the Hub, a commit or a
    branch.
    """

    with_tags: bool = True
    revision: str = _REVISION


class Winoground(SourceBuilder):
    """One configuration, `winoground`, one split `test`; the card has the columns and the layout of `data_dir`.

    Without access on the Hub a PermissionError is raised.
    """

    config: WinogroundConfig
    BUILDER_CONFIG_CLASS = WinogroundConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        WinogroundConfig(name="winoground", version=datasets.Version("1.0.0"), description="Winoground")
    ]
    GET_SOURCES = "Leave it out to read from the Hub"
    IS_DOWNLOADED = True

    def _columns(self) -> dict[str, Any]:
        tags = "tags" if self.config.with_tags else ""
        return columns(f"id category {GROUP} tag secondary_tag num_main_preds {tags}")

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        config, folder = self.config, self._folder
        tags = self._tags(dl_manager, folder) if config.with_tags else None
        release = find_release(folder) if folder is not None else None
        self.release = release or _download(config.revision, getattr(dl_manager.download_config, "token", None))
        rows = read_rows(self.release, verify=config.verify)
        if tags is not None:
            untagged = [number for number in rows if number not in tags]
            if untagged:
                shown = shortened_list(untagged)
                raise ValueError(f"{TAGS_FILE.name} lacks {len(untagged)} of {len(rows)} examples, such as {shown}.")
            rows = {number: {**row, "tags": tags[number]} for number, row in rows.items()}
        return [{"id": f"{config.name}/{number}", **row} for number, row in rows.items()]

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        if not self.config.allow_missing:
            found: ImagePaths = {}
            for row, files in zip(rows, read_images(self.release, rows), strict=True):
                found |= {row[f"filename_{s}"]: "" if files[int(s)] else None for s in "01"}
            release = self.release
            where = release.images or release.examples or release.tables[0].parent
            remedy = f"Get them from {PAGE}, into images/ or images.zip next to examples.jsonl"
            self._require_images(rows, found, where, remedy)
        return {}

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        [split] = super()._split_generators(dl_manager)
        # In a dict, which `datasets` does not deal out to several processes: the images are read in the same order.
        rows = {row["id"]: row for row in split.gen_kwargs["rows"]}
        release = self.release if self.config.with_images else None
        return [datasets.SplitGenerator(name=self.SPLIT, gen_kwargs={"rows": rows, "release": release})]

    def _generate_examples(self, rows: dict[str, Row], release: Any) -> Iterator[tuple[str, Row]]:
        files = read_images(release, list(rows.values())) if release is not None else None
        for key, row in rows.items():
            example = dict(row)
            for side, content in zip("01", next(files), strict=True) if files is not None else ():
                image = {"path": row[f"filename_{side}"], "bytes": content}
                example[f"image_{side}"] = image if content else None
            yield key, example

    def _tags(self, dl_manager: Any, folder: Path | None) -> dict[str, list[str]]:
        """The tags of each example by its number."""
        payload, origin = TAGS_FILE.read(folder, dl_manager, verify=self.config.verify)
        tags = parse_json(payload, origin, dict)
        check_rows([("the file", tags)], {number: [str] for number in tags}, origin, _unknown_tag)
        return tags


def _unknown_tag(tags: dict[str, list[str]]) -> str | None:
    unknown = [tag for each in tags.values() for tag in each if tag not in TAGS]
    return f"found the tag {unknown[0]!r}; known: {', '.join(TAGS)}" if unknown else None


def _download(revision: str, token: str | bool | None) -> Any:
    """The files on the Hub, from the user's cache if they are there; it keeps what has arrived."""
    import huggingface_hub
    from huggingface_hub.utils import GatedRepoError, RepositoryNotFoundError

    try:
        for patterns in ([PARQUET], [EXAMPLES, ARCHIVE]):
            folder = huggingface_hub.snapshot_download(
                REPOSITORY, repo_type="dataset", revision=revision, allow_patterns=patterns, token=token
            )
            release = find_release(Path(folder))
            if release is not None:
                return release
    except (GatedRepoError, RepositoryNotFoundError) as error:  # The Hub hides what one may not see.
        raise PermissionError(
            f"The Hub gives no access to {REPOSITORY}. Log in at {PAGE} and accept its terms, then run `hf auth login` "
            f"with a token of that account (or set HF_TOKEN), and try again; or {_OWN_COPY}."
        ) from error
    except Exception as error:  # The HTTP libraries below raise errors without a common base class.
        raise DownloadError(f"{PAGE} at revision {revision}", error, _OWN_COPY) from error
    raise ConnectionError(
        f"{REPOSITORY} at revision {revision} has neither {PARQUET} nor {EXAMPLES}, or they have not arrived. Try "
        f"again, pass another revision, or {_OWN_COPY}."
    )
