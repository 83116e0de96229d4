"""The table of a ladder's rungs, on captures worked out on paper."""

from pathlib import Path

from advised import looped, new
from tiny_export import call, kernel

from nsyswrap.api import CaptureReader
from nsyswrap.render.comparison import short_names
from nsyswrap.reports.scenario_tables import rungs


def rung(folder: Path, idle: int, busy: int) -> CaptureReader:
    """Return a capture of steps of host code, a launch of 8 ns, and a kernel."""
    step = [call("cudaLaunchKernel", idle - 8, idle, 1), kernel("k", idle, idle + busy, 1)]
    return new(folder, *looped(*step, every=idle + busy))


def test_a_rung_has_what_it_repairs_and_what_that_gains(tmp_path: Path) -> None:
    captures = {
        "start": rung(tmp_path, 400, 600),
        "ahead": rung(tmp_path, 100, 600),
        "faster": rung(tmp_path, 100, 150),
        "same": rung(tmp_path, 100, 150),
    }
    made = rungs(captures, {"ahead": "host_bound", "faster": "kernels", "same": "tiny_copies"}, short_names)
    assert [list(map(_rounded, row)) for row in made.rows()] == [
        ["start", None, None, 1000, None, None, None, 60, "host_bound"],
        ["ahead", "host_bound", 39.2, 700, -30, "idle: host code", -300, 85.7, "host_bound"],
        ["faster", "kernels", 85.7, 250, -64.3, "k", -450, 60, "host_bound"],
        ["same", "tiny_copies", None, 250, 0, None, None, 60, "host_bound"],
    ]


def test_a_rung_without_steps_has_no_change(tmp_path: Path) -> None:
    once = new(tmp_path, call("cudaLaunchKernel", 0, 1, 1), kernel("k", 2, 5, 1))
    made = rungs({"start": rung(tmp_path, 400, 600), "once": once}, {"once": "kernels"}, short_names)
    assert list(made.rows())[1] == ("once", "kernels", 60, None, None, None, None, 100, None)


def _rounded(value: object) -> object:
    return round(value, 1) if isinstance(value, float) else value
