"""Counts that authors published with their predictions."""

# The counts of GPT-4V's released answers, negative caption first: right, examples.
GPT4V = {
    "swap_att": (593, 666),
    "add_att": (666, 692),
    "add_obj": (1918, 2062),
    "replace_att": (740, 788),
    "replace_obj": (1604, 1652),
    "replace_rel": (1298, 1406),
    "swap_obj": (198, 246),
}
