"""Findings about the host. Steps of 1000 ns are drawn once; of four, the last three are judged."""

from dataclasses import replace
from pathlib import Path

import pytest
from advised import STEADY_NS, STEP_NS, findings_of, launched, looped, new, stakes
from conditioned import H200, OWN, recorded
from tiny_export import OSRT, PID, Row, call, changed, global_id, graph, kernel, memcpy, nvtx, on_cpu

from nsyswrap.base.run_facts import Conditions, GpuProcess
from nsyswrap.reports.wording.advice import words

OTHER = GpuProcess(7, "python", in_run=False)
SYNC = "cudaDeviceSynchronize"
PINNED = {"srcKind": 1, "dstKind": 2}


# launch_bound
# CPU  |L 0-90   |
# GPU            k[100 ......... 1000)
def test_the_gpu_waits_for_launches(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *looped(*launched(100, length=90))))
    assert list(found) == ["launch_bound"]
    one = found["launch_bound"]
    assert (one.ceiling_ns, one.window_ns, one.ceiling_percent) == (300, STEADY_NS, 10.0)
    assert one.numbers == {
        "steps": 3,
        "bounds": False,
        "launches": 3,
        "median_launch_ns": 90.0,
        "median_work_ns": 900.0,
        "inside_ns": 300,
        "between_ns": 0,
    }


@pytest.mark.parametrize(("gap", "bounds"), [(249, False), (250, True)])
def test_a_program_is_bound_by_what_takes_a_quarter_of_its_time(
    gap: int, *, bounds: bool, tmp_path: Path
) -> None:
    found = findings_of(new(tmp_path, *looped(*launched(gap, length=90))))
    assert found["launch_bound"].numbers["bounds"] is bounds


@pytest.mark.parametrize(("gap", "expected"), [(49, {}), (50, {"launch_bound": 150})])
def test_launches_of_less_than_five_percent(gap: int, expected: dict[str, int], tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*launched(gap))) == expected


# CPU  host 0-300 |L 30 ns|
# GPU                     k[host + 40 ... 1000)
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (100, {"launch_bound": 3 * (100 + 40)}),
        (300, {"launch_bound": 3 * (300 + 40)}),
        (301, {"host_bound": 3 * 301}),  # the 40 ns inside launches are 4 %
    ],
)
def test_host_code_of_up_to_ten_launch_calls_belongs_to_launching(
    host: int, expected: dict[str, int], tmp_path: Path
) -> None:
    assert stakes(tmp_path, *looped(*launched(host + 40, host=host, length=30))) == expected


# host_bound
# CPU  host 0-390 |L 8 ns|
# GPU                    k[400 ... 1000)
def test_the_gpu_waits_for_host_code(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *looped(*launched(400, host=390))))
    one = found["host_bound"]
    assert (list(found), one.ceiling_ns, one.ceiling_percent) == (["host_bound"], 3 * 390, 39.0)
    assert one.numbers == {"steps": 3, "bounds": True, "gaps": 3, "median_ns": 390.0, "idle_ns": 1170}


def gaps_of(lengths: list[int], loads: tuple[int, ...] = (), *, behind: int = 0) -> list[Row]:
    """Kernels of 100 ns, each after host code of such a length; before some of them a module is loaded.

    ``behind``: so many ns after the kernel begins, as XLA's compiler clears a buffer before it loads.
    """
    rows, now = [], 0
    for number, length in enumerate(lengths):
        now += length
        load = now + (4 + behind if behind else -1)
        rows += [call("cuModuleLoadData", load, load + 1)] if number in loads else []
        rows += [call("cudaLaunchKernel", now, now + 2, number + 1)]
        rows += [kernel(f"k{number % 7 * number}", now + 4, now + 104, number + 1)]
        now += 104
    return rows


@pytest.mark.parametrize(
    ("lengths", "loads", "what"),
    [
        ([300] * 30, (), "median 300 ns per gap"),
        ([300] * 30 + [5000, 4500], (), "half of it in 2 gaps over 300 ns"),
        ([300] * 30 + [5000, 5000, 300], (30, 31), "10.0 µs of it before modules load"),
        ([300] * 30 + [12_000, 300], (30,), "12.0 µs in one gap"),
    ],
)
def test_gaps_without_steps_are_described_by_what_takes_the_time(
    lengths: list[int], loads: tuple[int, ...], what: str, tmp_path: Path
) -> None:
    one = findings_of(new(tmp_path, *gaps_of(lengths, loads)))["host_bound"]
    assert words(one).what == f"Host-bound: host code leaves the GPU idle, {what}"


