"""Hard negatives and hard positives by rules or by a language model."""
