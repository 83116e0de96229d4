"""The steps that the hook in the program marked, with their own numbers."""

import lzma
from pathlib import Path

import pytest
from step_drawings import LENGTH, Drawing, every, numbers, only, starts
from tiny_export import PID, domain, opened, row

from nsyswrap.analysis.answer import answer_of
from nsyswrap.analysis.steps import steps_of
from nsyswrap.api import open_capture
from nsyswrap.base.errors import NotInCapture
from nsyswrap.reports.insight.step_budget import compute

RECORDED = Path(__file__).parents[2] / "data" / "flops"
START_END = {"eventType": 60, "domainId": 7, "endGlobalTid": PID}


def marked(first: int, count: int, **more: int) -> Drawing:
    """Steps of 10 us from number ``first`` on; a range of the program itself repeats more often."""
    drawing = Drawing()
    drawing.rows.append(domain("nsyswrap", 7))
    end = count * LENGTH + 50
    drawing.range(f"steps {first}-{first + count - 1}", -50, end, **START_END)
    for i, start in enumerate(every(count)):
        drawing.range(f"step {first + i}", start, start + LENGTH, **{**START_END, **more})
        for part in range(4):
            drawing.range("micro", start + 100 + 2000 * part, start + 1900 + 2000 * part)
            drawing.kernels("abc", start + 200 + 2000 * part)
    return drawing


def test_they_count_before_ranges_of_the_program(tmp_path: Path) -> None:
    steps = only(tmp_path, marked(10, 4))
    assert (steps.label, steps.first, starts(steps)) == ("'step'", 10, every(4))
    assert (steps.warm_up, numbers(steps.steady), steps.why_none) == (0, [0, 1, 2, 3], None)


def test_a_step_ends_where_the_next_one_begins_and_the_last_one_where_it_ends(tmp_path: Path) -> None:
    drawing = Drawing()
    drawing.rows.append(domain("nsyswrap", 7))
    for number, start in enumerate(every(4)):
        drawing.range(f"step {number}", start, start + LENGTH - 500, **START_END)
        drawing.kernels("abc", start + 200)
    assert only(tmp_path, drawing).host_ns.tolist() == [LENGTH, LENGTH, LENGTH, LENGTH - 500]


def test_a_step_in_which_the_recording_ends_is_not_judged(tmp_path: Path) -> None:
    """As after Ctrl-C: nsys ends its range and that of the recorded part when it stops."""
    drawing = marked(10, 4)
    drawing.range("step 14", 4 * LENGTH, 4 * LENGTH + 50, **START_END)
    drawing.rows.append(row("ANALYSIS_DETAILS", duration=4 * LENGTH + 50, startTime=0))
    steps = only(tmp_path, drawing)
    assert (len(steps), steps.first, numbers(steps.steady)) == (4, 10, [0, 1, 2, 3])


def test_what_the_program_does_after_its_last_step_is_no_step(tmp_path: Path) -> None:
    """Without --steps the next step is open until the program ends."""
    drawing = Drawing()
    drawing.rows.append(domain("nsyswrap", 7))
    for number, start in enumerate(every(4)):
        drawing.range(f"step {number}", start, start + LENGTH, **START_END)
        drawing.kernels("abc", start + 200)
    drawing.rows.append(row("ANALYSIS_DETAILS", duration=4 * LENGTH, startTime=0))
    assert len(only(tmp_path, drawing)) == 3


@pytest.mark.parametrize(("name", "count"), [("gpt", 2), ("llama", 1), ("resnet", 1)])
def test_a_step_with_which_an_export_was_made_to_end_counts(tmp_path: Path, name: str, count: int) -> None:
    """These are cut to their first steps, and the recorded part with them; nsys recorded on."""
    export = tmp_path / "report.sqlite"
    export.write_bytes(lzma.decompress((RECORDED / f"{name}.sqlite.xz").read_bytes()))
    [steps] = steps_of(open_capture(export))
    assert (steps.label, steps.first, numbers(steps.steady)) == ("'step'", 2, list(range(count)))


def test_a_step_may_end_on_another_thread(tmp_path: Path) -> None:
    assert len(only(tmp_path, marked(10, 4, endGlobalTid=PID + 1))) == 4


def test_the_first_steps_of_the_program_can_be_warm_up(tmp_path: Path) -> None:
    assert only(tmp_path, marked(0, 6)).warm_up == 1  # the first kernels of the program


@pytest.mark.parametrize("count", [1, 2])
def test_few_steps_are_judged_if_they_alone_were_recorded(tmp_path: Path, count: int) -> None:
    steps = only(tmp_path, marked(10, count))
    assert (steps.has_steady, numbers(steps.steady)) == (True, list(range(count)))


def test_they_are_chosen_by_their_own_numbers(tmp_path: Path) -> None:
    assert numbers(only(tmp_path, marked(10, 4), "11-12").steady) == [1, 2]
    (tmp_path / "named").mkdir()
    drawing = marked(10, 4)
    drawing.range("step", -40, -30)  # of the program: the marked steps come first
    assert numbers(only(tmp_path / "named", drawing, "step/11-12").steady) == [1, 2]
    (tmp_path / "other").mkdir()
    with pytest.raises(NotInCapture, match="no steps 0-3") as error:
        only(tmp_path / "other", marked(10, 4), "0-3")
    assert error.value.hint == "the capture has 4 steps, numbered from 10"


def test_reports_have_their_numbers(tmp_path: Path) -> None:
    capture = opened(tmp_path, *marked(10, 4).rows)
    answer = answer_of(capture)
    assert answer.steps is not None
    assert (answer.steps.first, answer.steps.last, answer.steps.total) == (10, 13, 4)
    assert list(compute(capture).data["step"])[-4:] == [10, 11, 12, 13]


def test_steps_with_a_gap_are_no_steps(tmp_path: Path) -> None:
    drawing = marked(10, 6)
    drawing.rows = [row for row in drawing.rows if "step 12" not in str(row)]
    [steps] = steps_of(opened(tmp_path, *drawing.rows))
    assert steps.label == "'micro'"
