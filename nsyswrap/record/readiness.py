"""Whether a program that was started is ready: its port or URL answers, or it has printed a text."""

from __future__ import annotations

import http.client
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from nsyswrap.base.errors import UsageError

_ANSWER_S = 5.0  # a port or a URL is asked for at most so long
_PAUSE_S = 0.1
_SERVER_ERROR = 500  # a status from here on says that the program cannot answer yet
_TAIL_BYTES = 1 << 12  # of the output before, in which a text can begin
_PORTS = 1 << 16
_PLAIN = re.compile(r"[!-~]+")


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
        text = self._tail + output
        self.is_printed = self.is_printed or bool(self.pattern.search(text))
        self._tail = text[-_TAIL_BYTES:]


def parse(text: str) -> Readiness:
    """Return what ``--when-ready`` says: a URL, ``[HOST:]PORT``, or a pattern. Raises UsageError."""
    try:
        return _parsed(text)
    except (ValueError, OverflowError, RecursionError, re.error) as error:
        raise UsageError(f"invalid --when-ready {text!r}: {error}", "give a URL, a port or a regex") from None


def _parsed(text: str) -> Readiness:
    if re.match(r"(?i)https?://", text):
        parts = urlsplit(text)
        if not (parts.hostname and parts.port != 0 and text.isascii() and _PLAIN.fullmatch(text)):
            raise ValueError("expected http://HOST:PORT/PATH without blanks")
        return Readiness(lambda: _answers(text))
    if address := re.fullmatch(r"(?:([\w.-]+|\[[\da-fA-F:.]+\]):)?(\d{1,5})", text):
        host, port = (address[1] or "localhost").strip("[]"), int(address[2])
        if not 0 < port < _PORTS:
            raise ValueError(f"a port is between 1 and {_PORTS - 1}")
        host.encode("idna")
        return Readiness(lambda: _accepts(host, port))
    printed = _Printed(re.compile(os.fsencode(text)))
    return Readiness(lambda: printed.is_printed, printed.read)


# Nothing is sent that needs a known certificate, and a server of one's own often has none.
_any_certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_any_certificate.check_hostname = False
_any_certificate.verify_mode = ssl.CERT_NONE
# A proxy answers for a server that does not run yet.
_opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_any_certificate)
)


def _answers(url: str) -> bool:
    try:
        with _opener.open(url, timeout=_ANSWER_S):
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
