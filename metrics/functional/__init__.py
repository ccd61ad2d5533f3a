"""The arithmetic of the scores, by task, in plain NumPy."""
