"""Start processes that no signal to them ends: nsys, its importer and the guard.

A signal to nsys while it imports destroys the report. Slurm signals every process of a job, and users signal
process groups. What a blocked signal was meant for, we do: the program is signalled, and nsys then ends by
itself.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def shielded() -> Iterator[None]:
    """Block the signals that end a run. Processes that are started in the block inherit this, also from nsys.

    What nsys starts as the program sets its own signal mask. A signal to this process comes after the block.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
