"""A small copy of a labelled set: a table of files and labels, and their images."""

from noise import write_noise

CONFIGS = ["folder"]
PLACES = {"test": ("folder/test", "validation", ".")}
LABELS = ("tabby_cat", "dog", "tabby_cat", "fire engine", "dog", "dog", "fire engine")


def make(folder):
    """Lay out the files; no options."""
    (folder / "test").mkdir()
    table = "".join(f"{number}.jpg,{label}\n" for number, label in enumerate(LABELS))
    (folder / "test" / "metadata.csv").write_text("file_name,label\n" + table, encoding="utf-8")
    write_noise([folder / "test" / f"{number}.jpg" for number in range(len(LABELS))], 25, 34)
    return {}
