"""The leaderboard's data: entries, the papers' and shipped ones, pairwise tests, and the table of all of them."""
