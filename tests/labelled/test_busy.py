"""What is said of programs with a known cause, many with a busy GPU; the rules were not made on this set."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import pytest
from labels import BUSY_FINDINGS, FINDINGS, HERE, read_entries

from nsyswrap.analysis.answer import Answer, answer_of
from nsyswrap.api import open_capture

FOLDER = HERE / "busy"
CAPTURES = FOLDER / "captures"
LABELS = read_entries(FOLDER)
RECORDED = sorted(path.name.removesuffix(".sqlite.xz") for path in CAPTURES.glob("*.xz"))
LARGEST = 300_000  # bytes of a recording
NO_GPU_WORK = "no_gpu_work"
IDLE = {"launch_bound", "host_bound", "waiting_for_input", "synchronizing"}
MOSTLY_BUSY = 97  # percent: then no cause of idle time is worth a word


@pytest.fixture(scope="module", params=RECORDED)  # one answer for all tests of it
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def answer(name: str, scratch: Path) -> Answer:
    return answered(name, scratch)


def answered(name: str, scratch: Path) -> Answer:
    packed = (CAPTURES / f"{name}.sqlite.xz").read_bytes()
    assert len(packed) <= LARGEST
    path = scratch / f"{name}.sqlite"
    path.write_bytes(lzma.decompress(packed))
    return answer_of(open_capture(path))


def kinds(answer: Answer) -> list[str]:
    return [finding.kind for finding in answer.findings if finding.ceiling_ns is not None]


def label_of(name: str) -> dict[str, Any]:
    return LABELS[name]  # type: ignore[no-any-return]


def test_each_recording_has_a_label() -> None:
    assert len(RECORDED) >= 24
    for name in RECORDED:
        assert set(label_of(name)["first"]) <= {*FINDINGS, *BUSY_FINDINGS, "", NO_GPU_WORK, "other_process"}


def test_what_stands_first_is_true(name: str, answer: Answer) -> None:
    first = label_of(name)["first"]
    if NO_GPU_WORK in first:
        assert answer.devices == ()
        return
    assert not answer.withheld
    assert next(iter(kinds(answer)), "") in first


def test_healthy_arithmetic_raises_no_alarm(name: str, answer: Answer) -> None:
    said = {"fp32_products", "fp64_kernels", "misaligned_products"}.intersection(kinds(answer))
    assert not (label_of(name)["healthy"] and said)


def test_the_kernel_that_is_the_program_is_a_fact(scratch: Path) -> None:
    [fact] = answered("nbody", scratch).facts
    assert (fact.kind, fact.numbers["kernel"]) == ("one_kernel", "forces(const float4 *, float4 *)")


def test_a_busy_gpu_is_not_said_to_idle(answer: Answer) -> None:
    if answer.share(sum(answer.busy_ns.values())) >= MOSTLY_BUSY:
        assert not IDLE & set(kinds(answer))


def test_steps_are_found(name: str, answer: Answer) -> None:
    count = label_of(name)["steps"]
    if count <= 1 or name in INNER:
        pytest.skip("one shot, or identical parts of a step that nothing marks")
    assert answer.steps is not None
    assert min(abs(found - count) for found in (answer.steps.count, answer.steps.total)) <= max(
        2, 0.05 * count
    )


# Layers or tiles with the same launches cannot be told from steps where nothing marks these.
INNER = {"casts_each_layer", "healthy_options_compiled", "loader_lightning"}


@pytest.mark.parametrize(
    ("recording", "kind", "same_stream"),  # another name would replace that of all tests of the module
    [("blocked_by_copy", "copies_not_overlapped", True), ("blocked_by_kernel", "few_blocks", False)],
)
def test_who_was_waited_for(recording: str, kind: str, scratch: Path, *, same_stream: bool) -> None:
    answer = answered(recording, scratch)
    [finding] = [finding for finding in answer.findings if finding.kind == kind]
    waited = finding.numbers["blocked_ns"] / sum(answer.devices[0].busy_ns.values())
    assert (waited > 0.85, finding.numbers["same_stream"]) == (True, same_stream), recording
