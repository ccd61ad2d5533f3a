"""Small sources in SugarCrepe's layout."""

from conftest import make_sugarcrepe

CATEGORIES = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")


def make(folder):
    """Lay out the files; the options with which they are built."""
    make_sugarcrepe(folder, rows=6, images=4, categories=CATEGORIES)
    return {"verify": False}
