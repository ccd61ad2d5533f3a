"""Evaluation of predictions with the knowledge of the benchmarks: captions, images, parts of tasks and skills."""
