"""Audit: what a blind model can tell of the labels."""
