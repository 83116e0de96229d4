"""The NVTX marks that ``nsyswrap.measure`` writes into a capture and that reports read."""

MEASURE_MARK = "nsyswrap.measure "  # prefix of a mark's text; the rest is JSON
