"""Error analysis: the examples that models get wrong, what goes with their errors, and a page to look at them."""
