"""Findings about memory. Steps of 1000 ns are drawn once; of four, the last three are judged."""

from pathlib import Path

import pytest
from advised import STEP_NS, findings_of, looped, new, stakes
from conditioned import recorded
from tiny_export import Row, call, changed, kernel, memcpy, row

from nsyswrap.analysis.advice import advice_of
from nsyswrap.base.run_facts import Conditions, Gpu, Host
from nsyswrap.reports.wording.advice import words

MEGABYTE = 10**6
PAGEABLE, PINNED, DEVICE = 0, 1, 2  # kinds of memory
TO_DEVICE, TO_HOST = 1, 2
FAULT, PREFETCH, EVICTION = 2, 3, 4  # causes of migrations


# pageable_copies
# CPU  |C 0 .............. length|L 10 ns|
# GPU          c[begin ... length) k[length ... 1000)
def copied(begin: int, length: int, kind: int = PAGEABLE, size: int = MEGABYTE) -> list[Row]:
    return [
        call("cudaMemcpyAsync", 0, length - 10, 1),
        memcpy(TO_DEVICE, begin, length, size, correlationId=1, srcKind=kind, dstKind=DEVICE),
        *(call("cudaLaunchKernel", length - 10, length, 2), kernel("k", length, STEP_NS, 2)),
    ]


def test_a_pageable_copy_to_the_device(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *looped(*copied(80, 180))))
    one = found["pageable_copies"]
    assert (list(found), one.ceiling_ns) == (["pageable_copies"], 3 * (80 + 100))  # its call, and the copy
    assert one.numbers == {
        "steps": 3,
        "copies": 3,
        "moved_bytes": 3000000,
        "rate_bytes_per_s": 10000000000000.0,
        "copies_ns": 300,
        "hiding_ns": 3 * 820,
    }
    assert (one.status, one.saved_ns, one.saved_percent) == ("unknown", None, None)  # of no pinned copy


# CPU  |C 0 ..... 200| host  |L 300-310|
# GPU        c[100, 200)              k[310 ... 1000)
def test_launches_after_pageable_copies_come_earlier(tmp_path: Path) -> None:
    rows = [
        call("cudaMemcpyAsync", 0, 200, 1),
        memcpy(TO_DEVICE, 100, 200, MEGABYTE, correlationId=1, srcKind=PAGEABLE, dstKind=DEVICE),
        *(call("cudaLaunchKernel", 300, 310, 2), kernel("k", 310, STEP_NS, 2)),
    ]
    one = findings_of(new(tmp_path, *looped(*rows)))["pageable_copies"]
    # Without the calls the gaps shrink by 110, 90, 110, 90 and 110 ns; 300 ns in the calls count anyway.
    assert (one.numbers["ahead_ns"], one.ceiling_ns) == (210, 3 * 200 + 210)


# The kernel takes 40 ns; the pageable copy 780, of which the link needs some at the rate of the pinned copy.
@pytest.mark.parametrize(("pinned_ns", "saved"), [(40, 3 * 960), (100, 3 * 900), (700, 3 * 300)])
def test_pinned_copies_take_the_link_too(pinned_ns: int, saved: int, tmp_path: Path) -> None:
    pinned = memcpy(TO_DEVICE, 0, pinned_ns, MEGABYTE, srcKind=PINNED, dstKind=DEVICE, streamId=9)
    one = findings_of(new(tmp_path, *looped(*copied(80, 960)), pinned))["pageable_copies"]
    assert (one.status, one.saved_ns) == ("bound", saved)


