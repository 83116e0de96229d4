"""When no verdict is given: the times of a capture contradict each other."""

from pathlib import Path

from tiny_export import call, kernel, opened

from nsyswrap.analysis.answer import answer_of
from nsyswrap.reports.wording.advice import words


def test_operations_that_end_before_they_start_withhold_the_verdict(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("cudaLaunchKernel", 0, 5, 1), kernel("k", 50, 20, 1), kernel("k", 60, 90))
    answer = answer_of(capture)
    assert answer.withheld is not None
    assert answer.withheld.kind == "operations_end_early"
    assert answer.withheld.numbers == {"backwards": 1, "operations": 2}
    assert answer.findings == ()
    assert f"no verdict: {words(answer.withheld).what}" in capture.report("advice").notes


def test_a_window_without_a_launch_of_its_own_has_no_figures_of_launches(tmp_path: Path) -> None:
    # The call returned as the window begins, and the launch was on its way to the GPU until 120.
    starts = (0, 100, 200)
    rows = [call("cudaLaunchKernel", at + 5, at + 10, at + 1) for at in starts]
    rows += [kernel("k", at + 20, at + 50, at + 1) for at in starts]
    findings = answer_of(opened(tmp_path, *rows).select(time="110ns/190ns", clip=True)).findings
    assert [finding.kind for finding in findings if "nan" in words(finding).what] == []
    assert "idle_launch" in {finding.kind for finding in findings}
