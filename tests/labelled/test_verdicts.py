"""What is said of each labelled recording: the cause that must stand first, and what must not be said."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import pytest
from altered import renamed, scaled
from labels import FOLDERS, Label, read_labels

from nsyswrap.analysis.answer import Answer, answer_of
from nsyswrap.api import open_capture
from nsyswrap.reports.answer import screen_texts
from nsyswrap.reports.summary import summarize
from nsyswrap.reports.wording.advice import words

pytestmark = pytest.mark.slow

LABELS = [label for folder in FOLDERS for label in read_labels(folder).values()]
LARGEST = 300_000  # bytes of a recording
SIZE = 8, 80  # lines and columns of the answer
STEPS = 0.05  # of the steps that a program makes may be missed or found in addition
UNEXPLAINED_PERCENT = 5.0

each = pytest.mark.parametrize("label", LABELS, ids=lambda label: label.name)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("labelled")


@pytest.fixture
def recording(label: Label, unpacked: Path) -> Path:
    """The recording, unpacked once for all tests of this file."""
    packed = label.program.parent.parent / "captures" / f"{label.name}.sqlite.xz"
    assert packed.stat().st_size <= LARGEST
    path = unpacked / f"{label.name}.sqlite"
    if not path.exists():
        path.write_bytes(lzma.decompress(packed.read_bytes()))
    return path


@cache
def answer_on(recording: Path) -> Answer:
    return answer_of(open_capture(recording))


def said(answer: Answer) -> list[str]:
    """Return the names of the findings; lost events withhold all others."""
    return ["lost_events"] if answer.withheld else [finding.kind for finding in answer.findings]


@each
def test_the_cause_stands_first_and_nothing_wrong_is_said(label: Label, recording: Path) -> None:
    findings = said(answer_on(recording))
    first, second = [*findings, "", ""][:2]
    assert first in (label.first, *label.accept)
    assert not label.then or second == label.then
    assert not set(findings) & set(label.never)


@pytest.mark.usefixtures("label")
@each
def test_the_screen_says_so_in_its_first_lines(recording: Path) -> None:
    answer = answer_on(recording)
    shown = summarize(open_capture(recording)).lines
    lines = [text for line in shown for text in screen_texts(line)]
    assert max(map(len, lines)) <= SIZE[1]
    top = "\n".join(lines[: SIZE[0]])
    if answer.withheld:
        assert "missing events" in top
    elif answer.findings:
        assert words(answer.findings[0]).what in top
    else:
        assert "No single cause costs 5 % or more" in top


@each
def test_the_steps_of_the_program_are_found(label: Label, recording: Path) -> None:
    answer = answer_on(recording)
    if not label.steps or answer.withheld:
        return
    assert answer.steps is not None
    found = answer.steps.total, answer.steps.count  # a program that sizes its work repeats the step before
    assert min(abs(count - label.steps) for count in found) <= max(2, STEPS * label.steps)
    assert answer.share(answer.idle_ns.get("unknown", 0)) < UNEXPLAINED_PERCENT


@each
def test_start_up_is_told_apart(label: Label, recording: Path) -> None:
    answer = answer_on(recording)
    if label.startup and answer.steps:
        assert answer.start_up is not None
        assert answer.start_up.duration_ns >= 1_000_000_000


@pytest.mark.usefixtures("label")
@pytest.mark.parametrize("label", LABELS[::3], ids=lambda label: label.name)
def test_other_names_and_another_clock_change_no_verdict(recording: Path, tmp_path: Path) -> None:
    expected = answer_on(recording)
    copies = [scaled(renamed(recording, tmp_path / "renamed.sqlite"), tmp_path / "slower.sqlite", 10)]
    copies += [scaled(recording, tmp_path / "faster.sqlite", 0.1)]
    for copy in copies:
        answer = answer_of(open_capture(copy))
        assert said(answer) == said(expected)
        assert answer.scope == expected.scope
        shares = [round(finding.ceiling_percent or 0) for finding in answer.findings]
        assert shares == pytest.approx([f.ceiling_percent or 0 for f in expected.findings], abs=1)