@pytest.mark.parametrize(
    ("behind", "what"), [(90, "10.0 µs of it before modules load"), (290, "half of it in 2 gaps over 300 ns")]
)
def test_a_load_soon_after_host_code_is_what_it_made(behind: int, what: str, tmp_path: Path) -> None:
    rows = gaps_of([300] * 30 + [5000, 5000, 300], (30, 31), behind=behind)
    assert words(findings_of(new(tmp_path, *rows))["host_bound"]).what.endswith(what)


@pytest.mark.parametrize(("host", "expected"), [(49, {}), (50, {"host_bound": 150})])
def test_host_code_of_less_than_five_percent(host: int, expected: dict[str, int], tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*launched(host + 10, host=host, length=4))) == expected


# waiting_for_input
# CPU  host 0-300 |C 300-310|L 311-320|
# GPU                      c[320,340) k[340 ... 1000)
def copied_first(kind: int) -> list[Row]:
    return [
        call("cudaMemcpyAsync", 300, 310, 1),
        memcpy(kind, 320, 340, 10**6, correlationId=1, **PINNED),
        *(call("cudaLaunchKernel", 311, 320, 2), kernel("k", 340, STEP_NS, 2)),
    ]


def test_host_code_before_a_copy_to_the_device_may_be_input(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *looped(*copied_first(1))))
    one = found["waiting_for_input"]
    assert (list(found), one.ceiling_ns) == (["waiting_for_input"], 3 * (300 + 20))
    assert one.numbers == {
        "steps": 3,
        "os_calls_traced": False,
        "waits": 3,
        "median_ns": 300.0,
        "idle_ns": 960,
    }


# CPU  |M 0-2|   host 296   |M 300-302|La 310-312|  host 400  |M 720-722|Lb 730-732|
def test_only_a_traced_wait_is_said_to_be_input(tmp_path: Path) -> None:
    unknown = findings_of(new(tmp_path, *looped(*copied_first(1))))["waiting_for_input"]
    assert words(unknown).remedy == "Less or earlier host work"
    traced = findings_of(new(tmp_path, *looped(*copied_first(1), on_cpu(OSRT, "poll", 10, 200))))
    assert words(traced["waiting_for_input"]).remedy == "Loading input ahead"


def test_host_code_before_the_first_kernel_is_no_input(tmp_path: Path) -> None:
    rows: list[Row] = [call("cudaMemcpyAsync", 0, 2, 1), memcpy(1, 2, 4, 1 << 20, correlationId=1, **PINNED)]
    for begin, name, ids in ((300, "a", 10), (720, "b", 20)):
        copy = memcpy(1, begin + 4, begin + 6, 1 << 20, correlationId=ids, **PINNED)
        launch = call("cudaLaunchKernel", begin + 10, begin + 12, ids + 1)
        rows += [call("cudaMemcpyAsync", begin, begin + 2, ids), copy]
        rows += [launch, kernel(name, begin + 14, begin + 20, ids + 1)]
    found = {name: one.numbers for name, one in findings_of(new(tmp_path, *rows)).items()}
    assert (found["host_bound"]["longest_ns"], found["host_bound"]["before_kernels"]) == (296, True)
    later = found["waiting_for_input"]
    assert (later["longest_ns"], later["before_kernels"]) == (400, False)


def test_host_code_before_a_copy_to_the_host_is_no_input(tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*copied_first(2))) == {"host_bound": 3 * 300}


@pytest.mark.parametrize(
    ("until", "expected"), [(160, {"host_bound": 900}), (161, {"waiting_for_input": 960})]
)
def test_traced_os_calls_decide_what_is_input(until: int, expected: dict[str, int], tmp_path: Path) -> None:
    # of the 300 ns of host code more than half has to be waiting
    rows = looped(*copied_first(1), on_cpu(OSRT, "poll", 10, until))
    assert stakes(tmp_path, *rows) == expected


