"""Predictions read from the files of any system."""
