"""The trust line of the summary screen: from what the screen reads anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.diagnostics.check import counted, marked
from nsyswrap.analysis.diagnostics.launch_checks import diagnose
from nsyswrap.base.missing import MISSING
from nsyswrap.base.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

_MESSAGES_SHOWN = 2
_MORE = " (-r diagnostics)"


def trust(capture: Capture) -> list[str]:
    """Say what was seen, what nsys warns of, what of it is missing, and where there is more to say."""
    remarks = [f"  nsys: {diagnostic.text}" for diagnostic in capture.diagnostics[:_MESSAGES_SHOWN]]
    missing = [f"  {check.meaning}" for check in diagnose(capture) if check.level == "warning"]
    remarks += [*missing, *_clocks(capture), *_graphs(capture)]
    lost = _joined(capture) and launch_pairs_of(capture).without_call
    more = _MORE if remarks or lost else ""
    diagnosis = f"{'nsys: ' if missing else ''}{_diagnosis(capture)}"
    return [f"seen: {', '.join(_seen(capture))} · {diagnosis}{more}", *remarks]


def _clocks(capture: Capture) -> Iterator[str]:
    """Say how many kernels began before the call that launched them."""
    if not _joined(capture):
        return
    kernels, calls = _launched(capture)
    begun = capture.columns("kernel", "start_ns")["start_ns"][kernels]
    called = capture.columns("api", "start_ns")["start_ns"][calls]
    early = np.flatnonzero((called > begun) & (begun != MISSING))
    if len(early):
        most = duration(int((called[early] - begun[early]).max()))
        yield f"  {counted('kernel', len(early))} began before the launch call, by up to {most}"


def _graphs(capture: Capture) -> Iterator[str]:
    if count := capture.count("graph"):
        hidden = "hides its kernels" if count == 1 else "hide their kernels"
        yield f"  {counted('graph', count)} {hidden} here: profile with --graphs node"


def _joined(capture: Capture) -> bool:
    """Whether there are kernels and calls, one of which may have launched the other."""
    return capture.has("kernel") and capture.has("api")


def _launched(capture: Capture) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the kernels whose launch is recorded, and the outermost call that launched each."""
    pairs = launch_pairs_of(capture)
    first = np.flatnonzero(np.diff(pairs.operation, prepend=-1))
    if len(first) == len(pairs.operation):
        return pairs.operation, pairs.api
    start = capture.columns("api", "start_ns")["start_ns"][pairs.api]
    order = np.lexsort((start, pairs.operation))
    return pairs.operation[first], pairs.api[order][first]


def _seen(capture: Capture) -> list[str]:
    kernels = counted("kernel", capture.count("kernel")) + _launch_note(capture)
    return [kernels, *(counted(kind, capture.count(kind)) for kind in ("memcpy", "memset", "api"))]


def _launch_note(capture: Capture) -> str:
    if not capture.has("kernel"):
        return ""
    if not capture.has("api"):
        return " (no launch calls recorded)"
    _, calls = _launched(capture)
    launching = np.zeros(capture.count("api"), dtype=bool)
    launching[calls] = True  # to sort a million calls takes far longer
    count, without = marked(launching), launch_pairs_of(capture).without_call
    lost = f", {without:,} without their call" if without else ""
    return f" from {count:,} launch{'' if count == 1 else 'es'}{lost}"


def _diagnosis(capture: Capture) -> str:
    if not capture.has("diagnostic"):
        return "this export carries no diagnostics"
    losses = sum(diagnostic.loss for diagnostic in capture.diagnostics)
    count = len(capture.diagnostics)
    warnings = f"{count} warning{'' if count == 1 else 's'}" if count else "no warnings"
    return f"{warnings}, {f'{losses} about missing events' if losses else 'no dropped events reported'}"