def test_a_traced_wait_needs_no_copy(tmp_path: Path) -> None:
    rows = looped(*launched(400, host=390), on_cpu(OSRT, "pthread_cond_wait", 0, 390))
    found = findings_of(new(tmp_path, *rows))
    one = found["waiting_for_input"]
    assert (list(found), one.ceiling_ns) == (["waiting_for_input"], 3 * 400)
    assert one.numbers == {
        "steps": 3,
        "os_calls_traced": True,
        "waits": 3,
        "median_ns": 390.0,
        "idle_ns": 1200,
    }


def test_input_of_less_than_five_percent_is_no_finding(tmp_path: Path) -> None:
    def waited(host: int) -> list[Row]:
        poll = on_cpu(OSRT, "poll", 0, host)
        return looped(*launched(host + 4, host=host, length=4), poll)

    assert stakes(tmp_path, *waited(45)) == {}
    assert stakes(tmp_path, *waited(46)) == {"waiting_for_input": 150}


# synchronizing
# CPU  |La 0-10|S 10-360    |host|Lb 370-380|
# GPU          a[10, 300)                b[390 ... 1000)
def drained(wait: int = 360, host: int = 10, gap: int = 90) -> list[Row]:
    begin = wait + host
    return [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("a", 10, 300, 1)),
        call(SYNC, 10, wait),
        *(call("cudaLaunchKernel", begin, begin + 10, 2), kernel("b", 300 + gap, STEP_NS, 2)),
    ]


def test_the_host_waits_until_the_gpu_is_idle(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *looped(*drained())))
    one = found["synchronizing"]
    # without the waits two of the three gaps of 10 ns at the begin of a step are hidden, too
    assert (list(found), one.ceiling_ns) == (["synchronizing"], 3 * 90 + 2 * 10)
    assert one.numbers == {"steps": 3, "after_every_operation": False, "gaps": 3, "idle_ns": 270}


@pytest.mark.parametrize(("gap", "expected"), [(49, {}), (50, {"synchronizing": 150 + 2 * 10})])
def test_waits_of_less_than_five_percent(gap: int, expected: dict[str, int], tmp_path: Path) -> None:
    assert stakes(tmp_path, *looped(*drained(wait=320, gap=gap))) == expected


# CPU  |M 0-20|       host           |La 120-130|
# GPU    c[18,20)                                a[140,300)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cudaMemcpyAsync", {"idle_host": 100, "idle_launch": 20}),
        ("cudaMemcpy", {"synchronizing": 120}),  # which returns when the copy has ended
    ],
)
def test_before_the_first_launch_only_a_call_is_a_wait(
    name: str, expected: dict[str, int], tmp_path: Path
) -> None:
    rows = [
        *(call(name, 0, 20, 1), memcpy(1, 18, 20, 1 << 20, correlationId=1, **PINNED)),
        *(call("cudaLaunchKernel", 120, 130, 2), kernel("a", 140, 300, 2)),
    ]
    assert stakes(tmp_path, *rows) == expected


def test_a_wait_after_every_operation_is_named(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *looped(*drained(), call(SYNC, 380, STEP_NS))))
    # a second wait, in which the GPU works until the end; the launch at the begin of each step follows it
    assert found["synchronizing"].ceiling_ns == 3 * 90 + 2 * 10
    assert found["synchronizing"].numbers == {
        "steps": 3,
        "after_every_operation": True,
        "gaps": 6,
        "idle_ns": 300,
    }


def test_long_host_code_after_a_wait_is_a_finding_of_its_own(tmp_path: Path) -> None:
    rows = looped(*drained(host=120, gap=200))  # 60 in the wait, 120, 20 in the launch
    # without the wait the host code runs beside the kernel before it
    assert stakes(tmp_path, *rows) == {"host_bound": 3 * 120, "synchronizing": 3 * 200 + 2 * 10}


# CPU  |La 0-10|   |M begin ......... 370|Lb 380-390|
# GPU          a[10, 300)   c[360,364)    b[400 ... 1000)
@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (20, {"synchronizing": 36 + 2 * (10 + 60 + 36)}),  # the first copy is no earlier than recorded
        (340, {"synchronizing": 3 * (60 + 36)}),  # the call takes 30 ns: less than 5 % are gained
    ],
)
def test_a_small_copy_to_the_host_is_a_wait(begin: int, expected: dict[str, int], tmp_path: Path) -> None:
    rows = [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("a", 10, 300, 1)),
        *(call("cudaMemcpy", begin, 370, 2), memcpy(2, 360, 364, 4, correlationId=2, srcKind=2, dstKind=0)),
        *(call("cudaLaunchKernel", 380, 390, 3), kernel("b", 400, STEP_NS, 3)),
    ]
    assert stakes(tmp_path, *looped(*rows)) == expected


