"""Hypothesis with the same examples in every run."""

from hypothesis import settings

FIXED = settings(derandomize=True, deadline=None, database=None)
FILES = settings(FIXED, max_examples=min(30, FIXED.max_examples))  # for tests that write an export for each
