"""The pages of the leaderboard: one module for each, and shared by them `common`, `plots`, templates."""
