"""The shuffles of retrieval without order (ARO, section 3.1): see `authoring.text.perturb`."""

UNSHUFFLED = "none"
CLEANED = "cleaned"
# Shuffles of words, the negatives of ARO's order tasks; the last one is used only for retrieval.
SHUFFLES = (
    "shuffle_nouns_and_adjectives",
    "shuffle_all_but_nouns_and_adjectives",
    "shuffle_within_trigrams",
    "shuffle_trigrams",
)
TEXT_SHUFFLES = (*SHUFFLES, "shuffle_all_words")
# Columns and rows of the grid whose cells are permuted.
IMAGE_SHUFFLES = {"shuffle_rows_4": (1, 4), "shuffle_columns_4": (4, 1), "shuffle_patches_9": (3, 3)}
CONDITIONS = (UNSHUFFLED, CLEANED, *TEXT_SHUFFLES, *IMAGE_SHUFFLES)
