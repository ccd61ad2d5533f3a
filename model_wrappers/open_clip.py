"""open_clip: models of the `open_clip` library, which the extra ``vl-assay[open-clip]`` installs.

``open_clip:ViT-B-32/laion2b_s34b_b79k`` is a model and a tag of published weights (``open_clip.list_pretrained()``),
``open_clip:hf-hub:OWNER/NAME`` a repository. Weights in a file are named by the setting ``pretrained``, with a model of
the library, or with a published checkpoint (`loading.published`), which has the right one: ``open_clip:negclip`` with
``pretrained=negclip.pth``. `loading.weight_files` reads them, and the settings record what it changed. A score is the
cosine of the embeddings.

OpenAI's weights, and weights fine-tuned from them, need the activation QuickGELU, which only models whose name ends in
``-quickgelu`` have; with GELU their scores differ. NegCLIP is such a model, and its authors' code (ARO, Yuksekgonul et
al. 2023) loads it as ``ViT-B-32`` with GELU. A model of the library runs exactly as named; a known mismatch gives a
warning, and is recorded in the settings.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from huggingface_hub import hf_hub_download
from PIL import Image
from safetensors.torch import save_model

from ..hub_datasets.core.pretrained import check_file, check_folder, read_json
from ..metrics.common.errors import ModelError, UnknownNameError
from ..metrics.common.storage import with_home
from .engine.families import import_library
from .engine.protocol import LoadOptions, ModelInfo, choose
from .loading.checkpoints import folder_hash, loading_errors, torch_dtype
from .loading.open_clip_config import FILE, check_config
from .loading.published import QUICK, Published, find_published, published_checkpoints
from .loading.torch_models import DualEncoderMixin, on_device, pad_to, to_device
from .loading.weight_files import Weights, cut_positions, mean_with, read_weights

MODEL_TYPES = ()
# For model cards: the name of a saved folder as a model, and how to load it without this package.
SAVED_AS = "open_clip:local-dir:{}"
LIBRARY = "open_clip"
LOADING = "model, _, preprocess = open_clip.create_model_and_transforms('local-dir:{}')"
CHECKPOINTS = (
    "RN50-quickgelu/openai",
    "ViT-B-32-quickgelu/openai",
    "ViT-L-14-quickgelu/openai",
    "ViT-B-32/laion2b_s34b_b79k",
    "ViT-bigG-14/laion2b_s39b_b160k",
    "ViT-H-14-quickgelu/dfn5b",
    "PE-Core-L-14-336/meta",
    "EVA02-L-14-336/merged2b_s6b_b61k",
    "negclip",
)
SETTINGS = {"pretrained": ("", "…")}
_SCHEMES = ("hf-hub:", "local-dir:")
_ARRAYS = (".npz", ".npy")  # the format of big_vision, which the library reads itself
_LONGEST = 1 << 16


class OpenClip(DualEncoderMixin):
    """A model of `open_clip` as a dual encoder."""

    def __init__(self, model: Any, tokenizer: Any, preprocess: Any, info: ModelInfo, model_name: str) -> None:
        super().__init__(model, info)
        self._model_name, self._tokenizer, self._preprocess = model_name, tokenizer, preprocess
        self.max_tokens = int(tokenizer.context_length)
        # The library returns padded or truncated captions only; the last ids of one of each are padding and end.
        self._pad = int(tokenizer(["a"], context_length=self.max_tokens)[0, -1])
        self._end = int(tokenizer(["a " * self.max_tokens], context_length=self.max_tokens)[0, -1])

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Return pixel values (3, height, width), float32, from the library's transform for evaluation."""
        return self._preprocess(image.convert("RGB")).numpy()

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each caption, with the end token and no padding."""
        if not captions:
            return []
        length = 4 * self.max_tokens
        while length <= _LONGEST:
            rows = np.asarray(self._tokenizer(list(captions), context_length=length))
            if (rows[:, -2:] == self._pad).all():
                end = [self._end] if self._end == self._pad else []
                return [[*(np.trim_zeros(row - self._pad, "b") + self._pad).tolist(), *end] for row in rows]
            length *= 2
        raise ModelError(
            f"{self.info.name}: its tokenizer pads captions to {length // 2} tokens with other ids than {self._pad}, "
            "or a caption is longer than that; shorten it, or use another model"
        )

    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return image embeddings (n, d), not normalised."""
        weight = next(model.parameters())
        pixels = on_device(images, weight.device, weight.dtype)
        return model.encode_image(pixels)

    def read(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return caption embeddings (n, d), not normalised."""
        return model.encode_text(to_device(self.padded(captions), next(model.parameters()).device))

    def fresh(self) -> Any:
        """Return a model of the same architecture with random weights, of torch's generator."""
        if self._model_name.startswith(_SCHEMES):
            raise ModelError(
                f"{self.info.name} always comes with its weights; for random ones name a model of open_clip, such as "
                "open_clip:RN50/openai"
            )
        return import_library(LIBRARY).create_model_and_transforms(self._model_name, precision="fp32", device="cpu")[0]

    def save(self, folder: Path) -> None:
        """Write a folder that ``open_clip:local-dir:FOLDER`` loads: weights, configuration, transform."""
        folder.mkdir(parents=True, exist_ok=True)
        save_model(self._model, str(folder / "open_clip_model.safetensors"))
        if hasattr(self._tokenizer, "save_pretrained"):
            self._tokenizer.save_pretrained(folder)
        library = import_library(LIBRARY)
        config = {
            "model_cfg": library.get_model_config(self._model_name),
            "preprocess_cfg": library.get_model_preprocess_cfg(self._model),
        }
        (folder / FILE).write_text(json.dumps(config, indent=1), encoding="utf-8")

    def padded(self, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return prepared captions (n, `max_tokens`), truncated or padded as by the library's tokenizer."""
        return pad_to(captions, self._pad, self.max_tokens)


class WeightsSource(NamedTuple):
    """A model's name in `open_clip`, and a tag, or a file of weights with its row of the published ones, or neither."""

    model: str
    tag: str | None = None
    file: Path | None = None
    published: Published | None = None

    @property
    def shown(self) -> str:
        """The name in predictions, without local folders."""
        if self.model.startswith("local-dir:"):
            return f"local-dir:{with_home(self.model.partition(':')[2]).resolve().name}"
        weights = f" (pretrained={self.file.name})" if self.file else f"/{self.tag}" if self.tag else ""
        return self.model + weights


def load(checkpoint: str, options: LoadOptions) -> OpenClip:
    """Load a model of `open_clip` with its weights.

    The setting ``pretrained`` is a file of weights, for a model without a tag. The settings in the predictions also
    record the ``activation``, whether the weights were trained with another one (``activation_mismatch``: ``yes``,
    ``no``, or ``unknown`` for files that are not known), and ``weights``, how they differ from those in the file.

    Raises:
        ModelError: no such model or file, no weights named, or weights that are missing, of another shape or not the
            model's; or a revision, which the library cannot load.
        UnknownNameError: a setting or tag that does not exist.
    """
    given = choose("open_clip", options, SETTINGS)["pretrained"]
    dtype, library = torch_dtype(options), import_library(LIBRARY)
    if options.revision:
        raise ModelError(f"open_clip cannot load a revision ({options.revision!r}) of {checkpoint}; leave it out")
    source = find_source(library, checkpoint, given)
    model, tokenizer, preprocess, changes = _create(library, source)
    weights = source.file.name if source.file else source.tag or ""
    info = ModelInfo(
        name=source.shown,
        family="open_clip",
        checkpoint=source.shown,
        revision=_fingerprint(model, source),
        dtype=options.dtype,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        preprocessing={"backend": "torchvision", **json.loads(json.dumps(library.get_model_preprocess_cfg(model)))},
        settings={
            "pretrained": weights,
            **_activation(library, model, source),
            **({"weights": "; ".join(changes)} if changes else {}),
        },
    )
    loaded = OpenClip(model.eval().to(options.device, dtype), tokenizer, preprocess, info, source.model)
    texts = ["a dog", "two cats and a dog " * loaded.max_tokens]
    if not torch.equal(loaded.padded(loaded.prepare_captions(texts)), torch.as_tensor(tokenizer(texts))):
        raise ModelError(f"{info.name} truncates or pads captions in an unknown way")
    return loaded


def find_source(library: Any, checkpoint: str, given: str) -> WeightsSource:
    """Return the source that a checkpoint's name and the setting ``pretrained`` describe.

    Raises:
        ModelError: no such model or file, or not exactly one kind of weights.
        UnknownNameError: no such tag.
    """
    if checkpoint.startswith(_SCHEMES):
        if given:
            raise ModelError(f"{checkpoint} includes its weights: leave out pretrained={given}")
        return WeightsSource(checkpoint)
    models, row = library.list_models(), published_checkpoints().get(checkpoint)
    if row and not (given and row.files):
        raise ModelError(_how_to_get(row))
    name, tag = row.model if row else checkpoint, ""
    if name not in models:
        name, _, tag = checkpoint.rpartition("/")
        name = name.replace("/", "-")
    if name not in models and with_home(checkpoint).is_dir():
        raise ModelError(f"{checkpoint} is a folder; name it open_clip:local-dir:{checkpoint}")
    if name not in models:
        check_folder(with_home(checkpoint))
        close = difflib.get_close_matches(name or checkpoint, models) or models[:3]
        raise ModelError(
            f"open_clip has no model {name or checkpoint!r}; perhaps {', '.join(close)}; see open_clip.list_models()"
        )
    tags = [known for model, known in library.list_pretrained() if model == name]
    if bool(tag) == bool(given):
        raise ModelError(
            f"{checkpoint} names {'two kinds of' if tag else 'no'} weights; say open_clip:{name}/TAG, with one of "
            f"{', '.join(tags) or '(none published)'}; or open_clip:{name} with the setting pretrained=FILE"
        )
    if given:
        file = with_home(given)
        if not file.is_file():
            raise ModelError(f"no file of weights at pretrained={given}")
        return WeightsSource(name, file=file, published=row or find_published(file))
    if not library.get_pretrained_cfg(name, tag):
        raise UnknownNameError(f"weights of {name}", tag, tags)
    return WeightsSource(name, tag=tag)


def _how_to_get(row: Published) -> str:
    """Return the advice for a published checkpoint that was named without a file of weights."""
    if row.load_as:
        return f"{row.title} is loaded as {row.load_as}; {row.note}"
    if not row.files:
        return f"the authors of {row.title} ({row.repository}) published no weights; docs/checkpoints.md lists others"
    return f"download the weights of {row.title} ({row.weights}), and add the setting pretrained=FILE"


def _create(library: Any, source: WeightsSource) -> tuple[Any, Any, Any, tuple[str, ...]]:
    """Return model in float32 on the CPU, tokenizer, transform of images, and what was changed in a file of weights."""
    with loading_errors(source.shown, "open_clip"), warnings.catch_warnings():
        _check_source(source)
        warnings.filterwarnings("ignore", "QuickGELU mismatch")  # `_activation` warns, also for files
        with _plain_weights(library, source) as (file, changes):
            model, _, preprocess = library.create_model_and_transforms(
                source.model, pretrained=file or source.tag, precision="fp32", device="cpu", require_pretrained=True
            )
        return model, library.get_tokenizer(source.model), preprocess, changes


def _check_source(source: WeightsSource) -> None:
    """Raise `ModelError` if a folder leads elsewhere, or a configuration holds more than the library needs."""
    scheme, _, path = source.model.partition(":")
    if scheme == "local-dir":
        check_folder(Path(path))
        check_config(read_json(Path(path, FILE)))
    elif scheme == "hf-hub":
        check_config(read_json(Path(hf_hub_download(path, FILE))))


@contextmanager
def _plain_weights(library: Any, source: WeightsSource) -> Iterator[tuple[str | None, tuple[str, ...]]]:
    """Yield a file that the library loads, if the source has one, and the changes made to the weights of the source."""
    if source.file is None or source.file.suffix in _ARRAYS:
        if source.file:
            check_file(source.file)
        yield str(source.file) if source.file else None, ()
        return
    weights = _as_scored(library, source, read_weights(source.file))
    if not weights.changes:
        yield str(source.file), ()
        return
    with TemporaryDirectory(prefix="vl-assay-") as folder:
        file = Path(folder) / f"{source.file.stem}.pt"
        torch.save(weights.state, file)
        yield str(file), weights.changes


def _as_scored(library: Any, source: WeightsSource, weights: Weights) -> Weights:
    """Return the weights as their authors score them, with as many positions of captions as the model has."""
    length = library.get_model_config(source.model)["text_cfg"].get("context_length", 77)
    share = source.published.openai_share if source.published else ""
    if share:
        weights = cut_positions(weights, length)
        base, _, _ = library.create_model_and_transforms(
            source.model, pretrained="openai", precision="fp32", device="cpu", require_pretrained=True
        )
        return mean_with(weights, base.state_dict(), float(share), f"{source.model}/openai")
    positions = weights.state.get("positional_embedding")
    if positions is not None and len(positions) > length:
        raise ModelError(
            f"{source.shown} reads {len(positions)} tokens of a caption, {source.model} only {length}, and open_clip "
            "would interpolate: name a model of that length, or use a conversion to transformers with the family clip"
        )
    return weights


def _activation(library: Any, model: Any, source: WeightsSource) -> dict[str, str]:
    """Return the model's activation, and whether its weights were trained with another one; warn if that may be."""
    quick = any(type(module).__name__ == "QuickGELU" for module in model.modules())
    trained: bool | None = quick
    if source.tag:
        trained = bool(library.get_pretrained_cfg(source.model, source.tag).get("quick_gelu"))
    elif source.file:
        stem = re.sub("[^a-z]", "", source.file.stem.lower())
        trained = True if any(mark in stem for mark in ("quickgelu", "openai")) else None
        if source.published and source.published.activation:
            trained = source.published.activation == QUICK
    names = {True: QUICK, False: "gelu"}
    plain = source.model.removesuffix("-quickgelu")
    if trained is None:
        warnings.warn(
            f"{source.shown}: computed with the activation {names[quick]}; with which one the weights were trained is "
            f"not known. Those trained from OpenAI's need {plain}-quickgelu, others {plain}; the wrong one gives other "
            "scores",
            stacklevel=3,
        )
    elif trained != quick:
        warnings.warn(
            f"{source.shown}: the weights were trained with the activation {names[trained]}, but this model computes "
            f"{names[quick]}, and its scores are others. {plain + '-quickgelu' if trained else plain} matches them; "
            "keep this one to compare with results that were published with the mismatch, such as NegCLIP's",
            stacklevel=3,
        )
    mismatch = "unknown" if trained is None else "no" if trained == quick else "yes"
    return {"activation": names[quick], "activation_mismatch": mismatch}


def _fingerprint(model: Any, source: WeightsSource) -> str:
    """Return a hash over all weights as loaded, in float32, and over the files of a local folder (its tokenizer)."""
    digest = hashlib.sha256()
    if source.model.startswith("local-dir:"):
        digest.update(folder_hash(Path(source.model.partition(":")[2])).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().numpy())
    return f"sha256:{digest.hexdigest()}"
