"""The leaderboard Space; see the changelog for what it can do so far."""
