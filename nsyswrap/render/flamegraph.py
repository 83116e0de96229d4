"""Write GPU time as folded stacks, which speedscope and flame graph scripts read: ``root;child;kernel 1200``.

The frames are the names of the range tree, then ``(backward)`` for kernels of a backward pass, then the
kernel. The numbers are ns and add up to the time of all kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nsyswrap.analysis.kernel_names import distinct_names
from nsyswrap.analysis.range_texts import BACKWARD
from nsyswrap.analysis.range_tree.figures import node_kernels_of
from nsyswrap.base.text import printable
from nsyswrap.capture.capture import Capture

_OUTSIDE, _BACKWARD, _UNNAMED = "(no range)", "(backward)", "(no name)"


def folded(captures: Sequence[Capture], labels: Sequence[str]) -> str:
    """Return the stacks of all captures, sorted. Labels that are not empty are the outermost frames."""
    sums: dict[str, int] = {}
    for capture, label in zip(captures, labels, strict=True):
        for stack, ns in _stacks(capture, label):
            sums[stack] = sums.get(stack, 0) + ns
    return "".join(f"{stack} {ns}\n" for stack, ns in sorted(sums.items()) if ns)


def _stacks(capture: Capture, label: str) -> Iterable[tuple[str, int]]:
    found = node_kernels_of(capture)
    readable = distinct_names({name for name in found.names if name})
    columns = (found.node, found.phase, found.name, found.total_ns)
    for node, phase, name, ns in zip(*(column.tolist() for column in columns), strict=True):
        frames = [label] if label else []
        frames += found.tree.path(node) or (_OUTSIDE,)
        frames += [_BACKWARD] if phase == BACKWARD else []
        kernel = found.names[name]
        frames.append(readable[kernel] if kernel else _UNNAMED)
        yield ";".join(map(_frame, frames)), ns


def _frame(name: str) -> str:
    """Return a name without what separates frames and lines."""
    return printable(name).replace(";", ",").strip() or _UNNAMED
