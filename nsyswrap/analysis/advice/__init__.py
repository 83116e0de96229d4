"""Advice on a run: possible problems with their evidence, ranked by the time that a change can save.

Each module covers one topic. Each of its CHECKS takes an AdviceContext and yields Advice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.analysis.advice import idle_gpu, measurement, memory
from nsyswrap.analysis.advice.context import WORTH_PERCENT, Advice, AdviceContext

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture

# Advice without a time comes in this order.
CHECKS = (*memory.CHECKS, *idle_gpu.CHECKS, *measurement.CHECKS)


def advise(capture: Capture, least_percent: float = WORTH_PERCENT) -> list[Advice]:
    """Return doubts about the figures first, then advice by the time it can save, the most first."""
    context = AdviceContext(capture, least_percent)
    advice = [piece for check in CHECKS for piece in check(context)]
    return sorted(advice, key=lambda piece: (piece.potential_ns is not None, -(piece.potential_ns or 0)))
