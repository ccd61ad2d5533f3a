"""Winoground (Thrush et al., CVPR 2022) as a `datasets` builder, from its gated repository on the Hub.

A row is a group of two images and two captions of the same words, each caption true of its own image only, with the
authors' tags and those of Diwan et al. (EMNLP 2022). Text and images are exactly as released. Nothing of Winoground
comes with this module: it is read with the user's own access, or from the user's own copy.

The module imports only the standard library, `datasets` and its sibling, one import a line, so that `datasets` up to
3.6 can run it as a script and any later version can import the class.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import ClassVar

import datasets

from .release import ARCHIVE
from .release import EXAMPLES
from .release import PAGE
from .release import PARQUET
from .release import REPOSITORY
from .release import Release
from .release import describe_missing
from .release import find_release
from .release import read_bytes
from .release import read_images
from .release import read_rows

CONFIG_NAMES = ("winoground",)
TAGS = (
    "Ambiguously Correct",
    "Complex Reasoning",
    "Non Minimal",
    "Unusual Image",
    "Unusual Text",
    "Visually Difficult",
)

_VERSION = "1.0.0"
# The revision that MTEB pins.
_REVISION = "5a77092c28e51558c5586e9c5eb71a7e17a5e43f"
_TAGS_FILE = "new_tag_assignments.json"
_TAGS_COMMIT = "2b1611c419ba3b9d0029dd4b64a315f3ef778c4e"
_TAGS_URL = f"https://raw.githubusercontent.com/ajd12342/why-winoground-hard/{_TAGS_COMMIT}/{_TAGS_FILE}"
_TAGS_CHECKSUM = "8a635dac806bb63484dbe9b0763ee3df6525a2ffbbab6b9c0a77a0fc3c41fc86"
_OWN_COPY = f"pass data_dir, a folder that holds {PARQUET}, or {EXAMPLES} with {ARCHIVE} or data/images/"
_OWN_TAGS = f"pass data_dir, a folder that holds {_TAGS_FILE}, or with_tags=False"


@dataclass
class WinogroundConfig(datasets.BuilderConfig):
    """What the rows hold, and how strict to be about the user's own files in `data_dir`.

    | field           | True                                         | False                                   |
    |-----------------|----------------------------------------------|-----------------------------------------|
    | `with_images`   | columns `image_0`, `image_1`, bytes as found | neither column; of a local copy nothing |
    |                 |                                              | but the texts is needed                 |
    | `with_tags`     | column `tags`, by Diwan et al.               | no such column, no file of tags needed  |
    | `allow_missing` | an image that is missing is None             | a missing image is an error             |
    | `verify`        | 400 examples, tags as their sum says         | any well-formed files are accepted      |

    `revision` is that of the repository on the Hub, a commit or a branch. A downloaded file of tags must match its sum
    whatever `verify` says.
    """

    with_images: bool = True
    with_tags: bool = True
    allow_missing: bool = False
    verify: bool = True
    revision: str = _REVISION


class Winoground(datasets.GeneratorBasedBuilder):
    """One config, `winoground`, with one split `test`; see `WinogroundConfig` for the options.

    `data_dir` is the user's own copy, looked up in this order, in `data/` and then directly:

    - examples: `test-*.parquet`; `examples.jsonl` with the images in `images/` or `images.zip`; otherwise they are
      downloaded from the Hub with the user's access, into the user's Hub cache;
    - tags: `new_tag_assignments.json`, not in `data/`; otherwise downloaded at a pinned commit.

    A row has `id` (config name, "/", the example's number), `category` (the collapsed tag: "Object", "Relation" or
    "Both"), `image_0`, `filename_0`, `caption_0`, `image_1`, `filename_1`, `caption_1`, `tag`, `secondary_tag`,
    `num_main_preds` and `tags` (a list, empty where Diwan et al. gave none).

    Everything is checked before the first row is written. Raises PermissionError where the user has no access on the
    Hub, FileNotFoundError for a `data_dir` that is not a folder and for missing or empty images, ValueError for
    malformed files and a wrong checksum, ConnectionError for a failed download.
    """

    config: WinogroundConfig
    BUILDER_CONFIG_CLASS = WinogroundConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        WinogroundConfig(name=name, version=datasets.Version(_VERSION), description="Winoground")
        for name in CONFIG_NAMES
    ]

    def _info(self) -> datasets.DatasetInfo:
        text = datasets.Value("string")
        columns: dict[str, Any] = {"id": text, "category": text}
        for side in "01":
            if self.config.with_images:
                columns[f"image_{side}"] = datasets.Image()
            columns |= {f"filename_{side}": text, f"caption_{side}": text}
        columns |= {"tag": text, "secondary_tag": text, "num_main_preds": datasets.Value("int32")}
        if self.config.with_tags:
            columns["tags"] = [text]
        return datasets.DatasetInfo(features=datasets.Features(columns))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        config = self.config
        data_dir = _existing_folder(config.data_dir)
        tags = self._tags(dl_manager, data_dir) if config.with_tags else None
        release = find_release(data_dir) if data_dir is not None else None
        if release is None:
            token = getattr(dl_manager.download_config, "token", None)
            release = _download(config.revision, token)
        rows = read_rows(release, verify=config.verify)
        if tags is not None:
            untagged = [number for number in rows if number not in tags]
            if untagged:
                shown = ", ".join(untagged[:5])
                raise ValueError(f"{_TAGS_FILE} lacks {len(untagged)} of {len(rows)} examples, such as {shown}.")
            rows = {number: {**row, "tags": tags[number]} for number, row in rows.items()}
        missing = describe_missing(release, rows) if config.with_images and not config.allow_missing else None
        if missing:
            raise FileNotFoundError(missing)
        return [datasets.SplitGenerator(name="test", gen_kwargs={"rows": rows, "release": release})]

    def _generate_examples(
        self, rows: dict[str, dict[str, Any]], release: Release
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (id, row); the rows come by the number of their example, in the order of the release."""
        files = read_images(release, rows) if self.config.with_images else None
        for number, row in rows.items():
            example = {"id": f"{CONFIG_NAMES[0]}/{number}", **row}
            if files is not None:
                for side, content in zip("01", next(files), strict=True):
                    image = {"path": row[f"filename_{side}"], "bytes": content}
                    example[f"image_{side}"] = image if content else None
            yield example["id"], example

    def _tags(self, dl_manager: datasets.DownloadManager, data_dir: Path | None) -> dict[str, list[str]]:
        """Return the tags of each example by its number: the user's own file, or a checked download."""
        if data_dir is not None and (data_dir / _TAGS_FILE).is_file():
            payload, source = read_bytes(data_dir / _TAGS_FILE), str(data_dir / _TAGS_FILE)
            if self.config.verify:
                _check_sum(payload, source, "replace it, or pass verify=False to accept it")
            return _parse_tags(payload, source)
        try:
            payload = read_bytes(Path(str(dl_manager.download(_TAGS_URL))))
        except Exception as error:  # The HTTP libraries below raise errors without a common base class.
            raise ConnectionError(f"Could not download {_TAGS_URL} ({error!r}). Try again, or {_OWN_TAGS}.") from error
        _check_sum(payload, _TAGS_URL, "pass download_mode='force_redownload'")
        return _parse_tags(payload, _TAGS_URL)


