"""What the families of `transformers` share: checkpoints, torch models, detectors."""
