"""Damage to files, as a disk or a careless copy does it."""

from pathlib import Path


def flipped(content, rng):
    """The content with one bit flipped; `rng` is a NumPy generator."""
    changed = bytearray(content)
    changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


class Evil:
    """Creates the file `unpickled` in the working folder when a pickle of it is read."""

    def __reduce__(self):
        return Path.touch, (Path("unpickled"),)
