"""The papers' tables as data, and their loader."""
