"""toy_order needs no sources."""


def make(folder):
    return {}


def shrink(patch, retrieval=20, order=40):
    """Fewer scenes, which show as well what holds of a build."""
    from vl_assay.hub_datasets.toy_order import builder

    patch.setattr(builder, "SIZES", {"retrieval": retrieval, "order": order})
