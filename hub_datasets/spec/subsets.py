"""The subsets of SPEC, and how many captions or images a row of each chooses from."""

SUBSETS = {
    "existence": 2,
    "relative_spatial": 4,
    "absolute_size": 3,
    "relative_size": 3,
    "count": 9,
    "absolute_spatial": 9,
}
