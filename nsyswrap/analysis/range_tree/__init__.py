"""The NVTX ranges of a program as one tree, by the modules of PyTorch where these are recorded."""

from __future__ import annotations

from nsyswrap.analysis.judged_process import READS as JUDGED_READS
from nsyswrap.analysis.range_tree.figures import TreeFigures, tree_figures_of
from nsyswrap.analysis.range_tree.tree import NOWHERE, RangeTree, range_tree_of

__all__ = ["NOWHERE", "READS", "RangeTree", "TreeFigures", "range_tree_of", "tree_figures_of"]

# The fields that the tree reads, by kind of event; a payload is the number of a module's operation.
READS = {**JUDGED_READS, "nvtx": (*JUDGED_READS["nvtx"], "payload")}
