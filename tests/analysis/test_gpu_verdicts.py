"""Verdicts on programs made to deserve them, run on a real GPU."""

from pathlib import Path

from conftest import Cli
from gpus_here import ON_A_GPU

from nsyswrap import open_capture
from nsyswrap.analysis.launch_bound import launch_cost_of
from nsyswrap.analysis.timing_audit import COMPLETE, EARLIER, LAUNCH_ONLY, MIXED

pytestmark = ON_A_GPU
# Kernels of 50 us outlast their launches; without --queued nothing older runs when the timed loop starts.
LONG = ("--n", "16777216", "--warmup", "100")
PROGRAM = """
import torch, nsyswrap
a = torch.rand(1 << 24, device="cuda")
for wait in (False, True):
    for i in range(6):
        torch.cuda.synchronize()
        with nsyswrap.measure(f"wait {wait}", synchronise=wait, events=True) as m:
            a * a
        m.cuda_ns
"""


def verdicts(folder: Path) -> dict[str, dict[str, int]]:
    """Steady instances by verdict, of each NVTX range."""
    found: dict[str, dict[str, int]] = {}
    for _, row in open_capture(folder).report("timing_audit").frame.iterrows():
        if row["phase"] == "steady":
            found.setdefault(row["range"], {})[row["verdict"]] = int(row["instances"])
    return found


def test_ways_of_synchronising_get_the_verdicts_they_deserve(cli: Cli, tmp_path: Path) -> None:
    done = cli("scenarios", "run", "add2", "-o", tmp_path / "runs", "--", *LONG)
    assert done.returncode == 0, done.stderr
    assert "audit_by_variant" in done.stdout
    seen = {sync: verdicts(tmp_path / "runs" / sync) for sync in ("both", "first", "second", "none")}
    for operator in ("cuda", "torch"):
        assert seen["both"][f"both/{operator}"] == {COMPLETE: 10}
        assert seen["first"][f"first/{operator}"] == {LAUNCH_ONLY: 10}
        assert seen["second"][f"second/{operator}"] == {COMPLETE: 10}
        # The first has nothing before it; whenever the host was held up, the queue had drained as well.
        never = seen["none"][f"none/{operator}"]
        assert never.keys() == {LAUNCH_ONLY, MIXED}
        assert (sum(never.values()), never[MIXED] > never[LAUNCH_ONLY]) == (10, True)


def test_a_queue_that_is_still_running_is_in_the_first_iteration(cli: Cli, tmp_path: Path) -> None:
    done = cli("scenarios", "run", "add2", "-o", tmp_path / "runs", "--", *LONG, "--queued")
    assert done.returncode == 0, done.stderr
    for operator in ("cuda", "torch"):
        second = verdicts(tmp_path / "runs" / "second")[f"second/{operator}"]
        assert second == {COMPLETE: 9, EARLIER: 1}
        assert verdicts(tmp_path / "runs" / "none")[f"none/{operator}"] == {MIXED: 10}


def test_launch_bound_and_compute_bound_programs(cli: Cli, tmp_path: Path) -> None:
    done = cli("scenarios", "run", "storm", "-o", tmp_path / "runs", "--", "--launches", "4000")
    assert done.returncode == 0, done.stderr
    bound, busy = (launch_cost_of(open_capture(tmp_path / "runs" / name)) for name in ("empty", "busy"))
    assert bound.is_large
    assert not busy.is_large
    assert busy.exposed_ns < 0.05 * (busy.busy_ns + busy.exposed_ns)


def test_what_measure_took_is_held_against_the_truth(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "timed.py").write_text(PROGRAM)
    done = cli("profile", "-o", tmp_path / "run", tmp_path / "timed.py")
    assert done.returncode == 0, done.stderr
    frame = open_capture(tmp_path / "run").report("timing_audit").frame
    steady = frame[frame["phase"] == "steady"].set_index("range")
    short, true = steady.loc["wait False"], steady.loc["wait True"]
    assert (short["verdict"], true["verdict"]) == (LAUNCH_ONLY, COMPLETE)
    for row in (short, true):  # the stamps lie inside the range
        assert 0 <= row["host_med_ns"] - row["reported_med_ns"] < 10_000
    assert short["reported_med_ns"] < short["should_med_ns"]
    assert abs(true["should_med_ns"] - true["host_med_ns"]) < 1
    assert true["own_gpu_med_ns"] < true["events_med_ns"] < true["host_med_ns"]
