"""nsyswrap.measure in processes of its own: with the real nsys, and without NVTX."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli

import nsyswrap
from nsyswrap.base.constants import MEASURE_MARK


def test_the_public_name_stays_what_it_is() -> None:
    import nsyswrap.record.in_program.measure as module  # noqa: PLC0415

    assert nsyswrap.measure is module.measure


WITHOUT_NVTX = """
import sys, time
sys.modules["nvtx"] = sys.modules["torch"] = None
import nsyswrap
began = time.perf_counter_ns()
with nsyswrap.measure("a", show=True) as m:
    sum(range(1000))
assert 0 < m.host_ns < time.perf_counter_ns() - began
print(*sys.modules)
"""


def test_without_nvtx_it_measures_all_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_NVTX], capture_output=True, text=True, check=True)
    assert done.stderr.startswith("a: ")
    loaded = set(done.stdout.split())
    assert "nsyswrap.record.in_program.measure" in loaded
    assert loaded.isdisjoint({"numpy", "pandas", "click", "rich", "nsyswrap.capture.capture"})


# Under the real nsys. PyTorch's part is played by a clock on the host.

PROGRAM = """
import json, threading, time, types, sys
import nsyswrap

class Event:
    def __init__(self, enable_timing): pass
    def record(self): self.s = time.perf_counter()
    def synchronize(self): pass
    def elapsed_time(self, later): return (later.s - self.s) * 1e3

cuda = types.SimpleNamespace(is_available=lambda: True, Event=Event)
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda, __version__="2.9")

@nsyswrap.measure("decorated")
def work():
    time.sleep(0.002)

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with nsyswrap.measure("outer é"):
    for _ in range(20):
        with nsyswrap.measure("inner"):
            pass
try:
    with nsyswrap.measure("fails"):
        raise KeyError
except KeyError:
    pass
with nsyswrap.measure("events", events=True):
    time.sleep(0.001)
print(json.dumps([m.host_ns for m in work.measurements]))
"""


@pytest.mark.usefixtures("nsys")
def test_a_capture_agrees_with_what_was_measured(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = cli("profile", "--no-stats", "--trace", "nvtx", "-o", "run", "program.py")
    assert done.returncode == 0, done.stderr
    events = nsyswrap.open_capture(tmp_path / "run").events("nvtx").sort_values("end_ns")
    ranges, marks = (events[events["event_type"] == number] for number in (59, 34))
    said = [json.loads(text.removeprefix(MEASURE_MARK)) for text in marks["name"]]

    names = ["decorated"] * 3 + ["inner"] * 20 + ["outer é", "fails", "events"]
    assert ranges["name"].tolist() == names
    assert ranges[ranges["name"] == "decorated"]["thread_id"].nunique() == 3
    assert set(ranges["domain_id"]) == {0}
    assert sorted(one["name"] for one in said) == sorted(name for name in names if name != "fails")
    collected = json.loads(done.stdout.splitlines()[0])
    assert sorted(one["host_ns"] for one in said if one["name"] == "decorated") == sorted(collected)

    beyond_ns = {}
    for name in {one["name"] for one in said}:
        seen_ns = sorted(ranges[ranges["name"] == name]["duration_ns"])
        measured_ns = sorted(one["host_ns"] for one in said if one["name"] == name)
        beyond_ns[name] = [seen - measured for seen, measured in zip(seen_ns, measured_ns, strict=True)]
        assert all(0 < beyond < 50_000_000 for beyond in beyond_ns[name]), name  # other processes cut in
    assert min(beyond_ns["inner"]) < 20_000  # under 1 µs on a machine at rest
    [at_the_end] = [one for one in said if one["name"] == "events"]
    assert 1_000_000 < at_the_end["cuda_ns"] < at_the_end["host_ns"]
