"""The papers' tables, recomputed."""
