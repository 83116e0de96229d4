"""Whether a capture can be trusted: ``line`` says so on the summary screen, the other modules in full.

Each of those has a ``SUBJECT``, and ``look(capture)``, which yields what it found as ``Check``: also that all
is well, or that this capture cannot tell.
"""