# In us: CPU  |C 0 ................ 900|L|
#        GPU          c[100 ...... 900)   k[900 ... 1000)    20 MB at 25 bytes/ns
@pytest.mark.parametrize(
    ("generation", "cpu", "saved"),
    [
        (4, "Xeon", 3 * (900_000 - 634_840 + 100_000)),  # 31.504 bytes/ns; k hides 100 us of 634.84
        (3, "Xeon", None),  # slower than these copies
        (4, "", None),  # Grace has a faster link than PCIe
        (None, "Xeon", None),
    ],
)
def test_the_recorded_link_is_taken_too(
    generation: int | None, cpu: str, saved: int | None, tmp_path: Path
) -> None:
    us = 1000
    rows = [
        call("cudaMemcpy", 0, 900 * us, 1),
        memcpy(TO_DEVICE, 100 * us, 900 * us, 20_000_000, correlationId=1, srcKind=PAGEABLE, dstKind=DEVICE),
        *(call("cudaLaunchKernel", 899 * us, 900 * us, 2), kernel("k", 900 * us, 1000 * us, 2)),
    ]
    facts = Conditions((Gpu("GPU-A", pcie_generation=generation, pcie_lanes=16),), Host(cpu=cpu))
    one = findings_of(recorded(tmp_path / "run", looped(*rows, every=1000 * us), None, facts))[
        "pageable_copies"
    ]
    assert one.saved_ns == (saved and pytest.approx(saved, abs=3))
    assert one.status == ("bound" if saved else "unknown")


# CPU  |La 0-10|C 20 .............. 800|Lb 800-810|
# GPU          a[10, 600) c[600, 790)            b[820, 1000)
def test_a_pageable_copy_to_the_host(tmp_path: Path) -> None:
    rows = [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("a", 10, 600, 1)),
        call("cudaMemcpy", 20, 800, 2),
        memcpy(TO_HOST, 600, 790, MEGABYTE, correlationId=2, srcKind=DEVICE, dstKind=PAGEABLE),
        *(call("cudaLaunchKernel", 800, 810, 3), kernel("b", 820, STEP_NS, 3)),
    ]
    assert stakes(tmp_path, *looped(*rows)) == {"pageable_copies": 3 * 190}


@pytest.mark.parametrize(("length", "expected"), [(49, {}), (50, {"pageable_copies": 150})])
def test_pageable_copies_of_less_than_five_percent(
    length: int, expected: dict[str, int], tmp_path: Path
) -> None:
    assert stakes(tmp_path, *looped(*copied(20, length))) == expected


def test_a_copy_of_pinned_memory_is_not_pageable(tmp_path: Path) -> None:
    # the 80 ns before the copy are its call; the copy itself takes a turn
    found = stakes(tmp_path, *looped(*copied(80, 180, PINNED)))
    assert found == {"copies_not_overlapped": 3 * 100, "idle_copy": 3 * 80}


def test_a_pageable_copy_beside_a_kernel_costs_nothing(tmp_path: Path) -> None:
    beside = [call("cudaLaunchKernel", 0, 5, 3, tid=101), kernel("other", 10, 180, 3, streamId=8)]
    assert stakes(tmp_path, *looped(*copied(80, 180), *beside)) == {}


# copies_not_overlapped
# CPU  |C 0-10|L 10-20|
# GPU         c[10 .. until) k[until ... 1000)
def taking_turns(until: int, size: int = MEGABYTE) -> list[Row]:
    return [
        call("cudaMemcpyAsync", 0, 10, 1),
        memcpy(TO_DEVICE, 10, until, size, correlationId=1, srcKind=PINNED, dstKind=DEVICE),
        *(call("cudaLaunchKernel", 10, 20, 2), kernel("k", until, STEP_NS, 2)),
    ]


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (59, {}),  # 49 ns of copies
        (60, {"copies_not_overlapped": 3 * 50}),
        (310, {"copies_not_overlapped": 3 * 300}),
        (810, {"copies_not_overlapped": 3 * 190}),  # no more than the kernels can hide
    ],
)
def test_copies_and_kernels_that_take_turns(until: int, expected: dict[str, int], tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*taking_turns(until))) == expected


def test_copies_inside_the_gpu_win_nothing_beside_kernels(tmp_path: Path) -> None:
    rows = [changed(one, copyKind=8) if "copyKind" in one.cells else one for one in taking_turns(310)]
    assert "copies_not_overlapped" not in stakes(tmp_path, *looped(*rows))


