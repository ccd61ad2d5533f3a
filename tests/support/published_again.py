"""The papers' tables, typed a second time from the papers' text, apart from ``hub_datasets._published``.

A table is its headers and its rows of ``label | values``, both in the order of the paper; `AGAIN` has them by name. A
line with a colon at its end opens a group of rows. "-" is a cell without a value. Left out are the differences in
brackets of the Hard Positives paper, which repeat what its other columns say, and the sizes of SugarCrepe's models.
"""

from __future__ import annotations

from typing import NamedTuple


class Typed(NamedTuple):
    """A table as its paper prints it."""

    headers: list[str]
    rows: str

    def values(self) -> dict[tuple[str, str], str]:
        """What stands in each cell that is not empty, by row and header, in the paper's order."""
        found, group = {}, ""
        for line in self.rows.strip().splitlines():
            label, separator, values = (part.strip() for part in line.partition(" | "))
            if not separator:
                group = f"{label.removesuffix(':')} / "
                continue
            cells = dict(zip(self.headers, values.split(), strict=True))
            found |= {(group + label, header): value for header, value in cells.items() if value != "-"}
        return found


_SKILLS = ["REPLACE Object", "REPLACE Attribute", "REPLACE Relation", "SWAP Object", "SWAP Attribute"]
_SUGARCREPE_6 = """
Human | 100 99 97 99 100 99 99 -
Text-only model:
Vera [27] | 49.39 49.62 49.36 49.19 49.40 49.42 49.57 49.42
Grammar [31] | 50.00 50.00 50.00 50.00 50.00 50.00 50.00 50.00
OpenAI [36]:
RN50 | 91.77 80.58 69.99 61.79 68.47 74.54 69.65 73.83
RN101 | 92.49 83.88 67.07 56.50 65.92 75.46 70.09 73.06
ViT-B-32 | 90.92 80.08 69.20 61.38 63.96 77.21 68.79 73.08
ViT-B-32-negclip | 92.68 85.91 76.46 75.20 75.38 88.80 82.80 82.46
RN50x4 | 92.68 82.99 67.57 65.04 63.36 79.34 70.09 74.44
RN50x16 | 93.46 82.11 69.20 63.01 65.77 80.70 75.87 75.73
ViT-L-14 | 94.07 79.19 65.15 60.16 62.31 78.32 71.53 72.96
RN50x64 | 94.49 83.50 70.63 61.79 66.67 83.27 73.99 76.33
LAION [42]:
roberta-ViT-B-32 | 92.86 84.90 72.40 63.01 71.02 87.34 79.91 78.78
ViT-H-14 | 96.49 84.77 71.76 67.48 73.12 92.05 85.84 81.64
ViT-g-14 | 95.76 85.03 72.40 63.01 71.17 91.51 82.08 80.14
ViT-bigG-14 | 96.67 88.07 74.75 62.20 74.92 92.19 84.54 81.91
xlm-roberta-base-ViT-B-32 | 93.16 84.01 69.20 63.41 67.57 87.78 81.07 78.03
xlm-roberta-large-ViT-H-14 | 96.85 86.04 72.05 63.82 72.07 93.11 86.13 81.44
DataComp [14]:
small: ViT-B-32 | 56.90 56.85 51.99 50.81 50.00 53.93 60.55 54.43
medium: ViT-B-32 | 77.00 69.54 57.68 57.72 57.06 66.73 64.88 64.37
large: ViT-B-16 | 92.68 79.82 63.94 56.10 57.66 84.34 78.61 73.31
xlarge: ViT-L-14 | 95.52 84.52 69.99 65.04 66.82 91.03 84.97 79.70
OpenAI:
GPT-4V [33] | 96.31 93.53 90.26 83.13 90.09 91.59 91.76 90.95
"""

