"""Training sets of up to 10⁹ captions, shard by shard: statistics, audits, candidates and contamination."""
