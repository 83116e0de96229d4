"""Errors in Python: the text has the message and the hint, and a worker's error keeps both."""

from __future__ import annotations

import pickle
import platform
import sys
import traceback
from pathlib import Path

import pytest
from ran import ran

from nsyswrap.api import open_capture
from nsyswrap.base.errors import NotInCapture, NsyswrapError, ScenarioFailed, UsageError

ADD2 = Path(__file__).resolve().parents[2] / "nsyswrap" / "recorded" / "add2" / "none"


def test_the_text_is_the_message_and_the_hint_below() -> None:
    error = NotInCapture("no kernels", "collect with --trace=cuda")
    assert (error.message, error.hint) == ("no kernels", "collect with --trace=cuda")
    assert str(error) == "no kernels\ncollect with --trace=cuda"
    assert str(NotInCapture("no kernels")) == "no kernels"


def test_what_a_capture_lacks_is_said_with_and_without_its_name() -> None:
    held = NotInCapture("no kernels", "cure", source=Path("x"), report="r", holds=True)
    assert held.message == "r: x holds no kernels"
    assert held.text() == held.text("y") == "x holds no kernels"
    assert (held.text("x"), held.text("x", several=True)) == ("holds no kernels", "hold no kernels")
    other = NotInCapture("no range", source="x")
    assert other.message == other.text() == "x: no range"
    assert other.text("x") == other.text("x", several=True) == "no range"


@pytest.mark.parametrize("error", [UsageError("m", "h"), ScenarioFailed("m", "h", 7), NotInCapture("m", "h")])
def test_an_error_of_another_process_keeps_its_hint(error: NsyswrapError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own object
    assert (type(copy), str(copy), copy.exit_code) == (type(error), "m\nh", error.exit_code)


@pytest.mark.parametrize(
    ("method", "name", "cure"),
    [
        ("report", "cuda_gpu_kernsum", "did you mean 'cuda_gpu_kern_sum'"),
        ("plot", "lanch", "did you mean 'launch'"),
        ("events", "kernels", "did you mean 'kernel'"),
        ("report", "osrt_sum", "osrt"),
    ],
)
def test_a_traceback_shows_the_cure(method: str, name: str, cure: str) -> None:
    capture = open_capture(ADD2)
    with pytest.raises(NsyswrapError) as caught:
        getattr(capture, method)(name)
    assert cure in caught.value.hint
    assert cure in "".join(traceback.format_exception(caught.value)).splitlines()[-1]


def test_a_range_that_does_not_exist_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(NotInCapture, match=r"no NVTX range named 'zz'\nnames: "):
        open_capture(ADD2).select(nvtx="zz").report("gpu_time")


PROGRAM = """
import resource, sys
from nsyswrap.base.limits import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "keep":
    keep_freed_memory()
text = b"\\1" * 2**26
del text
before = faults()
for _ in range(3):
    text = b"\\1" * 2**26
    del text
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_freed_memory_is_used_again_without_page_faults_if_the_program_asks_for_it() -> None:
    page_faults = {
        asked: int(ran([sys.executable, "-c", PROGRAM, asked], check=True).stdout)
        for asked in ("keep", "return")
    }
    assert page_faults["keep"] < 100
    assert page_faults["return"] > 1_000
