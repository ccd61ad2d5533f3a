"""Sources of the released benchmarks: files, archives, datasets of the Hub, and builders that read them."""
