"""scenarios/nvtx_.py: what it says it marked, and what the real nsys recorded of that."""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from ran import ran
from scenario_scripts import SCENARIOS, load, torch_on_cpu

import nsyswrap
from nsyswrap.record.in_program.script import make_parser

STEPS = 4
TYPES = {59: "push_pop", 60: "start_end", 34: "marks", 33: "category", 75: "domain"}  # eventType

pytest.importorskip("nvtx")


@pytest.fixture
def script() -> ModuleType:
    return load("nvtx_")


def measure(script: ModuleType, *arguments: str) -> dict[str, Any]:
    parser = make_parser(script.__doc__, script.VARIANTS, counts=script.COUNTS, builds=False)
    result: dict[str, Any] = script.measure(parser.parse_args(["--steps", f"{STEPS}", *arguments]))
    return result


def made(result: dict[str, Any]) -> dict[tuple[str, str, str], int]:
    """What a result says was made: (kind, domain, name) -> count."""
    return {(one["kind"], one["domain"], one["name"]): one["count"] for one in result["expected"]["names"]}


EXPECTED = {
    ("start_end", "", "run"): 1,
    ("push_pop", "", "epoch"): 1,
    **{("push_pop", "", f"step {step}"): 1 for step in range(STEPS)},
    ("push_pop", "", "forward"): STEPS,
    ("push_pop", "", "backward"): STEPS,
    **{("start_end", "io", f"batch {step}"): 1 for step in range(STEPS)},
    ("push_pop", "io", "read"): STEPS,
    ("push_pop", "io", "wait"): STEPS,
    ("push_pop", "train", "wait"): STEPS,
    ("push_pop", "train", "évaluation ✓"): 1,
    ("marks", "train", "step done"): STEPS,
    ("marks", "", "end of epoch"): 1,
}


# What the script says


def test_host_counts_what_it_marks(script: ModuleType) -> None:
    result = measure(script, "--variant", "host")
    assert made(result) == EXPECTED
    totals = {kind: count for kind, count in result["expected"].items() if kind != "names"}
    assert totals == {"push_pop": 2 + 6 * STEPS, "start_end": 1 + STEPS, "marks": 1 + STEPS}


