"""Classify kernels by their names, and shorten the names for people.

``classify`` returns one of ``CLASSES``, ``readable`` a short name for a screen. Both use the name alone. For
an unknown name the class is ``other`` and the readable name is the name itself.
"""

from nsyswrap.analysis.kernel_names.classes import CLASSES, OTHER, RULES, classify, read_rules
from nsyswrap.analysis.kernel_names.readable import distinct_names, readable, readable_name

__all__ = [
    "CLASSES",
    "OTHER",
    "RULES",
    "classify",
    "distinct_names",
    "read_rules",
    "readable",
    "readable_name",
]
