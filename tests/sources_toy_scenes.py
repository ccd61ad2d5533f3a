"""toy_scenes needs no sources."""


def make(folder):
    """Nothing to lay out; the options of a build for scoring."""
    return {"train_scenes": 0}