def _existing_folder(data_dir: str | None) -> Path | None:
    if not data_dir:
        return None
    folder = Path(data_dir).expanduser().absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"data_dir {folder} is not a folder. Leave it out to read from the Hub.")
    return folder


def _download(revision: str, token: str | bool | None) -> Release:
    """Return the files on the Hub, from the user's cache where they are there; it keeps what has arrived."""
    import huggingface_hub
    from huggingface_hub.utils import GatedRepoError
    from huggingface_hub.utils import RepositoryNotFoundError

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
        raise ConnectionError(
            f"Could not download {REPOSITORY} at revision {revision} ({type(error).__name__}: {error}). Try again, or "
            f"{_OWN_COPY}."
        ) from error
    raise ConnectionError(
        f"{REPOSITORY} at revision {revision} has neither {PARQUET} nor {EXAMPLES}, or they have not arrived. Try "
        f"again, pass another revision, or {_OWN_COPY}."
    )


def _check_sum(payload: bytes, source: str, remedy: str) -> None:
    found = hashlib.sha256(payload).hexdigest()
    if found != _TAGS_CHECKSUM:
        raise ValueError(
            f"{source} has SHA-256 {found}, but {_TAGS_FILE} at commit {_TAGS_COMMIT[:7]} has {_TAGS_CHECKSUM}. It is "
            f"damaged or of another release: {remedy}."
        )


def _parse_tags(payload: bytes, source: str) -> dict[str, list[str]]:
    try:
        tags = json.loads(payload.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{source} is not valid JSON: {error}. Expected {{number: [tag, ...]}}.") from error
    if not isinstance(tags, dict):
        raise ValueError(f"{source} holds {type(tags).__name__} at the top level. Expected {{number: [tag, ...]}}.")
    for number, labels in tags.items():
        if not isinstance(labels, list) or not set(map(str, labels)) <= set(TAGS):
            raise ValueError(f"{source}, {number!r}: found {labels!r}. Expected a list of tags: {', '.join(TAGS)}.")
    return tags
