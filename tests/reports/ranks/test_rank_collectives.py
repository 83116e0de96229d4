import json
import struct
from pathlib import Path
from typing import Any

import pytest
from rank_exports import ALL_REDUCE, FAST, SLOW, member, steps, table_over
from report_tables import values_of
from tiny_export import Row, call, changed, kernel, nvtx, row

from nsyswrap.analysis.ranks.members import RankCapture
from nsyswrap.analysis.ranks.waiting import named

REPORT = "rank_collectives"
ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096>)"
CREATED, CALLED = 6, 7  # schemas of payloads
SCHEMAS = [
    row(
        "NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=3, schemaId=CREATED, name="NCCL communicator ID", offset=None
    ),
    row("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=3, schemaId=CREATED, name="No. of ranks", offset=8),
    row("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=3, schemaId=CALLED, name="NCCL communicator ID", offset=None),
    row("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=3, schemaId=CALLED, name="Message size [bytes]", offset=8),
]


def created(form: str, ranks: int) -> dict[str, Any]:
    if form == "json":
        return {"jsonText": json.dumps({"NCCL communicator ID": 77, "No. of ranks": ranks, "Rank": 0})}
    return {"binaryData": struct.pack("<4I3QIIII", 3, 0, CREATED, 0, 24, 56, 77, ranks, 0, 0, 0)}


def called(form: str, size: int) -> dict[str, Any]:
    if form == "json":
        return {"jsonText": json.dumps({"NCCL communicator ID": 77, "Message size [bytes]": size})}
    return {"binaryData": struct.pack("<4I4Q", 3, 0, CALLED, 0, 16, 48, 77, size)}


# rank 0  kernel[10 ............. 110)   transfer 20, rank 0 waits 80 ns
# rank 1                 kernel[90 .. 110)
def rank(
    folder: Path, number: int, *sizes: int, name: str = ALL_REDUCE, world: int = 2, form: str = "blob"
) -> RankCapture:
    rows: list[Row] = [*SCHEMAS, nvtx("ncclCommInitRank", 0, 5, domainId=3, **created(form, world))]
    for k, size in enumerate(sizes):
        at = 1000 * (k + 1)
        rows += [
            nvtx("nccl", at, at + 10, domainId=3, **called(form, size)),
            call("cudaLaunchKernel", at + 1, at + 9, k + 1),
            kernel(name, at + (10, 90)[number], at + 110, k + 1, gridX=16),
        ]
    return member(folder, number, *rows)


@pytest.mark.parametrize("form", ["json", "blob"])
def test_sizes_and_bandwidth_of_an_all_reduce(tmp_path: Path, form: str) -> None:
    members = [rank(tmp_path, number, 4000, 4000, 100, form=form) for number in range(2)]
    # Two all-reduces of 4,000 bytes take 20 ns each: 200 bytes/ns; 2(n-1)/n of two ranks is 1.
    assert table_over(members, REPORT).rows() == [
        ("AllReduce", "f32", "4d", 2, 4000, 2, 16.0, 40, 20.0, 160, 200e9, 200e9),
        ("AllReduce", "f32", "4d", 2, 100, 1, 16.0, 20, 20.0, 80, 5e9, 5e9),
    ]


def test_an_all_gather_moves_the_part_of_each_rank(tmp_path: Path) -> None:
    members = [rank(tmp_path, number, 4000, name=ALL_GATHER) for number in range(2)]
    found = values_of(
        table_over(members, REPORT), "collective", "type", "algorithm_bytes_per_s", "bus_bytes_per_s"
    )
    assert found == [("AllGather", None, 400e9, 200e9)]  # 8,000 bytes in 20 ns, half of them over the bus


def test_bandwidth_is_unknown_if_a_rank_is_missing(tmp_path: Path) -> None:
    table = table_over([rank(tmp_path, number, 4000, world=4) for number in range(2)], REPORT)
    assert values_of(table, "size_bytes", "transfer_ns", "bus_bytes_per_s") == [(4000, 20, None)]
    assert table.notes[-1].startswith("bandwidth needs all ranks of a communicator")


def test_ranks_that_name_different_sizes_have_none(tmp_path: Path) -> None:
    table = table_over([rank(tmp_path, 0, 4000), rank(tmp_path, 1, 8000)], REPORT)
    assert values_of(table, "size_bytes", "bus_bytes_per_s") == [(None, None)]


def test_without_payloads_it_says_how_to_export_them(tmp_path: Path) -> None:
    members = [member(tmp_path, number, *steps(*[one] * 6)) for number, one in enumerate((FAST, SLOW))]
    table = table_over(members, REPORT)
    assert values_of(table, "communicator", "size_bytes", "transfer_ns", "waiting_ns", "bus_bytes_per_s") == [
        (None, None, 540, 1200, None)
    ]
    assert "nsys export --type sqlite --include-blobs true" in table.notes[-1]


def test_times_are_unknown_if_the_collectives_may_be_others(tmp_path: Path) -> None:
    members = [member(tmp_path, 0, *steps(*[FAST] * 6)), member(tmp_path, 1, *steps(*[SLOW] * 5))]
    assert values_of(table_over(members, REPORT), "transfer_ns", "waiting_ns") == [(None, None)]


@pytest.mark.parametrize("data", [b"", b"\xff" * 32, b"\xff" * 48, struct.pack("<4I", 3, 0, CALLED, 0)])
def test_a_damaged_payload_says_nothing(tmp_path: Path, data: bytes) -> None:
    def damaged(number: int) -> RankCapture:
        rows = [*SCHEMAS, nvtx("nccl", 0, 10, domainId=3, binaryData=data), call("cudaLaunchKernel", 1, 9, 1)]
        return member(tmp_path, number, *rows, kernel(ALL_REDUCE, 10, 20, 1))

    found = values_of(table_over([damaged(0), damaged(1)], REPORT), "communicator", "size_bytes")
    assert found == [(None, None)]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", ("AllReduce", "bf16")),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(x)", ("AllReduce", "f32")),
        ("ncclKernel_AllReduce_RING_LL_Sum___nv_bfloat16(x)", ("AllReduce", "bf16")),
        ("ncclDevKernel_ReduceScatter_Sum_u32_RING_LL(x)", ("ReduceScatter", "int32")),  # of int32, too
        ("ncclKernel_AllReduce_RING_LL_Sum_int64_t(x)", ("AllReduce", "int64")),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t(x)", ("AllGather", None)),  # its type is no data type
        ("ncclDevKernel_AllReduce_New_f4_RING_LL(x)", ("AllReduce", None)),
        ("cross_device_reduce_1stage<float>(x)", ("cross_device_reduce_1stage", None)),
    ],
)
def test_what_a_name_says(kernel: str, expected: tuple[str, str | None]) -> None:
    assert named(kernel) == expected


