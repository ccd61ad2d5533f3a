"""The columns of the datasets: one of a given name has the same type in every benchmark."""

from __future__ import annotations

from typing import Any

import datasets

_TEXT, _IMAGE = datasets.Value("string"), datasets.Image()
_INT32, _FLAG = datasets.Value("int32"), datasets.Value("bool")
_PHRASE = {"text": _TEXT, "start": _INT32, "end": _INT32, "phrase_id": _INT32, "boxes": [[datasets.Value("float64")]]}
_LISTS = ("captions", "negative_captions", "hard_negatives", "perturbations", "attributes", "tags", "defects")
# The types of the columns that are not text.
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("image", *(f"image_{number}" for number in range(10))), _IMAGE),
    **{name: [_TEXT] for name in _LISTS},
    **dict.fromkeys(("positive", "overruns", "answer", "testable"), _FLAG),
    **dict.fromkeys(("width", "height", "complexity", "text_index", "num_main_preds"), _INT32),
    "unchanged": [_INT32],
    "seed": datasets.Value("int64"),
    "bbox": [datasets.Value("float32")],
    "phrases": [_PHRASE],
}
GROUP = "image_0 filename_0 caption_0 image_1 filename_1 caption_1"
DETECTION = "image filename caption phrases positive pair_id type width height overruns"


def columns(names: str) -> dict[str, Any]:
    """Return the features of columns whose names are separated by spaces."""
    return {name: _TYPES.get(name, _TEXT) for name in names.split()}
