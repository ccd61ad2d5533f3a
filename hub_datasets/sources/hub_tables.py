"""Datasets of the Hub whose rows and images are in Parquet files: finding, fetching and reading the files.

The files are the user's copy, or are fetched from the Hub at a revision into the cache of `huggingface_hub`, which
keeps what has arrived, so that an interrupted download continues.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from ...metrics.common.errors import DataError
from ...metrics.common.storage import cache_error
from ...metrics.common.user_files import list_files
from ..core.build import MissingSourceError
from .downloads import DownloadError, unpack
from .records import Record, shortened_list
from .stored_images import image_address, open_parquet, read_batches, read_images

_ROWS_AT_ONCE = 1_000
# Hexadecimal digits of a SHA-256: 64 bits are enough for tens of thousands of images.
_DIGITS = 16
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\b")


@dataclass(frozen=True)
class HubTable:
    """Parquet files of a dataset repository on the Hub.

    Args:
        repository: ``owner/name``.
        files: a pattern of their paths in the repository, such as ``"data/test-*.parquet"``. In the user's folder they
            are looked for under that path, in ``name/`` of the repository before it, and under their bare names.
        images: by column of images a format of their names, with the row's fields and ``row``, its number counted
            from 0 over all files, such as ``"{row:04}.jpg"``, or ``"{content}.jpg"`` of a hash of its
            bytes, so that an image of several rows has one name. Paths in the files are not used: they may be missing,
            or the same for different images. Two images of a configuration may not have one name otherwise.
        revision: the full hash of a commit, if known, or a branch.
    """

    repository: str
    files: str
    images: Mapping[str, str]
    revision: str = "main"

    @property
    def page(self) -> str:
        """The address of the dataset."""
        return repository_page(self.repository)

    @property
    def remedy(self) -> str:
        """A sentence on how to get the files, without a full stop."""
        return f"Get it from {self.page}"

    @property
    def source(self) -> str:
        """The address of the dataset at its revision."""
        return f"{self.page}/tree/{self.revision}"

    @property
    def places(self) -> list[str]:
        """The patterns of the files in a user's folder, in the order in which they are looked for."""
        return [f"{self.repository.partition('/')[2]}/{self.files}", self.files, PurePosixPath(self.files).name]

    @property
    def named_by_content(self) -> list[str]:
        """The columns of images whose names are hashes of their bytes."""
        return [column for column, name in self.images.items() if "{content}" in name]

    def find(self, folder: Path | None) -> list[Path]:
        """Return the files in a user's folder, in order; none if all of them are empty.

        Raises:
            DataError: some of several are missing.
        """
        if folder is None:
            return []
        for place in self.places:
            paths = list_files(folder, place)
            if any(path.stat().st_size for path in paths):
                _check_shards(paths, self.page)
                return paths
        return []

    def fetch(self, dl_manager: Any) -> list[Path]:
        """Return the files from the Hub, or from its cache.

        Args:
            dl_manager: a `datasets.DownloadManager`, for its token.

        Raises:
            MissingSourceError: the user has no access yet; the message explains how to get it.
            DownloadError: the files cannot be fetched, or do not exist.
        """
        folder = fetch_files(self.repository, [self.files], self.revision, dl_manager)
        if not (paths := self.find(folder)):
            remedy = f"pass another revision, or data_dir, a folder with the files {self.files}"
            raise DownloadError(self.source, ValueError(f"{self.files} is empty"), remedy)
        return paths


@dataclass(frozen=True)
class HubFiles:
    """Files of a repository on the Hub that are no tables: annotations and images.

    Args:
        repository: ``owner/name``.
        rows: a pattern of the paths of the annotations in the repository, or one zip archive, which is unpacked.
        images: likewise of the images; empty if they are in the archive of `rows`.
        revision: the full hash of a commit, if known, or a branch.
        repo_type: ``"dataset"`` or ``"model"``.
    """

    repository: str
    rows: str
    images: str = ""
    revision: str = "main"
    repo_type: str = "dataset"

    def fetch(self, dl_manager: Any, *, with_images: bool) -> tuple[Path, Path, str]:
        """Return the folders of annotations and images, and the address of the commit; raise as `fetch_files`."""
        patterns = [self.rows, self.images] if with_images and self.images else [self.rows]
        folder = fetch_files(self.repository, patterns, self.revision, dl_manager, self.repo_type)
        # `huggingface_hub` names the folder of a snapshot by its commit.
        source = f"{repository_page(self.repository, self.repo_type)}/tree/{folder.name}"
        remedy = f"pass data_dir, a folder with {' and '.join(patterns)} of it, unpacked"
        folders = [
            Path(unpack(dl_manager, folder / pattern, source, remedy)) if pattern.endswith(".zip") else folder
            for pattern in patterns
        ]
        return folders[0], folders[-1], source


def repository_page(repository: str, repo_type: str = "dataset") -> str:
    """Return the address of a repository on the Hub."""
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{'datasets/' if repo_type == 'dataset' else ''}{repository}"


