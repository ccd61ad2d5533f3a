"""Making test and training material out of captions: tags, order perturbations, negatives made by rule."""
