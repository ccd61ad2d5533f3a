"""Text of captions: tagging, perturbation, negatives, articles, normalisation."""
