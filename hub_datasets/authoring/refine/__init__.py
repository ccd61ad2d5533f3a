"""Adversarial refinement: filter a benchmark so that blind models are at chance."""
