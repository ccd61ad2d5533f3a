"""The leaderboard's data: entries, the values of papers and shipped results, pairwise tests, and the combined table."""
