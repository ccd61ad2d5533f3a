"""Small sources in ImageCoDe's layout: sets of ten images, whose numbers are those of frames in a video's set."""

import json
from dataclasses import dataclass
from pathlib import Path

from noise import write_noise

PLACES = {"data": (".",), "image-sets": ("data/image-sets", "data", ".")}
VIDEO, PHOTOGRAPHS = "MSR-VTT-videoTestVideo_video1-shot1_0", "open-images-1_0a"
# The numbers in the names of the sets' images; as texts they sort otherwise.
NUMBERS = {VIDEO: [0, *range(4, 13)], PHOTOGRAPHS: list(range(10)), "YouCook-video2-shot3_0": [*range(90, 100)]}
TEXTS = {
    "valid": {
        VIDEO: {"7": "The hand is behind the bowl. ", "8": "The hand is gone."},
        PHOTOGRAPHS: {"2": "A duck with its bill pointed down.", "0": "T"},
    },
    "train": {"YouCook-video2-shot3_0": {"9": "The spoon is above the salad.", "0": "No spoon can be seen."}},
}


def make(folder):
    (folder / "data").mkdir()
    for config, sets in TEXTS.items():
        (folder / "data" / f"{config}_data.json").write_text(json.dumps(sets), encoding="utf-8")
    write_noise([folder / "image-sets" / name / f"img{n}.jpg" for name in NUMBERS for n in NUMBERS[name]], 12, 16)
    return {"verify": False}


@dataclass(frozen=True)
class Placed:
    """An image under the name of its place in its set; a file that is gone would change the places of others."""

    file: Path
    name: str

    def read_bytes(self):
        return self.file.read_bytes()

    def write_bytes(self, content):
        self.file.write_bytes(content)

    def unlink(self):
        self.write_bytes(b"")


def stored(folder):
    """The images by their places."""
    found = [(path, name) for name in NUMBERS for path in folder.rglob(f"{name}/*.jpg")]
    return sorted(
        (Placed(path, f"{name}_{NUMBERS[name].index(int(path.stem[3:]))}.jpg") for path, name in found),
        key=lambda each: each.name,
    )
