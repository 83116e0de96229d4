"""Numbers and texts on which several packages agree."""

# The number that stands for a missing value in columns of integers: the smallest int64. So columns of ids and
# times stay int64 and need no NaN.
MISSING = -(2**63)
# Prefix of the NVTX marks that ``nsyswrap.measure`` writes and reports read. The rest of the text is JSON.
MEASURE_MARK = "nsyswrap.measure "
# Major version of CUDA -> the nsys release that came with its first release.
FIRST_NSYS = {12: (2022, 4), 13: (2025, 3)}
NS_PER_S = 10**9
