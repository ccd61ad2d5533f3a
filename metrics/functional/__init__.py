"""The arithmetic of the metrics, by task type, in plain NumPy."""
