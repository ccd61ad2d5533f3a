"""toy_scenes needs no sources."""


def make(folder):
    """Nothing to lay out; the options of a build for scoring."""
    return {"train_scenes": 0}


def shrink(patch, test=24):
    """Fewer scenes, which show as well what holds of a build."""
    from vl_assay.hub_datasets.toy_scenes import builder

    patch.setattr(builder, "SIZES", {"validation": 2, "test": test})
    patch.setattr(builder, "RETRIEVAL_SIZES", {"validation": 2, "test": test // 4})
    # What comes with the package has all of them.
    patch.setattr("vl_assay.hub_datasets.core.examples.shipped_build", lambda name: None)
