"""The configurations of CREPE: its two tests, by kind of negative and training set."""

# As in the release's file names; its training sets are CC12M, YFCC15M and LAION400M.
TRAINING_SETS = ("cc12m", "yfcc", "laion")
SYSTEMATICITY_KINDS = ("atom", "comp", "combined")
# The release calls "atom" what its paper and this package call replacing.
PRODUCTIVITY_KINDS = {"replace": "atom", "swap": "swap", "negate": "negate"}
SYSTEMATICITY = {f"systematicity_{kind}_{name}": (kind, name) for kind in SYSTEMATICITY_KINDS for name in TRAINING_SETS}
PRODUCTIVITY = {f"productivity_{kind}": name for kind, name in PRODUCTIVITY_KINDS.items()}
