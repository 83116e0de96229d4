"""Check whether the numbers of a capture can be trusted.

Each check takes a capture and yields a ``Check`` for each result. It also yields one if all is well, or
if the capture lacks the data for it.
"""
