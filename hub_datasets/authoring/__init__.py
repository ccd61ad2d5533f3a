"""Making benchmarks of captions: pairs, audit, refinement, candidates and their review; tags, perturbations, rules."""
