"""Where submissions are kept: a folder or a Hub dataset."""
