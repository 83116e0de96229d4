"""The data of a comparison: the figures of each run, and what was concluded from those of both sides."""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

from nsyswrap.base.errors import UsageError
from nsyswrap.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nsyswrap.analysis.compare.median_step import MedianStep
    from nsyswrap.analysis.finding import Note
    from nsyswrap.analysis.steps.loops import Choice
    from nsyswrap.base.errors import UnreadCapture

Group = Literal["total", "step", "budget", "launch", "module", "kernel", "api", "copy", "range"]
Outcome = Literal["slower", "faster", "same", "cannot tell", "clock", "not judged"]

# What the rows of a group are, in the order in which they are shown.
GROUPS: dict[Group, str] = {
    "total": "Totals",
    "step": "Steps",
    "budget": "Time by cause",
    "launch": "Launch overhead",
    "module": "Modules",
    "kernel": "Kernels",
    "api": "CUDA API calls",
    "copy": "Copies",
    "range": "NVTX ranges",
}
FEWEST_RUNS, RECOMMENDED_RUNS = 3, 5  # a side, for a verdict
WHOLE_RUN = "whole run"  # detail of the budget rows that are not of a step
HEADLINE: tuple[Group, ...] = ("total", "step", "launch")  # these have half of the error rate to themselves
# Judged by the mean of all of a run, too. First calls and first ranges take long without being work.
COSTED: tuple[Group, ...] = (*HEADLINE, "module", "kernel", "copy")


class Key(NamedTuple):
    """The identity of a row, the same in all runs.

    ``name``: full kernel name, API call, kind of copy, path of an NVTX range, state of a step_budget,
    qualified name of a module, or label of the steps. ``detail``: grid and block of a kernel, forward or
    backward of a module, or WHOLE_RUN. ``mode``: 1 and up for kernels
    whose durations have several modes, the fastest first; else 0.
    """

    group: Group
    name: str
    detail: str = ""
    mode: int = 0


class ExcludedSteps(NamedTuple):
    """Steps of a run that no typical time includes, and their time in ns.

    Warm-up is in no mean either. Outliers are, with the steps beside the steady part.
    """

    warm_up: int = 0
    warm_up_ns: float = 0.0
    outliers: int = 0
    outlier_ns: float = 0.0


@dataclass(frozen=True)
class RowFigures:
    """The figures of a row in one run; times in ns.

    ``count`` and ``total_ns`` are of all launches, calls, copies or steps after warm-up. ``typical_ns`` is
    the trimmed mean of one, without first launches, the first call of each function, and outliers; None if
    there are only those. ``error`` is its standard error from the values within the run, relative to it; 0.0
    if it has a single value. ``mean_error`` is that of the mean of all; None where an older nsyswrap did not
    save it. ``per_step_ns`` is the time in a steady step, None without steps. ``aside``: of steps only.
    ``clock_mhz`` is the mean SM clock of the ``clock_samples`` that fell into its own time.
    ``durations``, of kernels only: pairs of duration in ns and count, at most 32, ascending. First launches
    are in it, so that the counts add up to ``count``.
    """

    count: int
    total_ns: float
    typical_ns: float | None = None
    error: float = 0.0
    per_step_ns: float | None = None
    size_bytes: int | None = None
    clock_mhz: float | None = None
    clock_samples: int = 0
    durations: tuple[tuple[int, int], ...] = ()
    mean_error: float | None = 0.0
    aside: ExcludedSteps | None = None

    @property
    def with_warm_up(self) -> RowFigures:
        """The row with the warm-up steps."""
        total = self.total_ns + (self.aside.warm_up_ns if self.aside else 0)
        if not self.aside or not self.aside.warm_up or not total:
            return self
        error = None if self.mean_error is None else self.mean_error * self.total_ns / total
        return replace(self, count=self.count + self.aside.warm_up, total_ns=total, mean_error=error)

    @property
    def ns_per_byte(self) -> float | None:
        """The time of a copy per byte."""
        return self.total_ns / self.size_bytes if self.size_bytes else None


