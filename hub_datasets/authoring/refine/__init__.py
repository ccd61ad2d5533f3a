"""Adversarial refinement: remove what blind models can tell."""
