"""Why do models behave like bags of words? Retrieval with and without order, beside order itself (ARO, section 3.1)."""
