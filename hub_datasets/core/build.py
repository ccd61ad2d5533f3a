"""Build a benchmark's dataset repository, which `load_dataset` and the Hub open.

```
README.md                                        the card: its YAML has the columns' types and the files, the table
                                                 between `<!-- counts -->` marks the counts of each split
build.json                                       {"schema": "vl-assay/build", "version": 1, "benchmark": …,
                                                 "options": {…}, "configs": {config: {split: {"rows": …,
                                                 "images": …, "missing_images": …, "captions": …}}},
                                                 "sources": {config: [what: address, ...]}, of what was downloaded,
                                                 "code": hash of the code that made the rows}
<config>/<split>-00000-of-00001-<hash>.parquet   the rows, with the bytes of the images' files
```

`datasets` writes its feature types into Parquet's metadata in a form that older versions cannot read. So the files are
rewritten without it, and the types are declared in the card, which all versions understand.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ...metrics.common.errors import DataError, StorageError, VLAssayError, check_known
from ...metrics.common.storage import (
    cache_error,
    new_folder,
    read_error,
    readable,
    with_home,
    writable_cache,
    write_atomically,
)
from ...metrics.records.predictions import file_hash
from .benchmarks import (
    benchmark_folder,
    benchmark_names,
    code_hash,
    config_names,
    get_benchmark,
    get_builder,
    get_card,
    option_names,
)
from .repository import BUILD_FILE, BUILD_SCHEMA, cache_folder

# Rows with an image of some 100 kB each: row groups of about 10 MB, so memory stays flat.
_ROWS_PER_GROUP = 100
_COUNTS = ("<!-- counts -->", "<!-- /counts -->")


class MissingSourceError(DataError):
    """A source or image is missing, unreachable, or not accessible to the user; other `DataError`s mean damage."""


def build(
    benchmark: str,
    out: str | Path,
    *,
    configs: Iterable[str] | None = None,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    splits: Collection[str] | None = None,
    on_error: Callable[[str, Exception], None] | None = None,
) -> Path:
    """Build a benchmark's dataset repository, ready for ``load_dataset(out, config)`` and for the Hub.

    The same sources give the same bytes. The folder appears whole or not at all, and replaces an earlier one.

    Args:
        benchmark: its name.
        out: the folder of the repository.
        configs: configurations to build; None for all.
        data_dir: the user's copy of the sources; None to download them, if the benchmark needs any.
        options: fields of the builder's configuration, such as ``{"with_images": False}``.
        splits: splits to build; None for all.
        on_error: called with the name and the error of each configuration that cannot be built, which is left out.
            Without it the first error is raised; if nothing could be built, an error is raised in any case.

    Returns:
        `out`.

    Raises:
        UnknownNameError: no such benchmark, configuration or option.
        DataError: a source is missing or damaged; the message names it.
        StorageError: `out` cannot be written.
    """
    out = Path(out)
    options = dict(sorted((options or {}).items()))
    names = config_names(benchmark) if configs is None else list(configs)
    check_known(f"configuration of {benchmark}", names, config_names(benchmark))
    check_known(f"option of {benchmark}", options, option_names(benchmark))
    data_dir, builder = sources_folder(benchmark, data_dir), get_builder(benchmark)
    _refuse_to_overwrite(out)
    with data_errors(f"the dataset {out}"), new_folder(out) as new:
        infos, counts, sources = {}, {}, {}
        for config in names:
            try:
                with builder_errors(f"{benchmark}/{config}"):
                    infos[config], counts[config], sources[config] = _build_config(
                        builder, benchmark, config, new, data_dir, options, splits
                    )
            except Exception as error:
                if on_error is None:
                    raise
                shutil.rmtree(new / config, ignore_errors=True)
                on_error(config, error)
        if names and not infos:
            raise DataError(f"no configuration of {benchmark} could be built")
        sources = {config: addresses for config, addresses in sources.items() if addresses}
        default = getattr(builder, "DEFAULT_CONFIG_NAME", None)
        _write_card(get_card(benchmark), default, new, infos, counts, sources)
        record = {"schema": BUILD_SCHEMA, "version": 1, "benchmark": benchmark, "options": options, "configs": counts}
        record["code"] = code_hash(benchmark)
        record |= {"sources": sources} if sources else {}
        (new / BUILD_FILE).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return out


@dataclass(frozen=True)
class BuildOutcome:
    """The result of `build_all` for one benchmark.

    Args:
        benchmark: its name.
        folder: its repository, if anything was built.
        built: the configurations in it.
        errors: the errors of the others, by configuration; an error of the folder itself, such as a full disk, is that
            of all configurations without one.
    """

    benchmark: str
    folder: Path
    built: tuple[str, ...]
    errors: Mapping[str, Exception]

    @property
    def damaged(self) -> dict[str, Exception]:
        """Return the errors other than missing sources."""
        return {config: error for config, error in self.errors.items() if not isinstance(error, MissingSourceError)}


def build_all(
    out: str | Path, *, data_dir: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> Iterator[BuildOutcome]:
    """Build every benchmark whose sources are available into a folder of its name in `out`.

    An error in one configuration does not stop the others. An earlier folder is replaced by the configurations that
    could be built, and kept if none could.

    Args:
        out: the folder of the repositories.
        data_dir: the user's copies of the sources, see `sources_folder`.
        options: fields of the builders' configurations; each is set for the benchmarks that have it.

    Yields:
        One outcome for each benchmark.

    Raises:
        UnknownNameError: an option that no benchmark has.
        DataError: `data_dir` is not a folder.
    """
    known = {name: option_names(name) for name in benchmark_names()}
    check_known("option", options or (), sorted(set().union(*known.values())))
    for name, names in known.items():
        folder, sources = Path(out) / name, sources_folder(name, data_dir)
        applicable = {option: value for option, value in (options or {}).items() if option in names}
        errors: dict[str, Exception] = {}
        configs = config_names(name)
        try:
            build(name, folder, data_dir=sources, options=applicable, on_error=errors.__setitem__)
        except Exception as error:
            errors = {config: errors.get(config, error) for config in configs}
        yield BuildOutcome(name, folder, tuple(config for config in configs if config not in errors), errors)


def sources_folder(benchmark: str, data_dir: str | Path | None) -> Path | None:
    """Return the folder of a benchmark's sources; None for a benchmark without sources, or if they are downloaded.

    It is ``data_dir/<benchmark>`` if that is a folder, else `data_dir`; also `data_dir` if it has the benchmark's name
    itself, so that a folder that was found is found again. Without `data_dir` it is the folder
    ``<benchmark>`` in the one that the environment variable VL_ASSAY_DATA_DIR names; without that variable, the folder
    that the benchmark was last loaded from (see `remember_sources`).

    Raises:
        DataError: `data_dir`, or VL_ASSAY_DATA_DIR, is not a folder.
    """
    if data_dir is not None:
        folder = existing_folder(data_dir)
        inner = folder / benchmark if folder.name != benchmark and (folder / benchmark).is_dir() else folder
        return inner if get_benchmark(benchmark).source else None
    if not get_benchmark(benchmark).source:
        return None
    if parent := os.environ.get("VL_ASSAY_DATA_DIR"):
        folder = existing_folder(parent) / benchmark
        return folder if folder.is_dir() else None
    with suppress(OSError, ValueError):  # never loaded, or a damaged file
        folder = Path(os.fsdecode(_remembered(benchmark).read_bytes()))
        return folder if folder.is_absolute() and folder.is_dir() else None
    return None


def remember_sources(benchmark: str, data_dir: Path) -> None:
    """Remember the folder that a benchmark was loaded from, for calls without `data_dir`."""
    with suppress(StorageError):  # a convenience only
        write_atomically(_remembered(benchmark), os.fsencode(data_dir.absolute()))


def _remembered(benchmark: str) -> Path:
    # Benchmarks of different folders may have one name.
    digest = hashlib.sha256(os.fsencode(benchmark_folder(benchmark).resolve())).hexdigest()
    return cache_folder() / "data-dirs" / f"{benchmark}-{digest[:8]}"


def existing_folder(data_dir: str | Path) -> Path:
    """Return the folder of the user's own sources; raise a `DataError` if it is not a folder or cannot be read."""
    folder = with_home(data_dir)
    with readable(folder):
        if not folder.is_dir():
            raise DataError(f"the data folder {data_dir} is not a folder")
    return folder


