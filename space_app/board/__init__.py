"""The leaderboard's tables: entries, catalogue, launch rows and paired tests."""
