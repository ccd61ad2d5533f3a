"""Tasks, examples and builds of any benchmark."""
