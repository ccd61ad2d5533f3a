"""Training data: captions, hard negatives, batches, mining."""
