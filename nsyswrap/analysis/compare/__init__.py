"""Compare two sides of runs: what changed, by how much, and whether it exceeds the noise between runs.

A side is one or several runs of the same program. ``run_figures`` takes the figures of one run from its
capture; nothing else here reads captures. ``compare`` pairs the rows of both sides and judges them by
``judgement``. ``model`` has the data that these share, and that a saved baseline stores.
"""
