"""SugarCrepe (Hsieh et al., NeurIPS 2023 Datasets and Benchmarks) as a `datasets` builder.

A row is one image-to-text test: a COCO val2017 image, the caption that describes it and a hard negative that
does not. The text is exactly as released, stray white space included. The seven configs named after a
category are the released benchmark; the seven `unrefined_*` ones are the candidates before its adversarial
refinement.

The module imports only the standard library and `datasets`, one import a line, so that `datasets` up to 3.6
can run it as a script and any later version can import the class.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import ClassVar
from typing import TypeVar

import datasets

CATEGORIES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
_UNREFINED = "unrefined_"
CONFIG_NAMES = (*CATEGORIES, *(_UNREFINED + category for category in CATEGORIES))

_VERSION = "1.0.0"
_REVISION = "0047054b243992f0fad63d6f64f7544862daf846"
_ANNOTATIONS_URL = f"https://raw.githubusercontent.com/RAIVNLab/sugar-crepe/{_REVISION}"
_IMAGES_URL = "http://images.cocodataset.org/zips/val2017.zip"
_IMAGE_FOLDER = "val2017"
_FIELDS = ("filename", "caption", "negative_caption")
_ROW_SHAPE = "an object with exactly the text fields " + ", ".join(_FIELDS)
_NAMES_SHOWN = 5
_Result = TypeVar("_Result")

# SHA-256 of each annotation file, by its path in the repository at _REVISION.
_CHECKSUMS = {
    "data/add_att.json": "012d88d729693d193760e6f3393b06a1cf874380a9db0062e937201199fe044d",
    "data/add_obj.json": "1b9d76b93139a937b8dc1ada92a4f05ecc821bb3c291d752428bafadd4bb0682",
    "data/replace_att.json": "9fe55fd4c0a9ad1f85d486d9f6d0215b41f867eb025026e7f7b5ce44352545ee",
    "data/replace_obj.json": "9d299600639947e9d15281a9ded1382b376cf4ea088a8d08a1314bfe76e81898",
    "data/replace_rel.json": "356bcc2fc4c6aed3f4d9fd50acc58489bb1fe70c28791f9368d4cbf9ea39cdc9",
    "data/swap_att.json": "7a7ce04e5c4c80412b48c6f0c1347fb1a2f5d54c0be6aa429b64d390e442f8d0",
    "data/swap_obj.json": "073cdb8e253d053614e80710834d9773b09dbc1dd0a412f6f9492262caa1dcad",
    "data_unrefined/add_att.json": "401b3cf733fbd60d320fddca5b9ae885a80ea6820214f87b9efed7cc4e2ff301",
    "data_unrefined/add_obj.json": "bcd78d6731a3487a1ee2738a4ac266ff8fbd88b81e975a019806834238e84e72",
    "data_unrefined/replace_att.json": "d5f896cef711e8cd2745d1176fe1a229e49fd51fc9916604f8ef3dace3c68b99",
    "data_unrefined/replace_obj.json": "8af5cd99d68fd17f09788e681800b110de033b0a4c766af71bbc8a187d004bbe",
    "data_unrefined/replace_rel.json": "87756b26357f55591240570d4acda940a8e81c8b136e31cd873a76fc1f1a9b5f",
    "data_unrefined/swap_att.json": "e0d58c20d27fa25ef4025e2fc576c4ffbceca136911142090e3e87e25d5954ce",
    "data_unrefined/swap_obj.json": "11dcaa28e5ce98f50aae17cffafdcee6fd10ee057ede6782a1120b9af5e34d8d",
}


def _annotation_name(config_name: str) -> str:
    folder = "data_unrefined" if config_name.startswith(_UNREFINED) else "data"
    return f"{folder}/{_category(config_name)}.json"


def _category(config_name: str) -> str:
    return config_name[len(_UNREFINED) :] if config_name.startswith(_UNREFINED) else config_name


@dataclass
class SugarCrepeConfig(datasets.BuilderConfig):
    """One category, refined or not, and how strict to be about the user's own files in `data_dir`.

    | field           | True                                        | False                                  |
    |-----------------|---------------------------------------------|----------------------------------------|
    | `with_images`   | column `image`, bytes as in the file        | no column `image`, no image looked for |
    | `allow_missing` | a row whose image is missing has image None | a missing image is an error            |
    | `verify`        | a local annotation file must match its sum  | any well-formed local file is accepted |

    A downloaded annotation file must match its sum whatever `verify` says.
    """

    with_images: bool = True
    allow_missing: bool = False
    verify: bool = True


class SugarCrepe(datasets.GeneratorBasedBuilder):
    """Fourteen configs, one split `test`; see `SugarCrepeConfig` for the options.

    `data_dir` is the user's own copy, looked up in this order:

    - annotations: `data/<category>.json`, then `<category>.json`; for an unrefined config only
      `data_unrefined/<category>.json`; otherwise they are downloaded at the pinned commit;
    - images: `val2017/<filename>`, then `images/val2017/<filename>`, then `<filename>`; where `data_dir` has
      neither such a folder nor a single one of the images, the official archive (about 1 GB) is downloaded.

    A row has `id` (config name, "/", the file's own key: the keys are not contiguous), `category` (without
    "unrefined_"), `image`, `filename`, `caption` and `negative_caption`.

    Everything is checked before the first row is written. Raises FileNotFoundError for a `data_dir` that is
    not a folder and for missing or empty images, ValueError for a wrong checksum or a malformed annotation
    file, ConnectionError for a failed download, NotImplementedError for streaming images that are not local.
    """

    config: SugarCrepeConfig
    BUILDER_CONFIG_CLASS = SugarCrepeConfig
    BUILDER_CONFIGS: ClassVar[list[datasets.BuilderConfig]] = [
        SugarCrepeConfig(name=name, version=datasets.Version(_VERSION), description=f"SugarCrepe {name}")
        for name in CONFIG_NAMES
    ]

    def _info(self) -> datasets.DatasetInfo:
        text = datasets.Value("string")
        columns: dict[str, Any] = {"id": text, "category": text}
        if self.config.with_images:
            columns["image"] = datasets.Image()
        columns.update(dict.fromkeys(_FIELDS, text))
        return datasets.DatasetInfo(features=datasets.Features(columns))

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        data_dir = _existing_folder(self.config.data_dir)
        rows = self._annotations(dl_manager, data_dir)
        images = self._images(dl_manager, data_dir, rows) if self.config.with_images else None
        return [datasets.SplitGenerator(name="test", gen_kwargs={"rows": rows, "images": images})]

    def _generate_examples(
        self, rows: dict[str, dict[str, str]], images: dict[str, str | None] | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (id, row). `images` maps a file name to its path, None where missing; None for no column."""
        for key, row in rows.items():
            example: dict[str, Any] = {
                "id": f"{self.config.name}/{key}",
                "category": _category(self.config.name),
                **row,
            }
            if images is not None:
                path = images[row["filename"]]
                example["image"] = {"path": row["filename"], "bytes": _read(Path(path))} if path else None
            yield example["id"], example

    def _annotations(self, dl_manager: datasets.DownloadManager, data_dir: Path | None) -> dict[str, dict[str, str]]:
        """Return the rows by their key in the annotation file: the user's own, or a checked download."""
        name = _annotation_name(self.config.name)
        path = _local_annotations(data_dir, name)
        if path is None:
            url = f"{_ANNOTATIONS_URL}/{name}"
            remedy = f"pass data_dir, a folder that holds {name}"
            payload = _fetch(lambda source: _read(Path(str(dl_manager.download(source)))), url, remedy)
            _check_sum(payload, name, url, "The download is damaged: pass download_mode='force_redownload'.")
            return _parse_rows(payload, url)
        payload = _read(path)
        if self.config.verify:
            remedy = "It is damaged or of another release: replace it, or pass verify=False to accept it."
            _check_sum(payload, name, str(path), remedy)
        return _parse_rows(payload, str(path))

    def _images(
        self, dl_manager: datasets.DownloadManager, data_dir: Path | None, rows: dict[str, dict[str, str]]
    ) -> dict[str, str | None]:
        """Return the path of each image by its file name, None where it is missing and that is allowed."""
        folders = []
        if data_dir is not None:
            folders = [data_dir / _IMAGE_FOLDER, data_dir / "images" / _IMAGE_FOLDER, data_dir]
        filenames = dict.fromkeys(row["filename"] for row in rows.values())
        images = {name: _first_file(folder / name for folder in folders) for name in filenames}
        is_local = any(images.values()) or any(folder.is_dir() for folder in folders if folder != data_dir)
        if not is_local:
            archive = _image_archive(dl_manager)
            images = {name: _first_file([archive / _IMAGE_FOLDER / name]) for name in filenames}
        if not all(images.values()) and not self.config.allow_missing:
            source = str(data_dir) if is_local else f"the archive {_IMAGES_URL}"
            raise FileNotFoundError(_describe_missing(self.config.name, rows, images, source))
        return images


