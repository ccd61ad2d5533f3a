"""The leaderboard: `board` holds its data, `pages` shows them, `submissions` handles uploads, `storage` stores them."""