def test_what_is_said_of_copies_that_take_turns(tmp_path: Path) -> None:
    one = findings_of(new(tmp_path, *looped(*taking_turns(310))))["copies_not_overlapped"]
    assert one.numbers == {
        "steps": 3,
        "copies": 3,
        "exposed_ns": 900,
        "copies_ns": 900,
        "kernels_alone_ns": 2070,
        "blocked_ns": 900,  # k was launched at 10, as the copy began
        "blocked_kernel": "k",
        "same_stream": True,
    }
    assert words(one).evidence.endswith("; launched work waits 900 ns for them, in the same stream, mostly k")


@pytest.mark.parametrize("discrete", [(0,), (0, 1), (1,), ()])
def test_copies_of_a_gpu_in_the_memory_of_the_host(discrete: tuple[int, ...], tmp_path: Path) -> None:
    gpus = [row("TARGET_INFO_GPU", id=i, name="GPU", isDiscrete=one) for i, one in enumerate(discrete)]
    one = findings_of(new(tmp_path, *gpus, *looped(*taking_turns(310))))["copies_not_overlapped"]
    assert one.numbers.get("integrated", False) == (discrete == (0,))


@pytest.mark.parametrize(("hidden", "stake"), [(30, 3 * 270), (31, None)])
def test_copies_of_which_a_tenth_is_hidden_do_not_take_turns(
    hidden: int, stake: int | None, tmp_path: Path
) -> None:
    beside = [call("cudaLaunchKernel", 20, 30, 3, tid=101), kernel("other", 310 - hidden, 310, 3, streamId=8)]
    found = stakes(tmp_path, *looped(*taking_turns(310), *beside))
    assert found.get("copies_not_overlapped") == stake


# copy_bound
# CPU  |C 0-10|L 10-20|
# GPU         c[10 ................... 1000)
#             k[20, until)
def streamed(until: int, *, size: int = MEGABYTE, kind: int = PINNED) -> list[Row]:
    return [
        call("cudaMemcpyAsync", 0, 10, 1),
        memcpy(TO_DEVICE, 10, 1000, size, correlationId=1, srcKind=kind, dstKind=DEVICE, streamId=9),
        *(call("cudaLaunchKernel", 10, 20, 2), kernel("k", 20, until, 2)),
    ]


@pytest.mark.parametrize(("until", "expected"), [(300, 3 * 710), (940, 3 * 70), (970, None)])
def test_copies_with_no_kernel_left_to_overlap(until: int, expected: int | None, tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*streamed(until))).get("copy_bound") == expected


def test_what_is_said_of_a_link_that_is_the_limit(tmp_path: Path) -> None:
    one = findings_of(new(tmp_path, *looped(*streamed(300))))["copy_bound"]
    assert one.numbers == {
        "steps": 3,
        "copies": 3,
        "moved_bytes": 3 * MEGABYTE,
        "rate_bytes_per_s": pytest.approx(MEGABYTE / 990 * 1e9),
        "exposed_ns": 3 * 710,
        "kernels_ns": 3 * 280,
    }


@pytest.mark.parametrize(("fastest", "expected"), [(792, 3 * 710), (791, None)])
def test_a_link_far_from_its_best_rate_is_not_the_limit(
    fastest: int, expected: int | None, tmp_path: Path
) -> None:
    other = memcpy(TO_DEVICE, 0, fastest, MEGABYTE, srcKind=PINNED, dstKind=DEVICE, streamId=10)
    found = stakes(tmp_path, *looped(*streamed(300)), other)
    assert found.get("copy_bound") == expected


def test_the_limit_of_a_link_is_not_known_without_large_copies(tmp_path: Path) -> None:
    assert "copy_bound" not in stakes(tmp_path, *looped(*streamed(300, size=MEGABYTE - 1)))


