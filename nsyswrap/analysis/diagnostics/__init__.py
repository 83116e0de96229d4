"""Check whether the numbers of a capture can be trusted.

Each check takes a capture and yields ``Diagnosis`` objects. A check also yields one if all is well, or if the
capture lacks the data for it.
"""
