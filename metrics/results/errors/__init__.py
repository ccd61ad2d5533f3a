"""Error analysis: the examples that models get wrong, features associated with errors, and a page of examples."""