# slow_link: 20 MB in 800 us are 25 bytes/ns; PCIe 5.0 has 63.0
@pytest.mark.parametrize(
    ("generation", "kind", "slow"), [(5, PINNED, True), (4, PINNED, False), (5, 0, False)]
)
def test_pinned_copies_far_below_the_link_are_a_fact(
    generation: int, kind: int, tmp_path: Path, *, slow: bool
) -> None:
    us = 1000
    copy = memcpy(TO_DEVICE, 100 * us, 900 * us, 20_000_000, correlationId=1, srcKind=kind, dstKind=DEVICE)
    rows = looped(call("cudaMemcpyAsync", 0, 50, 1), copy, every=1000 * us)
    facts = Conditions((Gpu("GPU-A", pcie_generation=generation, pcie_lanes=16),), Host(cpu="Xeon"))
    found = {one.kind: one for one in advice_of(recorded(tmp_path / "run", rows, None, facts)).facts}
    assert ("slow_link" in found) == slow
    if slow:
        rates = {"rate_bytes_per_s": 25e9, "link_bytes_per_s": pytest.approx(63.0e9, rel=1e-3)}
        assert found["slow_link"].numbers == rates


# tiny_copies: 10 ns each, of which 2 on the GPU, before a kernel
def tiny(count: int, size: int = 8, kind: int = TO_DEVICE) -> list[Row]:
    rows = []
    for number in range(count):
        at = 10 * number
        rows += [
            call("cudaMemcpyAsync", at, at + 10, number + 1),
            memcpy(kind, at + 8, at + 10, size, correlationId=number + 1, srcKind=PINNED, dstKind=PINNED),
        ]
    at = 10 * count
    return [*rows, call("cudaLaunchKernel", at, at + 10, 999), kernel("k", at + 10, STEP_NS, 999)]


def test_many_tiny_copies(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *looped(*tiny(34))))
    one = found["tiny_copies"]
    assert (list(found), one.ceiling_ns) == (["tiny_copies"], 3 * 34 * 10)
    assert one.numbers == {
        "steps": 3,
        "copies": 102,
        "median_bytes": 8.0,
        "most_bytes": 64000,
        "cost_ns": 1020,
    }


def test_fewer_than_a_hundred_copies_are_not_many(tmp_path: Path) -> None:
    # what is left is the time in their calls; 66 ns of copies in turn with the kernel are above 5 % too
    assert stakes(tmp_path, *looped(*tiny(33))) == {"idle_copy": 3 * 33 * 8}


def test_copies_of_more_than_64_kb_are_not_tiny(tmp_path: Path) -> None:
    assert "tiny_copies" in stakes(tmp_path, *looped(*tiny(34, size=64_000)))
    assert stakes(tmp_path, *looped(*tiny(34, size=64_001))) == {
        "idle_copy": 3 * 34 * 8,
        "copies_not_overlapped": 3 * 34 * 2,
    }


def test_tiny_copies_to_the_host_belong_to_synchronizing(tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*tiny(34, kind=TO_HOST))) == {
        "synchronizing": 3 * 34 * 8 - 2 + 2 * 12  # 12 of the launch, as the host runs ahead
    }


@pytest.mark.parametrize(("rest", "expected"), [(1, {}), (0, {"tiny_copies": 4 * 100 * 10})])
def test_tiny_copies_of_less_than_five_percent(rest: int, expected: dict[str, int], tmp_path: Path) -> None:
    # 5 steps of 20,000 ns, or a little more: a kernel fills what the copies leave
    every = 20_000 + rest
    rows = [*tiny(100)[:-2], call("cudaLaunchKernel", 990, 1000, 999), kernel("k", 1000, every, 999)]
    assert stakes(tmp_path, *looped(*rows, steps=5, every=every)) == expected


# Unified memory
# CPU  |L 0-10|
# GPU         k[10 ............. 1000)
#                m[100 .. until)
def migrating(until: int, cause: int = FAULT) -> list[Row]:
    return [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("k", 10, STEP_NS, 1)),
        memcpy(11, 100, until, 65_536, streamId=0, migrationCause=cause),
    ]


