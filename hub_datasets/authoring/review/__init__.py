"""Human review of candidates in a browser, with agreement between annotators."""
