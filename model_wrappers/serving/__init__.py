"""Parse the answers of served models into scores."""
