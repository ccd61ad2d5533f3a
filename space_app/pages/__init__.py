"""The pages of the leaderboard: one module for each, and the shared modules `common`, `plots` and templates."""