def built_files(folder: Path, config: str, split: str) -> list[Path]:
    """Return the Parquet files of a split of a build, in order.

    Raises:
        DataError: a file is missing, or was changed since it was built.
    """
    files = sorted((folder / config).glob(f"{split}-*-of-*-*.parquet"))
    if not files or len(files) != int(files[0].stem.split("-")[-2]):
        raise DataError(f"{folder / config} lacks files of the split {split}; build the dataset again")
    for path in files:
        if not path.stem.endswith(f"-{file_hash(path)[:16]}"):
            raise DataError(f"{path} was changed since it was built; build the dataset again")
    return files


def _refuse_to_overwrite(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out} is a file; name a folder")
    if out.exists() and not (out / BUILD_FILE).exists() and any(out.iterdir()):
        raise StorageError(f"{out} is not empty and was not written by a build; name another folder")
    if Path.cwd().is_relative_to(out.resolve()):
        raise StorageError(f"{out} is the folder you are in, or one above it, and cannot be replaced; name another")


def _build_config(
    builder_class: type[Any],
    benchmark: str,
    config: str,
    new: Path,
    data_dir: str | Path | None,
    options: Mapping[str, Any],
    splits: Collection[str] | None,
) -> tuple[Any, dict[str, Any], list[str]]:
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=new))
    try:
        builder = builder_class(
            cache_dir=str(work / "cache"),
            dataset_name=benchmark,
            config_name=config,
            data_dir=None if data_dir is None else str(data_dir),
            writer_batch_size=_ROWS_PER_GROUP,
            **options,
        )
        if splits is not None:
            all_splits = builder._split_generators
            builder._split_generators = lambda *args: [split for split in all_splits(*args) if split.name in splits]
        builder.download_and_prepare(str(work / "parquet"), file_format="parquet", download_config=download_config())
        counts = {
            split: _rewrite(work / "parquet", benchmark, split, new / config, builder.info.features)
            for split in builder.info.splits or ()
        }
        # Of the files as rewritten; equal for every build.
        builder.info.download_size = sum(file.stat().st_size for file in (new / config).iterdir())
        builder.info.download_checksums = builder.info.version = None
        return builder.info, counts, getattr(builder, "sources", [])
    finally:
        shutil.rmtree(work, ignore_errors=True)


