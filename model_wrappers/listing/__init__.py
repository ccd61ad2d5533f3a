"""The list of benchmarks, metrics and model families."""
