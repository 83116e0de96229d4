"""The NVTX marks that ``nsyswrap.measure`` leaves in a capture and that reports read."""

MEASURE_MARK = "nsyswrap.measure "  # how the text of a mark begins; the rest is JSON