def download_config() -> Any:
    """Return the configuration of downloads: kept in the cache of `datasets`, and read from there without a request.

    So a second build works offline. A file is pinned by its address or verified by its checksum, but for those on
    Google Drive and Zenodo, whose checksums are not known.
    """
    from datasets import DownloadConfig, config

    return DownloadConfig(cache_dir=str(writable_cache(config.DOWNLOADED_DATASETS_PATH)), use_etag=False)


def _rewrite(source: Path, name: str, split: str, target: Path, features: Any) -> dict[str, int]:
    """Copy one split's files without the metadata of `datasets`; count rows, and distinct images and captions."""
    import datasets

    text = datasets.Value("string")
    image_columns = [column for column, kind in features.items() if isinstance(kind, datasets.Image)]
    types = (text, datasets.Sequence(text))
    caption_columns = [column for column, kind in features.items() if "caption" in column and kind in types]
    rows = missing = 0
    images: set[bytes] = set()
    captions: set[str] = set()
    files = sorted(source.glob(f"{name}-{split}.parquet")) or sorted(source.glob(f"{name}-{split}-*-of-*.parquet"))
    target.mkdir(exist_ok=True)
    for number, file in enumerate(files):
        path = target / "part.parquet"
        with pq.ParquetFile(file) as reader:
            schema = reader.schema_arrow.remove_metadata()
            with pq.ParquetWriter(path, schema) as writer:
                # Group by group: `iter_batches` would keep all that it has read.
                for group in range(reader.num_row_groups):
                    table = reader.read_row_group(group).replace_schema_metadata(None)
                    writer.write_table(table)
                    rows += table.num_rows
                    files_of = (image for column in image_columns for image in table[column].to_pylist())
                    contents = [image and image["bytes"] for image in files_of]
                    missing += contents.count(None)
                    images.update(hashlib.sha256(content).digest() for content in contents if content is not None)
                    values = (value for column in caption_columns for value in table[column].to_pylist())
                    captions.update(*([value] if isinstance(value, str) else value or () for value in values))
        # The cache of `datasets` identifies a local repository by folder name, sizes and the paths in the card: without
        # a hash of the content in the path it would serve the rows of an earlier build.
        content = file_hash(path)[:16]
        path.rename(target / f"{split}-{number:05d}-of-{len(files):05d}-{content}.parquet")
    return {"rows": rows, "images": len(images), "missing_images": missing, "captions": len(captions)}


