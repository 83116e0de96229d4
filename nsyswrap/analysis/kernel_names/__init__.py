"""Classify kernels by their names, and shorten the names for people.

``classify`` returns one of ``CLASSES``, ``readable`` a short name for a screen. Both use the name alone. For
an unknown name the class is ``other`` and the readable name is the name itself.
"""

from nsyswrap.analysis.kernel_names.classes import CLASSES, OTHER, RULES, classify, read_rules
from nsyswrap.analysis.kernel_names.readable import readable

__all__ = ["CLASSES", "OTHER", "RULES", "classify", "read_rules", "readable"]