def test_of_two_gpus_the_one_that_gains_least_counts(tmp_path: Path) -> None:
    # on the other one 55 ns a step are idle, which its launches end; the first is no earlier than recorded
    other = [call("cudaLaunchKernel", 0, 5, 3, tid=101), kernel("c", 5, 950, 3, deviceId=1)]
    one = findings_of(new(tmp_path, *looped(*drained(), *other)))["synchronizing"]
    assert one.ceiling_ns == 50 + 2 * 55


# allocating
# CPU  |F 0-200 |host|L 210-220|
# GPU                         k[230 ... 1000)
def test_the_gpu_waits_while_memory_is_freed(tmp_path: Path) -> None:
    rows = looped(*launched(230, host=210, length=10), call("cudaFree", 0, 200))
    found = findings_of(new(tmp_path, *rows))
    one = found["allocating"]
    assert (list(found), one.ceiling_ns) == (["allocating"], 3 * 230)
    assert one.numbers == {"steps": 3, "gaps": 3, "idle_ns": 690, "inside_ns": 600}


@pytest.mark.parametrize(
    ("spent", "expected"), [(23, {"launch_bound": 3 * (230 - 23)}), (24, {"allocating": 3 * 230})]
)
def test_allocating_has_to_take_a_tenth_of_a_gap(
    spent: int, expected: dict[str, int], tmp_path: Path
) -> None:
    rows = looped(*launched(230, host=100, length=120), call("cudaMalloc", 0, spent))
    assert stakes(tmp_path, *rows) == expected


@pytest.mark.parametrize(("gap", "expected"), [(49, {}), (50, {"allocating": 150})])
def test_allocating_of_less_than_five_percent(gap: int, expected: dict[str, int], tmp_path: Path) -> None:
    rows = looped(*launched(gap, host=30, length=10), call("cudaMalloc", 0, 30))
    assert stakes(tmp_path, *rows) == expected


# loading_in_loop
# CPU  |M|host 5-205|L 205-215|
# GPU                        k[230 ... 1000)
COMPILED = [*launched(230, host=205, length=10), call("cuModuleLoadData", 0, 5)]


def test_one_loading_call_is_enough_in_a_step(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *looped(*COMPILED)))
    one = found["loading_in_loop"]
    assert (list(found), one.ceiling_ns) == (["loading_in_loop"], 3 * 230)
    assert one.numbers == {"steps": 3, "calls": 3, "idle_ns": 690, "loading_ns": 15, "host_ns": 600}


def test_steps_that_load_are_named_if_they_are_few(tmp_path: Path) -> None:
    drawn = looped(*launched(400, host=390), steps=20)
    loads = [call("cuModuleLoadData", at, at + 5) for at in (7 * STEP_NS, 9 * STEP_NS, 11 * STEP_NS)]
    few = findings_of(new(tmp_path, *drawn, *loads))["loading_in_loop"]
    assert few.numbers["step_numbers"] == (7, 9, 11)
    assert words(few).what == "JIT compiling or module loading: the GPU is idle for 1.20 µs in 3 of 19 steps"
    more = [call("cuModuleLoadData", at * STEP_NS, at * STEP_NS + 5) for at in (13, 15)]
    assert "step_numbers" not in findings_of(new(tmp_path, *drawn, *loads, *more))["loading_in_loop"].numbers


def test_where_nothing_repeats_a_tenth_of_a_gap_has_to_be_loading(tmp_path: Path) -> None:
    capture = new(tmp_path, *looped(*COMPILED)).select(time="1000/4000")
    assert {name: one.ceiling_ns for name, one in findings_of(capture).items()} == {"host_bound": 3 * 200}
    loaded = [*launched(230, host=205, length=10), call("cuModuleLoadData", 0, 60)]
    capture = new(tmp_path, *looped(*loaded)).select(time="1000/4000")
    found = {name: one.ceiling_ns for name, one in findings_of(capture).items()}
    assert found == {"host_bound": 3 * 145, "loading_in_loop": 3 * 60}