def _existing_folder(data_dir: str | None) -> Path | None:
    if not data_dir:
        return None
    folder = Path(data_dir).expanduser().absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"data_dir {folder} is not a folder. Leave it out to download the files.")
    return folder


def _local_annotations(data_dir: Path | None, name: str) -> Path | None:
    """Return the user's own copy of `name`; a bare file beside the images counts as the refined one."""
    if data_dir is None:
        return None
    folder, filename = name.split("/")
    candidates = [data_dir / folder / filename]
    if folder == "data":
        candidates.append(data_dir / filename)
    return next((path for path in candidates if path.is_file()), None)


def _fetch(action: Callable[[str], _Result], url: str, remedy: str) -> _Result:
    try:
        return action(url)
    except Exception as error:  # The HTTP libraries below raise errors without a common base class.
        reason = _reason(error)
        found = f"{type(reason).__name__}: {reason}"
        raise ConnectionError(f"Could not download {url} ({found}). Try again, or {remedy}.") from error


def _reason(error: BaseException) -> BaseException:
    # fsspec calls every failure of a request "not found", with what really happened as its cause.
    return error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ else error


def _read(path: Path) -> bytes:
    # Not `read_bytes`: `datasets` swaps Path for a class of its own, of which only `open` reads remote files.
    with path.open("rb") as file:
        return file.read()


