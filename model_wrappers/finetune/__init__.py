"""Fine-tune a dual encoder for composition: losses, training data, mining, recipes and the trainer."""
