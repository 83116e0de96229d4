"""What a kernel's name tells: its class, and words that a person can read.

``classify`` puts a kernel into one of ``CLASSES``, ``readable`` shortens its name for a screen. Both go by
the name alone, and leave alone what they do not know: the class is ``other``, the name stays.
"""

from nsyswrap.analysis.kernel_names.classes import CLASSES, OTHER, RULES, classify, read_rules
from nsyswrap.analysis.kernel_names.readable import readable

__all__ = ["CLASSES", "OTHER", "RULES", "classify", "read_rules", "readable"]