def _check_sum(payload: bytes, name: str, source: str, remedy: str) -> None:
    found = hashlib.sha256(payload).hexdigest()
    if found != _CHECKSUMS[name]:
        expected = _CHECKSUMS[name]
        raise ValueError(f"{source} has SHA-256 {found}, but {name} at commit {_REVISION[:7]} has {expected}. {remedy}")


def _parse_rows(payload: bytes, source: str) -> dict[str, dict[str, str]]:
    """Parse an annotation file, {key: row}, and check every row; ValueError names the file and the key."""
    try:
        rows = json.loads(payload.decode("utf-8"), object_pairs_hook=_unique_keys)
    except ValueError as error:
        raise ValueError(f"{source} is not valid JSON: {error}. Expected {{key: row}}.") from error
    if not isinstance(rows, dict) or not rows:
        found = "an empty object" if rows == {} else f"{type(rows).__name__} at the top level"
        raise ValueError(f"{source} holds {found}. Expected {{key: row}}, each row {_ROW_SHAPE}.")
    for key, row in rows.items():
        problem = _row_problem(row)
        if problem:
            raise ValueError(f"{source}, key {key!r}: {problem}. Expected {_ROW_SHAPE}.")
    return rows


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The parser keeps the last of two equal keys, so that a test would vanish without a word.
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"key {key!r} occurs twice")
        seen[key] = value
    return seen


def _row_problem(row: object) -> str | None:
    """Return what is wrong with a parsed row, None if nothing is."""
    if not isinstance(row, dict):
        return f"found {type(row).__name__} instead of a row"
    faults = [f"{field} is missing" for field in _FIELDS if field not in row]
    faults += [f"{field} is unexpected" for field in row if field not in _FIELDS]
    faults += [
        f"{field} is {type(row[field]).__name__}, not text"
        for field in _FIELDS
        if field in row and not isinstance(row[field], str)
    ]
    if not faults and (row["filename"] in ("", ".", "..") or {"/", "\\"} & set(row["filename"])):
        faults.append(f"filename {row['filename']!r} is not a bare file name")
    return "; ".join(faults) or None


def _image_archive(dl_manager: datasets.DownloadManager) -> Path:
    """Download and unpack the official images; NotImplementedError when streaming."""
    remedy = f"pass data_dir, a folder that holds {_IMAGE_FOLDER}/, or with_images=False"
    if dl_manager.is_streaming:
        raise NotImplementedError(f"The images do not stream from {_IMAGES_URL}. Do not stream, or {remedy}.")
    return Path(str(_fetch(dl_manager.download_and_extract, _IMAGES_URL, remedy)))


def _first_file(places: Iterable[Path]) -> str | None:
    """Return the first of the paths where a file lies that is not empty (an interrupted copy is)."""
    return next((str(path) for path in places if path.is_file() and path.stat().st_size), None)


def _describe_missing(
    config_name: str, rows: dict[str, dict[str, str]], images: dict[str, str | None], source: str
) -> str:
    missing = sum(path is None for path in images.values())
    shown = _missing(images, ((row["filename"], f"{config_name}/{key}") for key, row in rows.items()))
    return (
        f"{config_name}: {missing} of {len(images)} images are missing from {source}, or empty: "
        f"{shown}. Put them into {_IMAGE_FOLDER}/ of data_dir, or pass allow_missing=True to keep "
        f"their rows without an image, or with_images=False for the text alone."
    )


def _missing(images: dict[str, str | None], uses: Iterable[tuple[str, str]]) -> str:
    """Name images without a path, each with the rows that show it, of which `uses` has (image, id of the row)."""
    ids: dict[str, list[str]] = {name: [] for name, path in images.items() if path is None}
    for name, row_id in uses:
        if name in ids:
            ids[name].append(row_id)
    return _shown([f"{name} (for {_shown(rows)})" for name, rows in ids.items()])


def _shown(names: list[str]) -> str:
    more = [f"and {len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
    return ", ".join([*names[:_NAMES_SHOWN], *more])
