"""Weights in their authors' own files, for models that `transformers` has the parts of and no class for.

The architecture follows from the shapes of the tensors. Each weight of the module is a named tensor of the file, or a
part of one, and each tensor of the file has to be used.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn
from transformers.initialization import no_init_weights

from ...metrics.common.errors import ModelError
from ...metrics.common.storage import with_home
from ..engine.protocol import LoadOptions
from .checkpoints import CheckpointFiles, loading_errors, torch_dtype
from .weight_files import load_values


class TensorOrigin(NamedTuple):
    """The origin of a weight: a tensor of the file, or the part number `part` of `parts` equal ones of its rows."""

    key: str
    part: int = 0
    parts: int = 1


def renamed(name: str, names: Sequence[tuple[str, Any]], projection: str) -> TensorOrigin:
    """Return the origin of a weight by its `translated` name.

    The file has queries, keys and values in one tensor where `projection` finds one of their letters in the name.
    """
    joined = re.search(projection, name)
    name = translated(name, names)
    return TensorOrigin(name, "qkv".index(joined[1]), 3) if joined else TensorOrigin(name)


def translated(name: str, names: Sequence[tuple[str, Any]]) -> str:
    """Return a name with each pattern of `names` replaced in turn."""
    for ours, theirs in names:
        name = re.sub(ours, theirs, name)
    return name


def read_released(files: CheckpointFiles, source: str) -> dict[str, Any]:
    """Return the content of a file that `torch.save` wrote; no code in it runs.

    Args:
        files: the file as the checkpoint, and the options of loading.
        source: where the authors' files come from, for messages.

    Raises:
        ModelError: no such file, a folder, a revision, another format, or a pickle that could run code.
    """
    path = with_home(files.path)
    if path.is_dir():
        if (path / "config.json").is_file():
            files.config((), f"a file of its authors: {source}")
        raise ModelError(f"{files.checkpoint} is a folder; name a file of its authors: {source}")
    if not path.is_file():
        raise ModelError(f"there is no file {files.checkpoint}; {files.family} reads a file of its authors: {source}")
    if files.options.revision is not None:
        raise ModelError(f"{path.name} is a file, which has no revision {files.options.revision!r}; leave it out")
    try:
        content, _ = load_values(path)
    except ModelError as error:
        raise ModelError(
            f"cannot load {path.name} as {files.family}: {error}; the authors' file is {source}"
        ) from error
    if not isinstance(content, dict):
        raise ModelError(f"{path.name} holds a {type(content).__name__}, not the weights of {files.family} by name")
    return content


def tensors_of(content: Any) -> dict[str, Tensor]:
    """Return the tensors of a state dict; other values are left out, and so missing where they are needed."""
    return {str(name): value for name, value in dict(content).items() if isinstance(value, Tensor)}


@contextmanager
def reading_sizes(files: CheckpointFiles) -> Iterator[None]:
    """Turn what goes wrong while the sizes of a model are read from its tensors into a `ModelError`."""
    try:
        yield
    except (KeyError, ValueError, IndexError) as error:
        raise ModelError(
            f"{Path(files.checkpoint).name} does not have the weights of {files.family}: no sizes can be read ({error})"
        ) from error


def filled(
    files: CheckpointFiles,
    build: Callable[[], nn.Module],
    tensors: Mapping[str, Tensor],
    origin: Callable[[str], TensorOrigin],
) -> Any:
    """Return a module with the weights of a file, ready to score.

    Args:
        files: as for `read_released`.
        build: makes the module; its weights are not drawn.
        tensors: the tensors of the file that scores depend on, by the authors' names.
        origin: where the weight of the module with a name comes from.

    Raises:
        ModelError: tensors that are missing, of another shape, or of no use; by the authors' names.
    """
    # Not on the meta device: buffers that no file holds, such as indices, are computed here.
    with loading_errors(files.checkpoint, files.family), no_init_weights():
        module = build()
    # Batch normalisation counts batches in training, and only there.
    expected = {name: value for name, value in module.state_dict().items() if not name.endswith("num_batches_tracked")}
    tensors_by_name, misshapen = {}, []
    origins = {name: origin(name) for name in expected}
    for name, (key, index, parts) in origins.items():
        if key in tensors:
            rows = tensors[key].shape[:1].numel() // parts
            tensors_by_name[name] = tensors[key][index * rows : (index + 1) * rows] if parts > 1 else tensors[key]
            if tensors_by_name[name].shape != expected[name].shape or (parts > 1 and rows * parts != len(tensors[key])):
                misshapen.append(key)
    used = {origin.key for origin in origins.values()}
    files.refuse_incomplete(
        {"missing_keys": used - set(tensors), "unexpected_keys": set(tensors) - used, "mismatched_keys": {*misshapen}}
    )
    module.load_state_dict(tensors_by_name, strict=False)
    return files.ready(module.to(torch_dtype(files.options)))


def tokenizer_beside(files: CheckpointFiles, repository: str, revision: str) -> tuple[Any, str]:
    """Return the tokenizer in the folder of the file, or else of a Hub repository, and a description of it."""
    folder = with_home(files.path).parent
    if (folder / "tokenizer_config.json").is_file():
        tokenizer = CheckpointFiles(files.family, str(folder), LoadOptions()).tokenizer()
        vocabulary = json.dumps(sorted(tokenizer.get_vocab().items())).encode()
        return tokenizer, f"beside the weights, vocabulary sha256:{hashlib.sha256(vocabulary).hexdigest()}"
    try:
        tokenizer = CheckpointFiles(files.family, repository, LoadOptions(revision=revision)).tokenizer()
    except ModelError as error:
        raise ModelError(f"{error}; or save this tokenizer in the folder of {Path(files.path).name}") from error
    return tokenizer, f"{repository}@{revision}"
