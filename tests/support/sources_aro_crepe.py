"""Small sources of ARO+CREPE: those of SugarCrepe, whose captions it takes."""

from sources_sugarcrepe import PLACES, make

__all__ = ["PLACES", "make"]
