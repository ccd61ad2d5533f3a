"""The report of contamination: which examples of benchmarks a training set has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics.common.documents import Fold, Part, Verdict, simple_table
from ...metrics.common.formatting import MISSING, percent
from .contamination import EXAMPLE_KINDS

_HITS_SHOWN = 100
_HEADINGS = {
    "image_exact": "same image",
    "image": "similar image",
    "caption_exact": "same caption",
    "caption": "similar caption",
    "both": "image and caption",
    "any": "any",
    "negative_caption": "negative caption",
}


def contamination_parts(record: Mapping[str, Any]) -> list[Part]:
    """The contamination as a document, its verdict first."""
    settings, counts = record["settings"], record["counts"]
    total = {name: sum(part[name] for part in record["parts"].values()) for name in ("examples", "both", "any")}
    rows = []
    for name, part in record["parts"].items():
        cells = []
        for kind in (*EXAMPLE_KINDS, "negative_caption"):
            of = part["with_images"] if kind in ("image_exact", "image", "both") else part["examples"]
            cells.append(f"{part[kind]:,} ({percent(part[kind] / of)} %)" if of else MISSING)
        rows.append((name, f"{part['examples']:,}", f"{part['with_images']:,}", *cells))
    images = f"{counts.get('images', 0):,} images" if "images" in counts else "images not looked for"
    near = (
        f"similar images: cosine ≥ {settings['image_similarity']:g} by {settings['image_model']}"
        if settings["image_model"]
        else "similar images not looked for (--image-model)"
    )
    share = percent(total["any"] / max(total["examples"], 1))
    verdict = (
        f"{total['any']:,} of {total['examples']:,} examples ({share} %) have an image or a positive caption in the "
        f"training set, {total['both']:,} both."
    )
    return [
        Verdict(verdict, is_warning=total["any"] > 0),
        f"The training set has {counts.get('captions', 0):,} captions and {counts.get('without a caption', 0):,} rows "
        f"without one; {images}, {counts.get('without an image', 0):,} rows without one and "
        f"{counts.get('unreadable images', 0):,} that cannot be read.",
        simple_table(
            ["benchmark", "examples", "with images", *_HEADINGS.values()],
            rows,
            title="Examples in the training set",
            numbers=True,
            note=f"Similar captions: Jaccard index of pairs of neighbouring words ≥ {settings['resemblance']:g}; "
            f"{near}. What is the same is similar, too. Shares of images are of the examples with images, others of "
            "all examples; captions are positive ones, but for the last column.",
        ),
        *_hits(record["hits"]),
    ]


def _hits(hits: list[dict[str, Any]]) -> list[Part]:
    """The most similar hits; all are in the JSON."""
    shown = sorted(hits, key=lambda hit: (hit["is_negative"], -hit["similarity"]))[:_HITS_SHOWN]
    rows = [
        (
            f"{hit['part']} {hit['example']}",
            hit["kind"].replace("_", " ") + (", negative" if hit["is_negative"] else ""),
            f"{hit['similarity']:.3f}",
            f"{hit['rows']:,}",
            f"{hit['shard']}, row {hit['row']}",
            hit["text"] or "",
        )
        for hit in shown
    ]
    headings = ["example", "kind", "similarity", "rows", "most similar row", "its caption"]
    title = f"Found ({len(shown):,} of {len(hits):,}; contamination.json has all)"
    return [Fold(title, (simple_table(headings, rows),))] if rows else []
