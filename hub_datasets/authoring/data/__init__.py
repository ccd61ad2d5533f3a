"""Caption pairs, candidates and the tables that they are read from."""
