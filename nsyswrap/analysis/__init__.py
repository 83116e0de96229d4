"""Quantities computed from the columns of a capture."""
