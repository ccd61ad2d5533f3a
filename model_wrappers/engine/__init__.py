"""The engine: protocol of a model, scoring plan, pipeline, cache, distributed runs and their commands."""