def test_host_needs_no_torch(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(script, "import_torch")
    assert [timing["range"] for timing in measure(script, "--variant", "host")["timings"]] == [
        "forward",
        "backward",
    ]


@pytest.mark.usefixtures("torch")
def test_kernels_is_the_same_with_torch_and_a_check(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_on_cpu(monkeypatch)
    result = measure(script, "--variant", "kernels")
    assert made(result) == {**EXPECTED, ("push_pop", "", "check"): 1}
    assert result["device"] == "CPU"
    for timing in result["timings"]:
        assert (timing["variant"], timing["launches"], len(timing["samples_us"])) == ("kernels", STEPS, STEPS)


@pytest.mark.usefixtures("torch")
def test_both_variants_are_counted_together(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_on_cpu(monkeypatch)
    twice = {key: 2 * count for key, count in EXPECTED.items()}
    assert made(measure(script)) == {**twice, ("push_pop", "", "check"): 1}


@pytest.mark.usefixtures("torch")
def test_a_wrong_result_of_the_kernels_is_told(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_on_cpu(monkeypatch)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor + 1e-6)  # what a GPU might get wrong
    with pytest.raises(AssertionError, match="not equal"):
        measure(script, "--variant", "kernels")


def test_without_the_package_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "nvtx.py").write_text("raise ImportError('not there')")
    done = ran(
        [sys.executable, str(SCENARIOS / "nvtx_.py"), "--variant", "host"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SCENARIOS.parent}"},
    )
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith("nvtx: the package nvtx cannot be imported (not there); install it with")
    assert done.stderr.count("\n") == 1


# What nsys recorded


class Event(NamedTuple):
    """One row of NVTX_EVENTS; ``ended_by``: the thread that ended a start/end range."""

    kind: str
    domain: str
    name: str
    start_ns: int
    end_ns: int
    thread: int
    ended_by: int


class Recorded(NamedTuple):
    """The script's result, and the NVTX events of its capture."""

    result: dict[str, Any]
    events: list[Event]

    def of(self, kind: str, domain: str, name: str = "") -> list[Event]:
        """Return the events of one kind and domain, and of one name if it is given, by their start."""
        found = [event for event in self.events if (event.kind, event.domain) == (kind, domain)]
        return sorted(
            (event for event in found if name in ("", event.name)), key=lambda event: event.start_ns
        )

    def threads(self, domain: str, name: str) -> set[int]:
        return {event.thread for event in self.of("push_pop", domain, name)}


@pytest.fixture(scope="module")
def recorded(nsys: str, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("nvtx")
    script = (str(SCENARIOS / "nvtx_.py"), "--variant", "host", "--steps", f"{STEPS}")
    done = ran(
        [sys.executable, "-m", "nsyswrap", "profile", "--nsys", nsys, "--no-stats", "-o", "run", *script],
        cwd=folder,
        env=environment,
        check=True,
    )
    [line] = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return Recorded(json.loads(line), read(folder / "run"))


def read(folder: Path) -> list[Event]:
    rows: Any = nsyswrap.open_capture(folder).events("nvtx").to_dict("records")
    domains = {row["domain_id"]: row["name"] for row in rows if TYPES.get(row["event_type"]) == "domain"}
    return [
        Event(
            TYPES[row["event_type"]],
            domains.get(row["domain_id"], ""),
            *(row[name] for name in ("name", "start_ns", "end_ns", "global_tid", "end_global_tid")),
        )
        for row in rows
        if row["event_type"] in TYPES
    ]


def test_nsys_recorded_exactly_what_the_script_says_it_made(recorded: Recorded) -> None:
    kinds = ("push_pop", "start_end", "marks")
    found = Counter(
        (event.kind, event.domain, event.name) for event in recorded.events if event.kind in kinds
    )
    assert found == made(recorded.result) == EXPECTED
    totals = Counter(event.kind for event in recorded.events)
    assert {kind: totals[kind] for kind in kinds} == {
        kind: recorded.result["expected"][kind] for kind in kinds
    }


def test_two_domains_and_two_categories_have_names(recorded: Recorded) -> None:
    assert {event.name for event in recorded.events if event.kind == "domain"} == {"io", "train"}
    assert [event.name for event in recorded.of("category", "")] == ["maths"]
    assert [event.name for event in recorded.of("category", "io")] == ["disk"]


def test_ranges_are_nested_three_deep(recorded: Recorded) -> None:
    [epoch] = recorded.of("push_pop", "", "epoch")
    for number in range(STEPS):
        [step] = recorded.of("push_pop", "", f"step {number}")
        assert epoch.start_ns < step.start_ns < step.end_ns < epoch.end_ns
        for name in ("forward", "backward"):
            inner = recorded.of("push_pop", "", name)[number]
            assert step.start_ns < inner.start_ns < inner.end_ns < step.end_ns


def test_the_reader_has_ranges_of_its_own_on_its_own_thread(recorded: Recorded) -> None:
    [reader] = recorded.threads("io", "read")
    assert recorded.threads("io", "wait") == {reader}
    assert recorded.threads("train", "wait") == recorded.threads("", "epoch") != {reader}


def test_a_batch_begins_on_one_thread_and_ends_on_the_other(recorded: Recorded) -> None:
    batches = recorded.of("start_end", "io")
    assert {event.thread for event in batches} == recorded.threads("", "epoch")
    assert {event.ended_by for event in batches} == recorded.threads("io", "read")


def test_start_end_ranges_overlap(recorded: Recorded) -> None:
    """Which push/pop ranges of one thread and domain cannot: all batches are asked for, then one is read."""
    batches = recorded.of("start_end", "io")
    assert max(batch.start_ns for batch in batches) < min(batch.end_ns for batch in batches)
    [run] = recorded.of("start_end", "", "run")
    assert run.start_ns < batches[0].start_ns
    assert max(batch.end_ns for batch in batches) < run.end_ns