@dataclass(frozen=True)
class Setup:
    """What must be equal for a comparison, and the conditions that may differ. None and empty: not known.

    ``options`` are the options of nsys that decide what is recorded. ``graphs``: graph or node.
    ``lost_events`` counts nsys' messages about lost events, ``other_processes`` the processes of others on
    the GPUs of the run. ``throttled_percent`` is a share of the samples while the GPU worked. ``step_joules``
    is the energy of a step.
    """

    gpus: tuple[str, ...] = ()
    driver: str = ""
    nsys: str = ""
    options: str = ""
    graphs: str = ""
    command: tuple[str, ...] = ()
    lost_events: int = 0
    other_processes: int | None = None
    throttled_percent: float | None = None
    throttle_reason: str = ""
    sm_clock_mhz: float | None = None
    started: str = ""
    node: str = ""
    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    step_joules: float | None = None


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run. ``steps`` counts the steady steps, 0 if there are none.

    ``left_out`` counts the rows of a group that are not in ``rows``, because there are too many: those with
    the least time. Where it does so, a row that is missing may be one of them. ``loop`` tells which loop is
    judged, ``choices`` returns those that can be, and ``judged_by`` the figures with another one. Both read
    the capture once more; a baseline has neither.
    """

    label: str
    setup: Setup
    rows: Mapping[Key, RowFigures]
    steps: int = 0
    left_out: Mapping[Group, int] = field(default_factory=dict)
    median_step: MedianStep | None = field(default=None, compare=False, repr=False)  # of a capture alone
    loop: str = ""
    choices: Callable[[], Mapping[str, Choice]] | None = field(default=None, compare=False, repr=False)
    judged_by: Callable[[str], RunFigures] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Side:
    """The base or the new side of a comparison: its name, as the user wrote it, and its runs.

    ``nsyswrap`` is the version that computed the figures of a baseline; empty: this one, or not known.
    ``left_out`` are runs that it names, too, and that are not done or cannot be read. ``other_steps``: it is
    a baseline whose steps were defined otherwise; it comes without them.
    """

    name: str
    runs: tuple[RunFigures, ...]
    nsyswrap: str = ""
    left_out: tuple[UnreadCapture, ...] = ()
    other_steps: bool = False


@dataclass(frozen=True)
class SlowdownLimits:
    """When a row counts as slower: by more than ``max_slower``, a share, and by ``min_time_ns`` a run.

    ``error_rate`` is that of the whole comparison: how often one without any change finds something. Raises
    UsageError for a share that is not below 1.
    """

    max_slower: float = 0.05
    min_time_ns: float = 10_000.0
    error_rate: float = 0.05

    def __post_init__(self) -> None:
        """Refuse 5, which is meant as 5 %."""
        if not 0 <= self.max_slower < 1:
            raise UsageError(
                f"invalid tolerance {self.max_slower:g}: expected a share below 1", "5 % is 0.05"
            )


@dataclass(frozen=True)
class Judgement:
    """What the runs of both sides say of a row.

    ``ratio`` is new / base, ``low`` and ``high`` its interval; None if not known. It is of the means of all
    in COSTED groups, else of the typical times. ``typical`` is that of the typical times, beside a mean.
    ``more_runs``: so many runs a side would probably decide it; None if it is decided, or no number would.
    ``why`` adds reasons to the outcome. ``is_small``: not judged, because less than ``min_time_ns`` of the
    limits is at stake.
    """

    outcome: Outcome
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    more_runs: int | None = None
    why: tuple[Note, ...] = ()
    is_small: bool = False
    typical: float | None = None


@dataclass(frozen=True)
class PairedFigures:
    """The rows of a key in each run of both sides, None where it is absent."""

    key: Key
    base: tuple[RowFigures | None, ...]
    new: tuple[RowFigures | None, ...]

    @property
    def in_both(self) -> bool:
        """True if at least one run of each side has the row."""
        return any(self.base) and any(self.new)

    @property
    def all_first(self) -> bool:
        """True if no run repeats it: then first launches are all that can be compared."""
        return self.in_both and all(row.typical_ns is None for row in (*self.base, *self.new) if row)

    @cached_property
    def has_cost(self) -> bool:
        """True if the cost of each run is known; an older baseline has none."""
        return all(row.mean_error is not None for row in (*self.base, *self.new) if row)


@dataclass(frozen=True)
class Pair(PairedFigures):
    """A judged row. ``renamed_from`` is the key of the base where it has another.

    The kernel had another name, grid or block there, or the steps another label. That a kernel with another
    name is the same is probable only.
    """

    judgement: Judgement
    renamed_from: Key | None = None

    @property
    def is_added(self) -> bool:
        """True if no run of the base has the row."""
        return not any(self.base)

    @property
    def is_removed(self) -> bool:
        """True if no new run has the row."""
        return not any(self.new)

    @property
    def is_renamed(self) -> bool:
        """True if the base has this kernel under another name."""
        return bool(self.key.group == "kernel" and self.renamed_from) and not self.is_relaunched

    @property
    def is_relaunched(self) -> bool:
        """True if the base launched this kernel with another grid or block."""
        old = self.renamed_from
        return self.key.group == "kernel" and old is not None and old.name == self.key.name

    @cached_property
    def base_count(self) -> float:
        """The median count of the runs; 0 where the row is absent."""
        return _median(row.count if row else 0 for row in self.base)

    @cached_property
    def new_count(self) -> float:
        """The median count of the runs; 0 where the row is absent."""
        return _median(row.count if row else 0 for row in self.new)

    @cached_property
    def base_total_ns(self) -> float:
        """The median total of the runs; 0 where the row is absent."""
        return _median(row.total_ns if row else 0 for row in self.base)

    @cached_property
    def new_total_ns(self) -> float:
        """The median total of the runs; 0 where the row is absent."""
        return _median(row.total_ns if row else 0 for row in self.new)

    @property
    def cost_ns(self) -> float:
        """The difference of the totals of a run."""
        return self.new_total_ns - self.base_total_ns

    @cached_property
    def base_typical_ns(self) -> float | None:
        """The median over the runs of the typical time of one."""
        return known_median(row.typical_ns for row in self.base if row)

    @cached_property
    def new_typical_ns(self) -> float | None:
        """The median over the runs of the typical time of one."""
        return known_median(row.typical_ns for row in self.new if row)

    @cached_property
    def base_ns(self) -> float:
        """The mean time of one in a run, the median of the runs; 0 where the row is absent."""
        return _median(_mean_ns(self.key, row) for row in self.base)

    @cached_property
    def new_ns(self) -> float:
        """The mean time of one in a run, the median of the runs; 0 where the row is absent."""
        return _median(_mean_ns(self.key, row) for row in self.new)

    @cached_property
    def base_per_step_ns(self) -> float | None:
        """The median over the runs of the time in a steady step."""
        return known_median(row.per_step_ns for row in self.base if row)

    @cached_property
    def new_per_step_ns(self) -> float | None:
        """The median over the runs of the time in a steady step."""
        return known_median(row.per_step_ns for row in self.new if row)


@dataclass(frozen=True)
class Disturbance:
    """How many of a side's runs something disturbed: of throttling with the largest share of the samples."""

    runs: int
    of: int
    most_percent: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Obstacle:
    """A reason why two sides cannot be compared. ``about``: GPU, driver, nsys, command, throttling, ...

    ``base`` and ``new`` are the known values of each side's runs, how many are disturbed, or that as text.
    ``is_deliberate``: users compare across it on purpose, as with another command. Then ``--anyway`` keeps
    the verdicts.
    """

    about: str
    base: tuple[str, ...] | Disturbance | str
    new: tuple[str, ...] | Disturbance | str
    is_deliberate: bool = False


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two sides: paired rows, verdicts and remarks.

    ``pairs`` are in the order of GROUPS, then by the size of their cost. ``no_verdicts`` says why no row
    was judged; None if rows were. ``remarks`` are what else readers must know.
    """

    base: Side
    new: Side
    pairs: tuple[Pair, ...]
    limits: SlowdownLimits = field(default_factory=SlowdownLimits)
    obstacles: tuple[Obstacle, ...] = ()
    no_verdicts: Note | None = None
    remarks: tuple[Note, ...] = ()

    @property
    def left_out(self) -> tuple[UnreadCapture, ...]:
        """The runs of both sides that are not compared."""
        return (*self.base.left_out, *self.new.left_out)

    def of(self, group: Group) -> tuple[Pair, ...]:
        """Return the pairs of a group."""
        return tuple(pair for pair in self.pairs if pair.key.group == group)


def aside_of(rows: Iterable[RowFigures | None]) -> ExcludedSteps:
    """Return the medians of the steps that no typical time includes."""
    known = [row.aside for row in rows if row and row.aside] or [ExcludedSteps()]
    return ExcludedSteps(*(_median(values) for values in zip(*known, strict=True)))  # type: ignore[arg-type]


def _mean_ns(key: Key, row: RowFigures | None) -> float:
    if row is None or not row.count:
        return 0.0
    return row.total_ns / (1 if key.group == "total" else row.count)


def _median(values: Iterable[float]) -> float:
    return float(median(values))


def known_median(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None
