"""Whether a program that was started is ready: its port or URL answers, or it has printed a text."""

from __future__ import annotations

import http.client
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from nsyswrap.base.errors import UsageError

_ANSWER_S = 5.0  # a port or a URL is asked for at most so long
_PAUSE_S = 0.1
_SERVER_ERROR = 500  # a status from here on says that the program cannot answer yet
_TAIL_BYTES = 1 << 16  # of the output in which a text is looked for


@dataclass
class Readiness:
    """What to wait for. ``asks`` returns True once the program is ready.

    ``reads`` gets each part of the program's output; None: the output is not needed.
    """

    asks: Callable[[], bool]
    reads: Callable[[bytes], None] | None = None

    def wait(self, has_ended: Callable[[], bool]) -> bool:
        """Wait; return False if the program has ended before."""
        while not self.asks():
            if has_ended():
                return False
            time.sleep(_PAUSE_S)
        return True


@dataclass
class _Printed:
    pattern: re.Pattern[bytes]
    is_printed: bool = False
    _tail: bytes = field(default=b"", repr=False)

    def read(self, output: bytes) -> None:
        self._tail = (self._tail + output)[-_TAIL_BYTES:]
        self.is_printed = self.is_printed or bool(self.pattern.search(self._tail))


def parse(text: str) -> Readiness:
    """Return what ``--when-ready`` says: a URL, ``[HOST:]PORT``, or a pattern. Raises UsageError."""
    if re.match(r"https?://", text):
        return Readiness(lambda: _answers(text))
    if address := re.fullmatch(r"(?:([\w.-]+):)?(\d{1,5})", text):
        host, port = address[1] or "localhost", int(address[2])
        return Readiness(lambda: _accepts(host, port))
    try:
        printed = _Printed(re.compile(text.encode()))
    except re.error as error:
        raise UsageError(f"invalid --when-ready {text!r}: {error}", "give a URL, a port or a regex") from None
    return Readiness(lambda: printed.is_printed, printed.read)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_S):  # noqa: S310 - http or https
            return True
    except urllib.error.HTTPError as error:
        with error:
            return error.code < _SERVER_ERROR
    except (OSError, http.client.HTTPException):
        return False


def _accepts(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=_ANSWER_S):
        return True
    return False
