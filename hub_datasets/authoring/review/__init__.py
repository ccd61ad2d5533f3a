"""The review page: people judge captions, compare them, and draw boxes, in the browser."""
