"""What is concluded about a capture, as data: a kind, its numbers, and the time that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, NamedTuple

from nsyswrap.base.check import Level
from nsyswrap.base.records import dataclass
from nsyswrap.capture.intervals import NOTHING, IntervalSet

FindingKind = Literal[
    "launch_bound",
    "host_bound",
    "waiting_for_input",
    "synchronizing",
    "allocating",
    "loading_in_loop",
    "garbage_collection",
    "spikes",
    "pageable_copies",
    "copies_not_overlapped",
    "tiny_copies",
    "faulting_kernels",
    "waiting_for_pages",
    "unfused_attention",
    "parameter_updates",
    "casts",
    "layout_copies",
    "elementwise_chains",
    "few_blocks",
    "last_wave",
    "copy_bound",
    "fp32_products",
    "fp64_kernels",
    "misaligned_products",
    "exposed_communication",
    "waiting_for_rank",
    "idle_profiler",
    "idle_queued",
    "idle_load",
    "idle_allocate",
    "idle_synchronise",
    "idle_launch",
    "idle_copy",
    "idle_host",
    "idle_call",
    "idle_migration",
    "idle_pages_to_host",
    "idle_unknown",
    "lost_events",
    "timed_launch_only",
    "timed_earlier_work",
    "ranges_differ",
    "ranges_not_judged",
    "slowed_by_marks",
    "events_missing",
    "kernels_missing",
    "operations_end_early",
    "clocks_disagree",
    "slow_link",
    "memory_near_limit",
    "memory_grows",
    "memory_in_steps",
    "memory_retries",
    "uses_fp64",
    "outside_graphs",
    "gpu_counters",
    "unknown_products",
    "one_kernel",
    "kernel_drifts",
    "kernel_varies",
]
Status = Literal["measured", "bound", "estimate", "unknown"]
Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One finding, without a sentence: ``reports.wording`` has one for each kind.

    ``numbers`` are plain values: numbers with their unit at the end of their name, texts of the capture, and
    tuples of these. ``evidence`` is the time that the finding is about, on the clock of the capture.
    ``ceiling_ns`` is the most that a change can save of the ``window_ns`` judged; None for doubts about
    figures. ``status`` says how it is known: measured, an upper bound, an estimate, or not at all: then it
    only ranks the finding. ``source`` names the report with the rows behind the numbers. ``shares`` are the
    findings that concern some of the same time. ``language`` is what the program is written with, one of
    ``program_language.LANGUAGES``, empty if that was not looked at.
    """

    kind: FindingKind
    numbers: Numbers
    evidence: IntervalSet
    ceiling_ns: int | None
    status: Status
    source: str
    window_ns: int = 0
    shares: tuple[FindingKind, ...] = ()
    language: str = ""

    @property
    def ceiling_percent(self) -> float | None:
        """The ceiling as a percentage of the time judged; None for doubts about figures."""
        return None if self.ceiling_ns is None else 100.0 * self.ceiling_ns / max(self.window_ns, 1)

    @property
    def saved_ns(self) -> int | None:
        """The ceiling, if it is known."""
        return None if self.status == "unknown" else self.ceiling_ns

    @property
    def saved_percent(self) -> float | None:
        """The ceiling as a percentage of the time judged, if it is known."""
        return None if self.saved_ns is None else self.ceiling_percent

    @property
    def time_percent(self) -> float | None:
        """The time that the finding is about, as a percentage of the time judged; None if it has none."""
        return 100.0 * self.evidence.length / self.window_ns if self.evidence.length else None

    @classmethod
    def doubt(cls, kind: FindingKind, source: str, **numbers: Any) -> Finding:
        """Return a doubt about figures, which concerns no time that could be saved."""
        return cls(kind, numbers, NOTHING, None, "measured", source)


class Note(NamedTuple):
    """What readers of figures must know, without a sentence: ``reports.wording.notes`` has one by kind."""

    kind: str
    numbers: Numbers


@dataclass(frozen=True)
class CheckResult:
    """The result of a check of a capture, without a sentence: ``reports.wording.checks`` has one by kind.

    The other fields are those of ``base.check.Check``. ``numbers`` has ``is_certain`` if the kind is a cause.
    """

    level: Level
    subject: str
    kind: str
    numbers: Numbers = field(default_factory=dict)
    count: int | None = None
    time_ns: int | None = None
