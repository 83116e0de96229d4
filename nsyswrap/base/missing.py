"""The number that stands for a missing value in columns of integers."""

# The smallest int64: columns of ids and times stay int64 and need no NaN.
MISSING = -(2**63)
