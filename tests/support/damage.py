"""Damage to files, as a disk or a careless copy does it."""

from __future__ import annotations


def flipped(content, rng):
    """The content with one bit flipped; `rng` is a NumPy generator."""
    changed = bytearray(content)
    changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)