@pytest.mark.parametrize(
    ("until", "expected"), [(149, {}), (150, {"faulting_kernels": 150}), (300, {"faulting_kernels": 600})]
)
def test_kernels_that_wait_for_pages(until: int, expected: dict[str, int], tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*migrating(until))) == expected


def test_what_is_said_of_kernels_that_wait_for_pages(tmp_path: Path) -> None:
    one = findings_of(new(tmp_path, *looped(*migrating(300))))["faulting_kernels"]
    assert one.numbers == {
        "steps": 3,
        "migrations": 3,
        "migrated_bytes": 196608,
        "migrating_ns": 600,
        "kernels_ns": 2970,
    }


def test_pages_that_move_after_the_kernel_keep_it_waiting_for_none(tmp_path: Path) -> None:
    # GPU  k[10 .. 900)  m[100, 300)   back[950, 960)
    rows = [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("k", 10, 900, 1)),
        memcpy(11, 100, 300, 65_536, streamId=0, migrationCause=FAULT),
        memcpy(12, 950, 960, 65_536, streamId=0, migrationCause=FAULT),
    ]
    one = findings_of(new(tmp_path, *looped(*rows)))["faulting_kernels"]
    assert (one.numbers["migrations"], one.numbers["migrated_bytes"]) == (3, 3 * 65_536)


def test_prefetched_pages_beside_a_kernel_are_as_it_should_be(tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*migrating(300, PREFETCH))) == {}


# CPU  |La 0-10|Lb 10-20|
# GPU          a[10, 300) .. m[300 + gap, 450) b[450 ... 1000)
def idle_until_migrated(gap: int, cause: int = FAULT) -> list[Row]:
    return [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("a", 10, 300, 1)),
        memcpy(11, 300 + gap, 450, 65_536, streamId=0, migrationCause=cause),
        *(call("cudaLaunchKernel", 10, 20, 2), kernel("b", 450, STEP_NS, 2)),
    ]


@pytest.mark.parametrize(
    ("gap", "expected"), [(49, {}), (50, {"waiting_for_pages": 150}), (100, {"waiting_for_pages": 300})]
)
def test_a_gpu_that_is_idle_until_pages_have_moved(
    gap: int, expected: dict[str, int], tmp_path: Path
) -> None:
    assert stakes(tmp_path, *looped(*idle_until_migrated(gap))) == expected


def test_what_is_said_of_a_gpu_that_is_idle_until_pages_have_moved(tmp_path: Path) -> None:
    one = findings_of(new(tmp_path, *looped(*idle_until_migrated(100))))["waiting_for_pages"]
    assert one.numbers == {"steps": 3, "gaps": 3, "idle_ns": 300}


def test_pages_that_are_prefetched_late_are_idle_time_without_page_faults(tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*idle_until_migrated(100, PREFETCH))) == {"idle_migration": 300}


def test_pages_that_move_after_the_last_kernel_keep_none_waiting(tmp_path: Path) -> None:
    rows = [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("a", 10, 300, 1)),
        memcpy(12, 400, 450, 65_536, streamId=0, migrationCause=FAULT),
    ]
    found = findings_of(new(tmp_path, *rows))["idle_pages_to_host"]
    assert found.ceiling_ns == 100
    assert found.numbers == {"steps": 0, "idle_ns": 100, "cause": "migration", "computes": True}


@pytest.mark.parametrize("cause", [PREFETCH, EVICTION, None])
def test_pages_that_the_host_did_not_touch_are_not_called_fetched(cause: int | None, tmp_path: Path) -> None:
    rows = [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("a", 10, 300, 1)),
        memcpy(12, 400, 450, 65_536, streamId=0, migrationCause=cause),
    ]
    assert stakes(tmp_path, *rows) == {"idle_migration": 100}
