"""The leaderboard: `board` holds its data, `pages` shows them, `submissions` takes uploads, `storage` keeps them."""
