"""The two file formats: predictions and results, with their schemas."""