_ARO_2 = """
Accuracy | 0.59 0.8 0.64 0.73 0.59 0.24 -
Spatial Relationships Accuracy | 0.56 0.66 0.57 0.74 0.66 0.34 -
above | 0.48 0.60 0.54 0.80 0.64 0.55 269
at | 0.59 0.93 0.71 0.72 0.49 0.15 75
behind | 0.56 0.29 0.34 0.82 0.77 0.28 574
below | 0.56 0.46 0.48 0.74 0.69 0.44 209
beneath | 0.80 0.70 0.70 0.80 0.70 0.40 10
in | 0.63 0.89 0.63 0.73 0.72 0.09 708
in front of | 0.54 0.75 0.70 0.66 0.55 0.78 588
inside | 0.50 0.91 0.67 0.69 0.72 0.12 58
on | 0.52 0.86 0.58 0.86 0.76 0.12 1684
on top of | 0.43 0.75 0.58 0.85 0.79 0.19 201
to the left of | 0.49 0.50 0.50 0.52 0.51 0.50 7741
to the right of | 0.49 0.50 0.50 0.52 0.49 0.51 7741
under | 0.64 0.43 0.54 0.86 0.73 0.27 132
Verbs Accuracy | 0.61 0.86 0.66 0.73 0.56 0.2 -
carrying | 0.33 0.83 0.75 0.75 0.67 0.08 12
covered by | 0.47 0.36 0.36 0.61 0.58 0.56 36
covered in | 0.79 0.50 0.50 0.14 0.29 0.14 14
covered with | 0.56 0.56 0.50 0.56 0.50 0.19 16
covering | 0.39 0.58 0.45 0.67 0.55 0.06 33
cutting | 0.75 0.83 0.83 0.67 0.25 0.00 12
eating | 0.57 1.00 0.67 0.62 0.52 0.00 21
feeding | 0.90 0.80 0.80 0.60 0.30 0.20 10
grazing on | 0.10 0.90 0.30 0.60 0.40 0.50 10
hanging on | 0.79 1.00 0.93 0.93 0.79 0.00 14
holding | 0.58 0.97 0.79 0.67 0.44 0.27 142
leaning on | 0.67 1.00 1.00 0.75 0.58 0.08 12
looking at | 0.84 1.00 0.68 0.68 0.55 0.26 31
lying in | 0.47 1.00 0.60 0.87 0.67 0.00 15
lying on | 0.60 0.88 0.50 0.93 0.75 0.17 60
parked on | 0.67 0.86 0.38 0.76 0.86 0.00 21
reflected in | 0.64 0.71 0.57 0.50 0.43 0.43 14
resting on | 0.38 0.85 0.23 0.92 0.54 0.15 13
riding | 0.71 0.98 0.78 0.82 0.41 0.02 51
sitting at | 0.62 1.00 0.88 0.88 0.46 0.00 26
sitting in | 0.57 0.96 0.78 0.87 0.83 0.30 23
sitting on | 0.58 0.97 0.78 0.94 0.73 0.14 175
sitting on top of | 0.50 0.90 0.80 1.00 0.80 0.10 10
standing by | 0.67 0.92 0.67 0.83 0.67 0.67 12
standing in | 0.73 0.98 0.69 0.69 0.49 0.05 59
standing on | 0.60 1.00 0.63 0.83 0.73 0.06 52
surrounded by | 0.64 0.71 0.64 0.71 0.64 0.79 14
using | 0.84 1.00 1.00 0.68 0.58 0.00 19
walking in | 0.70 1.00 0.70 0.60 0.50 0.00 10
walking on | 0.79 1.00 0.79 0.84 0.42 0.05 19
watching | 0.45 0.55 0.27 0.59 0.68 0.36 22
wearing | 0.47 0.99 0.88 0.68 0.48 0.64 949
"""

_ARO_5 = """
Flickr30k-PRC:
BLIP | 0.369±0.009
CLIP | 0.595±0.006
Flava | 0.129±0.005
XVLM | 0.473±0.003
Chance-level | 0.2
COCO-PRC:
BLIP | 0.321±0.001
CLIP | 0.460±0.001
Flava | 0.039±0.001
XVLM | 0.362±0.003
Chance-level | 0.2
"""

_ARO_6 = """
VG-Relation | 0.59 0.63 0.81
VG-Attribution | 0.62 0.65 0.71
Flickr30k-PRC | 0.59 0.50 0.91
COCO-PRC | 0.46 0.36 0.86
CIFAR10 | 0.95 0.95 0.94
CIFAR100 | 0.80 0.80 0.79
ImageNet | 0.75 0.74 0.72
Flickr30k Image R@1 | 0.59 0.67 0.67
Flickr30k Text R@1 | 0.78 0.83 0.79
COCO Image R@1 | 0.30 0.42 0.41
COCO Text R@1 | 0.50 0.59 0.56
"""

