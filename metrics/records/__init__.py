"""The two files that carry numbers: predictions and results, with their schemas."""
