"""Models behind servers for chat completions: the client, and calls that are journaled and retried."""
