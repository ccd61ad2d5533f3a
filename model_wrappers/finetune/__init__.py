"""Fine-tune a dual encoder for composition: losses, training data, mining, recipes, the trainer and a study."""