# CPU  |La 0-10|     host    |Lb 190-200|
# GPU          a[10,100)             b[210,300)
def test_kernels_that_run_once(tmp_path: Path) -> None:
    rows = [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("a", 10, 100, 1)),
        *(call("cudaLaunchKernel", 190, 200, 2), kernel("b", 210, 300, 2)),
    ]
    # no call loads anything; of the 110 ns the launch takes 20
    assert stakes(tmp_path, *rows) == {"idle_host": 90, "idle_launch": 20}
    one = findings_of(new(tmp_path, *rows))["idle_launch"]
    assert one.numbers["all_first"]


# CPU  |G 0-10|.. host 90 ..|G 0-10 ..
# GPU         g[15 ..... 900)
def test_graphs_are_no_cure_for_host_code_between_launches_of_graphs(tmp_path: Path) -> None:
    rows = looped(call("cudaGraphLaunch", 90, 100, 1), graph(150, STEP_NS, 1))
    found = findings_of(new(tmp_path, *rows))
    assert {name: one.ceiling_ns for name, one in found.items()} == {"host_bound": 270, "idle_launch": 180}
    assert found["idle_launch"].numbers["all_graphs"]


# CPU  host 0-90 |G 90-100|G 100 ... 500|G 500 ... 720|
# GPU                       g[150,400)   g[520,700)    g[750,1000)
def test_gaps_before_graphs_without_host_code_are_not_in_the_median(tmp_path: Path) -> None:
    rows = [
        *(call("cudaGraphLaunch", 90, 100, 1), graph(150, 400, 1)),
        *(call("cudaGraphLaunch", 100, 500, 2), graph(520, 700, 2)),
        *(call("cudaGraphLaunch", 500, 720, 3), graph(750, STEP_NS, 3)),
    ]
    one = findings_of(new(tmp_path, *looped(*rows)))["host_bound"]
    assert (one.numbers["gaps"], one.numbers["median_ns"]) == (3, 90.0)


@pytest.mark.parametrize(("gap", "expected"), [(49, {}), (50, {"loading_in_loop": 150})])
def test_loading_of_less_than_five_percent(gap: int, expected: dict[str, int], tmp_path: Path) -> None:
    rows = looped(*launched(gap, host=30, length=10), call("cuModuleLoadData", 0, 30))
    assert stakes(tmp_path, *rows) == expected


# garbage_collection
# CPU  .. host 400, in it a collection 100-350 ..|L 400-410|
# GPU                                                      k[410 ... 1000)
GC_DOMAIN = nvtx("nsyswrap.gc", 0, None, eventType=75, domainId=5)


def collected(until: int, took: int) -> Row:
    return nvtx("generation 2", until, None, eventType=34, domainId=5, uint64Value=took)


@pytest.mark.parametrize(
    ("took", "expected"),
    [
        (49, {"host_bound": 3 * 351}),
        (50, {"host_bound": 3 * 350, "garbage_collection": 3 * 50}),
        (250, {"garbage_collection": 3 * 250, "host_bound": 3 * 150}),
    ],
)
def test_garbage_collection_is_no_other_host_code(
    took: int, expected: dict[str, int], tmp_path: Path
) -> None:
    marks = [collected(at + 350, took) for at in range(0, 4 * STEP_NS, STEP_NS)]
    rows = [*looped(*launched(410, host=400, length=10)), GC_DOMAIN, *marks]
    assert stakes(tmp_path, *rows) == expected


def test_what_is_said_of_garbage_collection(tmp_path: Path) -> None:
    others = [
        changed(collected(1900, 500), domainId=0),  # a mark of the program
        changed(collected(1900, 500), globalTid=global_id(PID + 1, PID + 1)),  # in another process
        collected(300, 900),  # longer than the time before it
    ]
    rows = looped(*launched(20, host=10, length=10), steps=10, longer={5: 2000})
    capture = new(tmp_path, *rows, GC_DOMAIN, collected(8000, 1900), *others)
    found = findings_of(capture)
    one = found["garbage_collection"]
    # The long step is no finding of its own.
    assert (list(found), one.ceiling_ns) == (["garbage_collection"], 1900)
    assert one.numbers == {"steps": 9, "collections": 1, "collecting_ns": 1900, "idle_ns": 1900}


# spikes
# CPU  |L 0-10|
# GPU         k[20 ........... 1000)   and one step of 3000
USUAL = launched(20, length=10)


