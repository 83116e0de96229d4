"""The memory that a program keeps."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from nsyswrap.base.limits import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "keep":
    keep_freed_memory()
text = b"\\1" * 2**24
del text
before = faults()
for _ in range(3):
    text = b"\\1" * 2**24
    del text
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_freed_memory_is_used_again_without_page_faults_if_the_program_asks_for_it() -> None:
    page_faults = {
        asked: int(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, asked], capture_output=True, text=True, check=True
            ).stdout
        )
        for asked in ("keep", "return")
    }
    assert page_faults["keep"] < 100
    assert page_faults["return"] > 1_000
