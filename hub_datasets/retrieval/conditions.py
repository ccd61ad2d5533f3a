"""What is shuffled in retrieval without order (ARO, section 3.1), for scripts too: see `authoring.text.perturb`."""

UNSHUFFLED = "none"
CLEANED = "cleaned"
TEXT_SHUFFLES = (
    "shuffle_nouns_and_adjectives",
    "shuffle_all_but_nouns_and_adjectives",
    "shuffle_within_trigrams",
    "shuffle_trigrams",
    "shuffle_all_words",
)
IMAGE_SHUFFLES = ("shuffle_rows_4", "shuffle_columns_4", "shuffle_patches_9")
CONDITIONS = (UNSHUFFLED, CLEANED, *TEXT_SHUFFLES, *IMAGE_SHUFFLES)
