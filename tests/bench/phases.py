"""Where the CPU time of a command goes: by result that is computed once for a capture, read and report.

    python tests/bench/phases.py [--least-ms 10] report CAPTURE [OPTIONS]

The command runs in this process, and its output is thrown away. A phase has the CPU time
of all threads while it was the innermost one; "rest" is the start of Python, imports and text. The second
column has its time with the phases that it asked for first. ``whole`` and ``part`` tell the view apart: what
a window takes in ``whole`` does not become less with the window.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nsyswrap.capture import capture as captures
from nsyswrap.capture import export, per_capture

if TYPE_CHECKING:
    from collections.abc import Callable

_MAIN = threading.get_ident()
_own_s: dict[str, float] = defaultdict(float)
_with_others_s: dict[str, float] = defaultdict(float)
_inner_s: list[float] = [0.0]  # of the phases inside of each open one


def timed(function: Callable[..., Any], name_of: Callable[..., str]) -> Callable[..., Any]:
    """Return the function, with its CPU time added to the phase that ``name_of`` its arguments tells."""

    @functools.wraps(function)
    def with_time(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever it returns
        if threading.get_ident() != _MAIN:
            return function(*arguments, **options)
        begun = time.process_time()
        _inner_s.append(0.0)
        try:
            return function(*arguments, **options)
        finally:
            spent, inner = time.process_time() - begun, _inner_s.pop()
            _inner_s[-1] += spent
            name = name_of(*arguments)
            _own_s[name] += spent - inner
            _with_others_s[name] += spent

    return with_time


def _view(capture: captures.Capture) -> str:
    return "part" if capture.view.selection.narrows else "whole"


def _watch() -> None:
    """Time what is computed once for a capture, what is read, and each check and report."""
    plain = per_capture.per_capture

    def per_capture_timed(compute: Callable[..., Any]) -> Callable[..., Any]:
        where = f"{compute.__module__.removeprefix('nsyswrap.')}.{compute.__name__}"
        return plain(timed(compute, lambda capture, *_: f"{where} ({_view(capture)})"))

    per_capture.per_capture = per_capture_timed
    reads = export.Export
    reads._load = timed(reads._load, lambda _, table, *__: f"read {table}")  # type: ignore[method-assign]  # noqa: SLF001
    reads.stream = timed(reads.stream, lambda _, table, *__: f"stream {table}")  # type: ignore[method-assign]
    reads.from_leaves = timed(reads.from_leaves, lambda _, table, *__: f"read a part of {table}")  # type: ignore[method-assign]


def _watch_reports() -> None:
    from nsyswrap.analysis import advice  # noqa: PLC0415 - they are to be imported after ``_watch``
    from nsyswrap.reports import table  # noqa: PLC0415

    table.Report.make = timed(table.Report.make, lambda report, *_: f"report {report.name}")  # type: ignore[method-assign]
    for kind in ("CHECKS", "FACTS"):
        checks = [
            timed(check, lambda *_, check=check: f"{check.__module__.rpartition('.')[2]}.{check.__name__}")
            for check in map(_listing, getattr(advice, kind))
        ]
        setattr(advice, kind, tuple(checks))


def _listing(check: Callable[..., Any]) -> Callable[..., Any]:
    """Return a check that has done its work when it returns."""
    return functools.wraps(check)(lambda context: list(check(context)))


def main() -> None:
    """Run the command and print its phases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--least-ms", type=float, default=10, help="leave out shorter phases (10)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="of nsyswrap, with its options")
    asked = parser.parse_args()
    _watch()
    from nsyswrap.cli import main as nsyswrap  # noqa: PLC0415 - after what it imports is watched

    _watch_reports()
    sys.argv = ["nsyswrap", *asked.command]
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.suppress(SystemExit):
        nsyswrap()
    total = time.process_time()
    _own_s["rest"] = _with_others_s["rest"] = total - _inner_s[0]
    print(f"{'own ms':>8} {'in all':>8}  phase")
    for name in sorted(_own_s, key=lambda name: -_own_s[name]):
        if 1e3 * max(_own_s[name], _with_others_s[name]) >= asked.least_ms:
            print(f"{1e3 * _own_s[name]:8.0f} {1e3 * _with_others_s[name]:8.0f}  {name}")
    print(f"{1e3 * total:8.0f} {1e3 * total:8.0f}  all, in CPU time of all threads")


if __name__ == "__main__":
    main()
