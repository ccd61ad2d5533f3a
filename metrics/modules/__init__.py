"""`evaluate` modules: discovery, inputs, citations and the page of a Space."""