_SPLITS = ["Wino", "COCO objects", "COCO relations", "All"]
_TRICD_3 = """
Grounding models:
MDETR | 10.1 3.9 20.4 10.7
GLIP-T | 14.7 22.5 25.1 16.8
GLIP-L | 18.1 26.9 28.6 20.1
FIBER | 19.1 25.3 31.6 21.5
Open vocabulary detection models:
OWL-ViT | 6.3 13.7 16.3 7.9
DETIC | 8.7 27.0 19.7 11.6
"""
_TRICD_4 = """
Models fine-tuned on VQA:
OFA | 54.3 71.7 67.7 62.0 77.2
FIBER | 58.5 75.4 74.7 66.7 74.8
Flamingo3B | 51.7 75.3 74.2 63.3 -
Model only pre-trained on general image-text data:
Flamingo80B | 48.2 56.4 52.3 52.1 -
"""
_TRICD_5 = """
Grounding models:
MDETR | 75.8 45.0 80.0 72.0 84.3
GLIP-T | 70.6 62.7 82.2 71.7 85.7
GLIP-L | 76.2 71.7 86.0 77.5 87.1
FIBER | 74.8 68.5 85.6 76.0 87.4
Open vocabulary detection models:
OWL-VIT | 62.3 72.0 78.2 66.9 -
DETIC | 51.9 70.6 67.7 57.9 -
"""
_TRICD_6 = """
Grounding models:
MDETR | 44.3 30.7 50.1 43.4
GlipT | 39.4 45.2 46.9 41.8
GlipL | 42.4 58.5 52.3 46.8
FIBER | 42.4 55.8 54.1 46.8
Open vocabulary detection models:
OWL-VIT | 35.4 53.7 48.5 40.8
DETIC | 29.2 63.2 40.5 36.6
"""

_TRICD_8 = """
Grounding models:
MDETR | 6.9 17.8 14.1
GLIP-T | 22.8 22.6 21.4
GLIP-L | 30.2 26.3 26.0
FIBER | 19.6 28.2 25.8
Open vocabulary detection models:
OWL-VIT | 9.6 12.0 11.2
DETIC | 19.9 21.9 20.4
"""

