"""The study of hard positives on the toy world."""
