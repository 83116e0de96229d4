"""Find the time in gaps that the launching thread spent waiting in OS calls, where these are traced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.names import calls_named

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.advice.context import AdviceContext

# Calls that wait for another thread, process or device, or for time to pass.
_WAITS = re.compile(
    r"(p?poll|p?select|epoll_p?wait|pthread_cond_(timed|clock)?wait|sem_(timed|clock)?wait|futex|"
    r"p?read(v|64)?|recv(from|msg)?|accept|(u|nano|clock_nano)?sleep|wait(pid|id)?|sched_yield|"
    r"pthread_(mutex_(timed)?lock|join|rwlock_(rd|wr)lock)|fread|mq_(timed)?receive|msgrcv|sigtimedwait)$"
)


def waits_in_host_code(context: AdviceContext) -> NDArray[Any] | None:
    """Return the time of each gap in which its thread waited in an OS call, in ns; None if not traced."""
    whole, gaps = context.capture.whole, context.gaps
    if not whole.has("osrt"):
        return None
    calls = whole.columns("osrt", "start_ns", "end_ns", "global_tid")
    waits = calls_named(whole, _WAITS, "osrt")
    waited = np.zeros(len(gaps), np.int64)
    for thread in np.unique(gaps.thread).tolist():
        rows = waits[calls["global_tid"][waits] == thread]
        here = np.flatnonzero(gaps.thread == thread)
        cover = union(calls["start_ns"][rows], calls["end_ns"][rows])
        waited[here] = cover.within(gaps.start_ns[here], gaps.end_ns[here])
    return waited
