"""Small sources in SugarCrepe's layout."""

from conftest import make_sugarcrepe

CATEGORIES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
CONFIGS = CATEGORIES
PLACES = {"data": (".",), "val2017": ("images/val2017", ".")}


def make(folder):
    """Lay out the files; the options with which they are built."""
    make_sugarcrepe(folder, rows=6, images=6, categories=CATEGORIES)
    return {"verify": False}
