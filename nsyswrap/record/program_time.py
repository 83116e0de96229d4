"""Time a program from its exec to its exit: without the start of nsys, and without its work afterwards."""

from __future__ import annotations

import os
import select
import time

from nsyswrap.record.exec_program import STARTED

_READ_BYTES = 64


class ProgramTime:
    """The duration of one program. Its launcher reports the start on ``writer``, the kernel the exit.

    Both are noted while ``pause`` waits. Linux before 5.3 does not report the exit, nor does a Python that
    was built without ``os.pidfd_open``, as conda's against an old C library.
    """

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self._process: int | None = None
        self._waits_for_start = True
        self._start_ns: int | None = None
        self._end_ns: int | None = None

    def close(self) -> None:
        """Close the descriptors, except for ``writer``."""
        os.close(self._reader)
        if self._process is not None:
            os.close(self._process)

    @property
    def seconds(self) -> float | None:
        """The duration in s; None if start or exit was not reported."""
        if self._start_ns is None or self._end_ns is None:
            return None
        return round((self._end_ns - self._start_ns) / 1e9, 6)

    def pause(self, seconds: float) -> None:
        """Wait for so many seconds, or until the program starts or exits."""
        watched = self._reader if self._waits_for_start else self._process
        if watched is None or self._end_ns is not None:
            time.sleep(seconds)
        elif select.select([watched], [], [], seconds)[0]:
            if self._waits_for_start:
                self._note_start()
            else:
                self._end_ns = time.monotonic_ns()

    def _note_start(self) -> None:
        self._waits_for_start = False
        words = os.read(self._reader, _READ_BYTES).removeprefix(STARTED).split()
        if not words:  # the launcher never ran
            return
        self._start_ns = int(words[1])
        try:
            self._process = os.pidfd_open(int(words[0]))
        except ProcessLookupError:
            self._end_ns = time.monotonic_ns()
        except (OSError, AttributeError):  # this kernel, container or Python does not offer it
            self._process = None
