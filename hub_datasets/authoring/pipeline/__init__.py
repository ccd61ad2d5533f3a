"""`new-benchmark`: generate, review, refine, audit and package in one resumable command."""
