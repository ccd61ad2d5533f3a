"""Counts that authors published with their predictions."""

# The counts of GPT-4V's released answers, negative caption first, in the order of the cards: right, examples.
GPT4V = {
    "replace_obj": (1604, 1652),
    "replace_att": (740, 788),
    "replace_rel": (1298, 1406),
    "swap_obj": (198, 246),
    "swap_att": (593, 666),
    "add_obj": (1918, 2062),
    "add_att": (666, 692),
}