def test_an_unusually_long_step(tmp_path: Path) -> None:
    found = findings_of(new(tmp_path, *looped(*USUAL, steps=10, longer={5: 2000})))
    one = found["spikes"]
    assert (list(found), one.ceiling_ns, one.window_ns) == (["spikes"], 2000, 8 * 1000 + 3000)
    assert one.numbers == {
        "steps": 9,
        "step_numbers": (5,),
        "median_ns": 1000.0,
        "outlier_ns": 3000.0,
        "more_ns": 2000,
    }
    assert (one.evidence.start.tolist(), one.evidence.end.tolist()) == ([5000, 6000], [5020, 8000])


def test_a_long_step_on_a_gpu_that_others_use_can_be_theirs(tmp_path: Path) -> None:
    rows = looped(*USUAL, steps=10, longer={5: 2000})
    for others, remedy in (
        ((), "Removing the extra work"),
        ((OTHER,), "A GPU of its own or less extra work"),
    ):
        facts = Conditions((replace(H200, processes=(OWN, *others)),))
        one = findings_of(recorded(tmp_path / f"{len(others)}", rows, [], facts))["spikes"]
        assert words(one).remedy == remedy


@pytest.mark.parametrize(("longer", "expected"), [(999, {}), (1000, {"spikes": 1000})])
def test_a_long_step_of_less_than_five_percent(longer: int, expected: dict[str, int], tmp_path: Path) -> None:
    # 19 steady steps: 1000 of 20,000 ns
    assert stakes(tmp_path, *looped(*USUAL, steps=20, longer={5: longer})) == expected


def test_a_long_step_that_computes_is_no_spike(tmp_path: Path) -> None:
    more = [call("cudaLaunchKernel", 5020, 5030, 99_999), kernel("k", 6000, 8000, 99_999)]
    assert stakes(tmp_path, *looped(*USUAL, steps=10, longer={5: 2000}), *more) == {}


def test_many_long_steps_are_listed_in_short(tmp_path: Path) -> None:
    longer = dict.fromkeys(range(5, 40, 6), 1000)
    found = findings_of(new(tmp_path, *looped(*USUAL, steps=40, longer=longer)))
    assert found["spikes"].numbers == {
        "steps": 39,
        "step_numbers": (5, 11, 17, 23, 29, 35),
        "median_ns": 1000.0,
        "outlier_ns": 2000.0,
        "more_ns": 6000,
    }
    assert found["spikes"].ceiling_ns == 6 * 1000


# In the long step 5, from 6000 on: a wait, a pageable copy, a late launch of communication, a page fault.
def test_what_fills_a_long_step_is_no_other_finding(tmp_path: Path) -> None:
    reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL()"
    warm_up = [call("cudaLaunchKernel", 30, 40, 90_003), kernel(reduce, 100, 200, 90_003, streamId=9)]
    filled = [
        *(call(SYNC, 6000, 6900), call("cudaMemcpy", 6900, 7000, 90_001)),
        memcpy(1, 6950, 7000, 10**6, correlationId=90_001, srcKind=0, dstKind=2, migrationCause=None),
        *(call("cudaLaunchKernel", 7000, 7500, 90_002), kernel(reduce, 7500, 7900, 90_002)),
        memcpy(11, 7600, 7900, 65_536, streamId=0, migrationCause=2),
    ]
    rows = [*looped(*USUAL, steps=10, longer={5: 2000}), *warm_up, *filled]
    # communication is no compute
    assert stakes(tmp_path, *rows) == {"spikes": 2000}


@pytest.mark.parametrize(
    ("name", "finding"), [("cuModuleLoadData", "loading_in_loop"), ("cudaMalloc", "allocating")]
)
def test_loading_and_allocating_say_why_a_step_is_long(name: str, finding: str, tmp_path: Path) -> None:
    # 1200 in the call and 20 until the kernel, which runs from 7220 to 7300
    late = [call("cudaLaunchKernel", 7200, 7210, 90_001), kernel("k", 7220, 7300, 90_001)]
    more = [call(name, 6000, 7200), *late]
    found = stakes(tmp_path, *looped(*USUAL, steps=10, longer={5: 2000}), *more)
    # and 700 of 11,000 ns until the step ends
    assert found == {finding: 1220, "spikes": 700}
