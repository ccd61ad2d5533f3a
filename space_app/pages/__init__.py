"""What the leaderboard shows: one module per page, and what they share: `common`, `plots`, templates."""