def fetch_files(
    repository: str, patterns: list[str], revision: str, dl_manager: Any, repo_type: str = "dataset"
) -> Path:
    """Return a folder with the files of a repository that match the patterns, from the Hub or its cache.

    Args:
        repository, revision, repo_type: as of `HubFiles`.
        patterns: of the files' paths in the repository.
        dl_manager: a `datasets.DownloadManager`, for its token.

    Raises:
        MissingSourceError: the user has no access yet; the message explains how to get it.
        DownloadError: the files cannot be fetched, or do not exist.
    """
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.utils import GatedRepoError, RepositoryNotFoundError

    page = repository_page(repository, repo_type)
    remedy = f"data_dir, a folder with the files {' and '.join(patterns)} of {page}"
    try:
        folder = huggingface_hub.snapshot_download(
            repository,
            repo_type=repo_type,
            revision=revision,
            allow_patterns=patterns,
            token=getattr(dl_manager.download_config, "token", None),
            endpoint=constants.ENDPOINT,
        )
    except (GatedRepoError, RepositoryNotFoundError) as error:  # The Hub hides private repositories.
        raise MissingSourceError(
            f"The Hub gives no access to {repository}. If it is gated, log in at {page} and accept its terms, then run "
            f"`hf auth login` with a token of that account (or set HF_TOKEN), and try again; or pass {remedy}."
        ) from error
    except Exception as error:  # The HTTP libraries below raise errors without a common base class.
        raise cache_error(error) or DownloadError(page, error, f"pass {remedy}") from error
    if lacking := [pattern for pattern in patterns if not any(Path(folder).glob(pattern))]:
        problem = FileNotFoundError(f"no files {lacking[0]} at revision {revision}, or they have not arrived")
        raise DownloadError(page, problem, f"pass another revision, or {remedy}")
    return Path(folder)


def read_table(
    paths: Iterable[Path], table: HubTable, schema: Mapping[str, Any]
) -> Iterator[tuple[Path, list[Record], dict[str, str]]]:
    """Yield each file with its records, in which columns of images hold names, and the addresses of these images.

    Args:
        paths: the files, in order.
        table: the rows in the files.
        schema: the fields of a record, as for `check_rows`; columns of images may be among them, as `str`.

    Yields:
        The path, the records with their numbers over all files as keys, and the addresses of images by name.

    Raises:
        DataError: no Parquet file, a damaged one, or one of other columns.
    """
    row = 0
    for path in paths:
        records: list[Record] = []
        addresses: dict[str, str] = {}
        with open_parquet(path) as file:
            texts = [name for name in schema if name not in table.images]
            _check_columns(file.schema_arrow, texts, table.images, path)
            hashes = {column: _hashes(path, column) for column in table.named_by_content}
            for batch in read_batches(file, path, texts, _ROWS_AT_ONCE):
                for record in batch.to_pylist():
                    for column, name in table.images.items():
                        content = {"content": next(hashes[column])} if column in hashes else {}
                        image = name.format(row=row, **content, **{key: record[key] for key in texts})
                        if image in addresses and not content:
                            raise DataError(f"{path}, row {len(records)}: the image {image} occurs twice.")
                        addresses.setdefault(image, image_address(path, column, len(records)))
                        record[column] = image
                    records.append(Record(f"row {len(records)}", str(row), record))
                    row += 1
        if not records:
            raise DataError(f"{path} holds no rows.")
        yield path, records, addresses


def _hashes(path: Path, column: str) -> Iterator[str]:
    return (hashlib.sha256(content).hexdigest()[:_DIGITS] for content in read_images(path, column))


def _check_columns(schema: pa.Schema, texts: Sequence[str], images: Iterable[str], path: Path) -> None:
    """Raise a `DataError` unless a file has all columns, and bytes in its columns of images."""
    lacking = [name for name in (*texts, *images) if name not in schema.names]
    if lacking:
        raise DataError(
            f"{path} has the columns {', '.join(schema.names) or 'none'}, and lacks {', '.join(lacking)}: it is of "
            "another dataset or version."
        )
    for name in images:
        kind = schema.field(name).type
        kind = kind.value_type if isinstance(kind, pa.ListType | pa.LargeListType) else kind
        fields = {field.name: field.type for field in kind} if pa.types.is_struct(kind) else {}
        if fields.get("bytes") not in (pa.binary(), pa.large_binary()):
            raise DataError(
                f"{path}: the column {name} is of the type {kind}. Expected images: a struct of bytes and path."
            )


def _check_shards(paths: list[Path], page: str) -> None:
    """Raise a `DataError` if the names of the files show that some are missing."""
    shards = [match for path in paths if (match := _SHARD.search(path.name))]
    every = {f"{m.string[: m.start(1)]}{n:05}{m.string[m.end(1) :]}" for m in shards for n in range(int(m[2]))}
    if missing := sorted(every - {path.name for path in paths}):
        raise DataError(
            f"{paths[0].parent} holds {len(paths)} Parquet files and lacks {shortened_list(missing)}. Get all from "
            f"{page}, and remove those of other versions."
        )