_TRIPLES = [
    "REPLACE Orig. Test Acc.",
    "REPLACE Aug. Test Acc.",
    "SWAP Orig. Test Acc.",
    "SWAP Aug. Test Acc.",
    "REPLACE Brittleness",
    "SWAP Brittleness",
]
_HALVES = [
    "REPLACE-Rel Orig. Test Acc.",
    "REPLACE-Rel Aug. Test Acc.",
    "REPLACE-Att Orig. Test Acc.",
    "REPLACE-Att Aug. Test Acc.",
    "REPLACE-Rel Brittleness",
    "REPLACE-Att Brittleness",
]
_HARD_POSITIVES_1 = """
CLIP ViT-B/32 | 61.6 46.8 60.5 49.6 23.2 21.7
NegCLIP | 68.6 52.1 70.9 56.7 21.5 26.4
CREPE-Swap | 63.5 50.4 70.6 56.7 19.8 26.0
CREPE-Replace | 73.7 53.9 71.1 57.7 23.9 25.4
SVLC | 76.6 44.5 72.4 61.6 39.9 20.8
SVLC+Pos | 64.3 45.0 56.5 45.4 29.8 22.8
DAC-LLM | 87.6 48.9 72.0 61.1 40.1 21.6
DAC-SAM | 86.9 55.9 69.5 56.5 32.5 25.6
Our HN | 73.9 55.7 74.3 60.5 21.0 25.1
Our HP+HN | 69.0 58.0 73.2 61.1 16.9 22.9
Our HP+HN (Swap-only) | 63.9 51.6 73.0 61.9 18.6 21.2
Our HP+HN (Replace-only) | 70.9 59.0 69.7 55.6 17.8 26.5
Random Chance | 50.0 33.3 50.0 33.3 33.3 33.3
Human Estimate | 97 97 100 100 0 0
"""
_HARD_POSITIVES_7 = """
CLIP ViT-B/32 | 57.6 45.3 68.1 49.0 21.7 25.5
NegCLIP | 65.6 48.2 73.4 58.2 22.3 20.3
CREPE-Swap | 56.6 43.0 74.4 62.2 21.2 17.6
CREPE-Replace | 70.5 49.4 78.8 61.1 25.3 21.6
SVLC | 72.0 42.1 83.8 48.2 41.6 37.3
SVLC+Pos | 62.1 44.7 68.0 45.6 30.3 29.0
DAC-LLM | 88.1 51.5 86.8 44.9 38.4 42.7
DAC-SAM | 89.2 59.6 86.9 55.9 31.2 32.5
Our HN | 71.6 52.6 77.5 60.8 23.5 21.0
Our HP+HN | 65.5 51.9 74.5 67.7 19.9 12.2
Our HP+HN (Swap-only) | 57.0 44.4 75.1 63.1 19.4 17.2
Our HP+HN (Replace-only) | 68.8 53.7 74.2 67.3 21.0 12.7
Random Chance | 50.0 33.3 50.0 33.3 33.3 33.3
Human Estimate | 97 97 100 100 0 0
"""
_HARD_POSITIVES_8 = """
CLIP ViT-B/32 | 61.6 46.8 60.5 49.6 23.2 21.7
CLIP ViT-B/16 | 61.8 45.0 61.1 51.1 24.8 19.8
CLIP ViT-L/14 | 64.2 48.4 61.1 49.9 24.0 21.9
OpenCLIP ViT-H/14 | 56.5 43.7 62.9 51.7 20.5 21.7
OpenCLIP ViT-g/14 | 59.5 45.8 63.5 52.1 22.2 22.4
OpenCLIP ViT-G/14 | 58.6 44.4 61.9 50.5 22.9 22.4
RoBERTa-CLIP ViT-B/32 | 57.5 44.3 48.7 29.4 28.7 40.3
DataComp-CLIP ViT-B/32 | 53.0 42.4 58.5 44.8 21.2 27.1
DataComp-CLIP ViT-B/16 | 51.7 40.8 56.8 43.6 21.5 26.5
DataComp-CLIP ViT-L/14 | 55.7 42.7 60.0 47.6 22.0 24.2
CLIP-RN50x16 | 63.2 45.8 62.2 51.9 24.9 20.0
CLIP-RN50x64 | 66.3 49.2 62.2 51.3 25.4 21.1
CLIP-RN101 | 58.3 43.9 61.9 52.0 23.2 19.3
XVLM-16M* | 72.9 63.8 89.3 84.8 16.3 8.1
Random Chance | 50.0 33.3 50.0 33.3 33.3 33.3
Human Estimate | 97 97 100 100 0 0
"""

AGAIN = {
    "sugarcrepe-6": Typed([*_SKILLS, "ADD Object", "ADD Attribute", "Average"], _SUGARCREPE_6),
    "aro-2": Typed(["CLIP", "NegCLIP", "CLIP-FT", "XVLM", "BLIP", "Flava", "# Samples"], _ARO_2),
    "aro-5": Typed(["Accuracy"], _ARO_5),
    "aro-6": Typed(["CLIP", "CLIP-FT", "NegCLIP"], _ARO_6),
    "tricd-3": Typed(_SPLITS, _TRICD_3),
    "tricd-4": Typed([*_SPLITS, "GQA “Exists” Testdev"], _TRICD_4),
    "tricd-5": Typed([*_SPLITS, "Flickr30k Test"], _TRICD_5),
    "tricd-6": Typed(_SPLITS, _TRICD_6),
    "tricd-8": Typed(_SPLITS[1:], _TRICD_8),
    "hard-positives-1": Typed(_TRIPLES, _HARD_POSITIVES_1),
    "hard-positives-7": Typed(_HALVES, _HARD_POSITIVES_7),
    "hard-positives-8": Typed(_TRIPLES, _HARD_POSITIVES_8),
}
