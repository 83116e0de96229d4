"""What the gate says of programs with a known slowdown, five runs against five, from their captures on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sampled import sampled
from tiny_export import call, kernel, nvtx, opened

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.gate import GateLimits, GateResult, gate
from nsyswrap.analysis.compare.model import Side
from nsyswrap.analysis.compare.run_figures import run_figures

if TYPE_CHECKING:
    from typing import Protocol

    from tiny_export import Row

    class Gated(Protocol):
        def __call__(self, base: Program, new: Program, limits: GateLimits | None = None) -> GateResult: ...


STEPS, US = 60, 1_000
KERNELS = GateLimits(metrics=("kernels",))


@dataclass(frozen=True)
class Program:
    """Steps of four kernels. ``stall_us`` is a pause of the host after each ``every``th step.

    ``slow`` launches of the second kernel take 50 times as long. ``warm_up`` steps take 30 times as long.
    With ``ahead`` the host never waits. Without ``marks`` no range names the steps.
    """

    names: tuple[str, ...] = ("kern0(float*)", "kern1(float*)", "kern2(float*)", "kern3(float*)")
    factors: tuple[float, ...] = (1, 1, 1, 1)
    steps: int = STEPS
    stall_us: int = 0
    every: int = 6
    slow: int = 0
    warm_up: int = 0
    ahead: bool = False
    marks: bool = True

    def rows(self, draws: np.random.Generator) -> list[Row]:
        """Return the events of one run; kernels vary by 1 %."""
        rows, host, gpu, number = [], 0, 0, 0
        for step in range(self.steps):
            begin = host
            for place, (name, factor) in enumerate(zip(self.names, self.factors, strict=True)):
                number += 1
                lasting = (50 + 20 * place) * US * factor * (1 + 0.01 * draws.standard_normal())
                lasting *= 50 if place == 1 and step >= self.steps - self.slow else 1
                lasting *= 30 if step < self.warm_up else 1
                start = max(gpu, host + 5 * US)
                gpu = start + int(lasting)
                rows += [
                    call("cudaLaunchKernel", host, host + 4 * US, number),
                    kernel(name, start, gpu, number, gridX=100 + place),
                ]
                host += 5 * US
            if not self.ahead:
                rows.append(call("cudaDeviceSynchronize", host, max(gpu, host) + US))
                host = max(gpu, host) + 2 * US
            if self.stall_us and step % self.every == self.every - 1:
                host += self.stall_us * US
            rows += [nvtx("step", begin, host)] if self.marks else []
            host += US
        return [*rows, call("cudaDeviceSynchronize", host, max(gpu, host) + US)]


BASE = Program()


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Gated:
    """The gate of five runs of a program against five of another one."""

    @cache
    def side(name: str, program: Program) -> Side:
        draws = np.random.default_rng([len(name), *name.encode()])
        made = []
        for number in range(5):
            place = tmp_path_factory.mktemp(f"{name}-{number}-")
            made.append(run_figures(opened(place, *program.rows(draws)), f"{name}-{number}"))
        return Side(name, tuple(made))

    def gated(base: Program, new: Program, limits: GateLimits | None = None) -> GateResult:
        return gate(compare(side("base", base), side("new", new)), limits or GateLimits())

    return gated


@sampled(
    ("limits", "ahead"),
    product((GateLimits(), KERNELS, GateLimits(metrics=("total",))), (False, True)),
    fast=2,
)
def test_a_program_and_itself_pass(gated: Gated, limits: GateLimits, *, ahead: bool) -> None:
    program = replace(BASE, ahead=ahead)
    assert gated(program, program, limits).verdict == "passed"


@sampled(("limits", "every"), product((GateLimits(), KERNELS), (6, 4, 15)), fast=2)
def test_stalls_are_slower(gated: Gated, limits: GateLimits, every: int) -> None:
    result = gated(BASE, replace(BASE, stall_us=4_000, every=every), limits)
    assert result.verdict == "slower"


def test_a_few_launches_that_take_50_times_as_long_are_slower(gated: Gated) -> None:
    result = gated(BASE, replace(BASE, slow=5), KERNELS)
    assert "kern1(float*)" in [pair.key.name for pair in result.failed]


def test_a_start_that_is_30_times_slower_is_slower(gated: Gated) -> None:
    assert gated(BASE, replace(BASE, steps=61, warm_up=25)).verdict == "slower"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("void kern2<32>(float*)", "void kern2<64>(float*)"),
        ("kern2(float*)", "void kern2<64>(float*)"),
        ("kern2(float*)", "another(float*)"),
    ],
)
def test_a_renamed_kernel_that_is_three_times_slower_is_slower(gated: Gated, old: str, new: str) -> None:
    names = BASE.names
    base = replace(BASE, names=(*names[:2], old, names[3]))
    slower = replace(BASE, names=(*names[:2], new, names[3]), factors=(1, 1, 3, 1))
    assert gated(base, slower, KERNELS).verdict == "slower"


def test_totals_decide_where_steps_cannot_be_paired(gated: Gated) -> None:
    base = replace(BASE, marks=False)
    result = gated(base, replace(base, stall_us=4_000))
    assert result.verdict == "slower"


def test_twice_the_work_of_a_host_that_runs_ahead_is_slower(gated: Gated) -> None:
    base = replace(BASE, ahead=True, steps=9)
    result = gated(base, replace(base, factors=(2, 2, 2, 2)))
    assert result.verdict == "slower"
    assert result.failed[0].judgement.ratio == pytest.approx(2, rel=0.05)


def test_another_number_of_equal_steps_passes(gated: Gated) -> None:
    assert gated(BASE, replace(BASE, steps=90)).verdict == "passed"