def _write_card(
    text: str,
    default_config: str | None,
    folder: Path,
    infos: Mapping[str, Any],
    counts: Mapping[str, Any],
    sources: Mapping[str, Sequence[str]],
) -> None:
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCard, DatasetCardData

    card = DatasetCard(_with_counts(text, counts, sources), ignore_metadata_errors=False)
    data = DatasetCardData(**card.data.to_dict())
    data["configs"] = []
    for config, info in infos.items():
        paths = sorted(f"{config}/{path.name}" for path in (folder / config).iterdir())
        files = [
            {"split": s, "path": [path for path in paths if path.startswith(f"{config}/{s}-")]} for s in info.splits
        ]
        default = {"default": True} if config == default_config else {}
        data["configs"].append({"config_name": config, "data_files": files, **default})
    DatasetInfosDict(infos).to_dataset_card_data(data)
    card.data = data
    (folder / "README.md").write_text(str(card), encoding="utf-8")


def _with_counts(
    card: str, counts: Mapping[str, Mapping[str, Mapping[str, int]]], sources: Mapping[str, Sequence[str]]
) -> str:
    """Return the card with the counts of this build in its table, followed by the addresses of its downloads."""
    start, end = (card.find(mark) for mark in _COUNTS)
    if start < 0 or end < start:
        return card
    rows = ["| config | split | rows | images | distinct captions |", "|---|---|---|---|---|"]
    for config, splits in counts.items():
        for split, n in splits.items():
            images = f"{n['images']:,}" + (f" ({n['missing_images']:,} missing)" if n["missing_images"] else "")
            rows.append(f"| {config} | {split} | {n['rows']:,} | {images} | {n['captions']:,} |")
    by_source: dict[str, list[str]] = {}
    for config, addresses in sources.items():
        for source in addresses:
            by_source.setdefault(source, []).append(config)
    rows += ["", "This build was made of:", ""] if by_source else []
    rows += [f"- {source} (`{'`, `'.join(configs)}`)" for source, configs in by_source.items()]
    return card[: start + len(_COUNTS[0])] + "\n" + "\n".join(rows) + "\n" + card[end:]


@contextmanager
def builder_errors(config: str) -> Iterator[None]:
    """Convert errors as `data_errors` does, and begin the message of each `DataError` with the configuration."""
    start = f"{config}: "
    try:
        with data_errors(config):
            yield
    except DataError as error:
        error.args = (start + str(error).removeprefix(start),)
        raise


@contextmanager
def data_errors(what: str) -> Iterator[None]:
    """Convert errors of `datasets` and of the disk into errors of this package.

    Args:
        what: what cannot be read or written, with which the message begins.

    Raises:
        StorageError: the disk is full or not writable.
        DataError: any other error, such as a damaged file, or one that may not be read.
    """
    from datasets.exceptions import DatasetGenerationError

    try:
        yield
    except VLAssayError:
        raise
    except (DatasetGenerationError, OSError, ValueError, NotImplementedError) as error:
        cause = error.__cause__ if isinstance(error, DatasetGenerationError) and error.__cause__ else error
        # Files to be written do not exist yet, so an existing file could not be read.
        if isinstance(cause, PermissionError) and cause.filename and os.access(cause.filename, os.F_OK):
            raise read_error(cause) from error
        if unwritable := cache_error(cause, what):
            raise unwritable from error
        if isinstance(cause, VLAssayError):
            raise cause from cause.__cause__
        raise DataError(f"{what}: {cause}") from error
