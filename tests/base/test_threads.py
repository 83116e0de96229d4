"""The heap that the threads of a program share."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys, threading
from nsyswrap.base.threads import share_one_heap

if sys.argv[1] == "one":
    share_one_heap()
together = threading.Barrier(4)

def work():
    block = bytearray(20_000)  # from malloc, not from Python's own pools
    together.wait()

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, out)
libc.fclose(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has a heap for each thread")
def test_threads_share_one_heap_if_the_program_asks_for_it() -> None:
    heaps = {
        asked: subprocess.run(
            [sys.executable, "-c", PROGRAM, asked], capture_output=True, text=True, check=True
        ).stdout.count("<heap nr=")
        for asked in ("own", "one")
    }
    assert heaps["own"] > 1
    assert heaps["one"] == 1
