"""Studies: questions of the papers, asked on the toy world or on the models that are given."""