def of_text(folder: Path, text: str) -> list[tuple[Any, ...]]:
    """Communicator and size of a collective of two ranks whose payload is this text."""

    def one(number: int) -> RankCapture:
        rows = [nvtx("nccl", 0, 10, domainId=3, jsonText=text), call("cudaLaunchKernel", 1, 9, 1)]
        return member(folder, number, *rows, kernel(ALL_REDUCE, 10, 20, 1))

    return values_of(table_over([one(0), one(1)], REPORT), "communicator", "size_bytes")


@pytest.mark.parametrize(
    ("number", "communicator", "size"),
    [
        ('"0x4d"', "4d", 0x4D),
        ('"4,000"', "fa0", 4000),
        ("007", "7", 7),
        (str(2**64 - 1), "f" * 16, None),  # no size of a message
        (",", None, None),
        ("1.5e6", None, None),
        ("9" * 5000, None, None),
    ],
)
def test_numbers_in_a_text(tmp_path: Path, number: str, communicator: str | None, size: int | None) -> None:
    text = f'{{"NCCL communicator ID":{number},"Message size [bytes]":{number}}}'
    assert of_text(tmp_path, text) == [(communicator, size)]


def test_a_schema_of_another_library_is_not_that_of_nccl(tmp_path: Path) -> None:
    """Libraries number their schemas alike, from the same number on."""

    def one(number: int) -> RankCapture:
        ranges = [nvtx("other", 0, 10, domainId=4, **called("blob", 4000))]
        return member(
            tmp_path,
            number,
            *SCHEMAS,
            *ranges,
            call("cudaLaunchKernel", 1, 9, 1),
            kernel(ALL_REDUCE, 10, 20, 1),
        )

    table = table_over([one(0), one(1)], REPORT)
    assert values_of(table, "communicator", "size_bytes") == [(None, None)]


def test_two_payloads_of_one_time_are_no_error(tmp_path: Path) -> None:
    both = [nvtx("ncclCommInitRank", 0, 10, domainId=3, **called("json", 4000))]
    members = [rank(tmp_path, number, 4000, form="json") for number in range(2)]
    assert table_over(members, REPORT).rows()[0][4] == 4000
    damaged = [
        member(
            tmp_path / "x",
            number,
            *both,
            nvtx("ncclCommInitRank", 0, 10, domainId=3, **created("json", 2)),
            changed(nvtx("nccl", 0, 10, domainId=3, **called("json", 4000)), start="damaged"),
            call("cudaLaunchKernel", 1, 9, 1),
            kernel(ALL_REDUCE, 10, 20, 1),
        )
        for number in range(2)
    ]
    assert values_of(table_over(damaged, REPORT), "communicator") == [("4d",)]
