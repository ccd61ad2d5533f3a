"""`evaluate` modules: discovery, inputs and the page of a Space."""
