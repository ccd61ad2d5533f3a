"""Images of noise in place of photographs."""

import numpy as np
from PIL import Image


def write_noise(paths, height, width):
    """Write an image to each path, no two of them alike."""
    rng = np.random.default_rng(0)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path)
