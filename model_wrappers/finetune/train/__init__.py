"""Training: losses, recipes, steps, checkpoints, validation."""
