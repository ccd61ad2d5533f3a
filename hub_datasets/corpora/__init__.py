"""Training sets shard by shard: which examples of benchmarks they contain, and candidates made by rule."""
