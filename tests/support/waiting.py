"""Waiting for what a test has begun, also on a busy machine."""

import time
from collections.abc import Callable

PATIENCE_S = 240  # bounds a wait for what goes wrong; it checks nothing


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # each look may be a process
