"""Shared by the families of `transformers`: checkpoints, torch models, detectors."""
