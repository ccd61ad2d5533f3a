"""Cluster bootstrap, paired differences and permutation tests over example weights."""
