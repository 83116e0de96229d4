"""The number that stands for a missing value in columns of integers."""

# Ids and times stay int64 without a round trip through floats. It is the smallest int64.
MISSING = -(2**63)
