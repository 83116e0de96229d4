"""Every table has a rule for redact: those that reports read, and those of all exports known here."""

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tiny_export import Row, nvml_samples, row, write

from nsyswrap.analysis.usage import nvml_curves_of
from nsyswrap.api import CaptureReader
from nsyswrap.capture import schema
from nsyswrap.capture.redact import check, redact, search

RECORDED = Path(__file__).resolve().parents[1] / "data" / "recorded"
SHIPPED = Path(__file__).resolve().parents[2] / "nsyswrap" / "recorded"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "exports"
EXPORTS = [
    *sorted(SHIPPED.glob("*/*/*.sqlite")),
    *sorted(RECORDED.rglob("*.sqlite.xz")),
    *sorted(SHARED.rglob("*.sqlite*")),
]
# Tables of nsys 2023.4 that stay empty without special hardware: no export here holds rows of them.
RARE = (
    *("CUDA_GPU_MEMORY_POOL_EVENTS", "ETW_EVENTS", "ETW_PROVIDERS", "ETW_TASKS", "GPU_CONTEXT_SWITCH_EVENTS"),
    *("MEMORY_TRANSFER_EVENTS", "MPI_COMMUNICATORS", "MPI_RANKS", "NET_IB_SWITCH_METRIC", "NET_NIC_METRIC"),
    *("NIC_ID_MAP", "NVVIDEO_JPEG_API", "PERF_EVENT_CPU_RAW_EVENT", "PMU_EVENTS", "PMU_EVENT_COUNTERS"),
    *("PMU_EVENT_REQUESTS", "TARGET_INFO_NETWORK_METRICS", "TARGET_INFO_PERF_METRIC"),
    *("TRACE_PROCESS_EVENT_NVMEDIA", "UCP_EVENTS", "UCP_PROGRESS_EVENTS", "UCP_SUBMIT_EVENTS", "UCP_WORKERS"),
    *("UNCORE_PMU_EVENTS", "UNCORE_PMU_EVENT_VALUES"),
)


def tables_of(export: Path, folder: Path) -> set[str]:
    if export.suffix == ".xz":
        content = lzma.decompress(export.read_bytes())
        export = folder / "x.sqlite"
        export.write_bytes(content)
    with closing(sqlite3.connect(f"{export.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def without_rule(tables: set[str]) -> set[str]:
    return {table for table in tables if search.rule_of(table) is None and not table.startswith("sqlite_")}


def test_every_table_that_reports_read_has_a_rule() -> None:
    constants = {
        *(schema.STRINGS, *schema.EXPORT_METADATA, schema.CAPTURE_METADATA, schema.SYSTEM_ENV, schema.GPUS),
        *(schema.THREAD_NAMES, schema.SESSION_START, schema.ANALYSIS, schema.CUDA_DEVICES),
    }
    read = {events.table.replace("*", "ANY") for events in schema.EVENTS.values()}
    read |= {table for table, _ in schema.ENUMS.values()}
    assert without_rule(read | constants | set(RARE)) == set()


def test_every_table_of_every_export_has_a_rule(tmp_path: Path) -> None:
    tables = set[str]().union(*(tables_of(export, tmp_path) for export in EXPORTS))
    assert schema.GPUS in tables
    assert without_rule(tables) == set()


def test_the_longest_pattern_is_the_rule() -> None:
    assert search.rule_of("CUPTI_ACTIVITY_KIND_OPENACC_DATA") == search.Rule(searched=("srcFile",))
    assert search.rule_of("CUPTI_ACTIVITY_KIND_NEW") == search.Rule(kept=("name",))
    assert search.rule_of("NEW") is None


def test_strings_that_a_rule_searches_are_string_columns() -> None:
    columns = {column for rule in search.RULES.values() for column in rule.searched}
    assert all(schema.STRING_COLUMN.fullmatch(column) for column in columns)


def test_a_table_without_a_rule_is_named(tmp_path: Path) -> None:
    write(tmp_path / "x.sqlite", row("CUPTI_ACTIVITY_KIND_KERNEL", start=1), row("NEW_TABLE", text="a"))
    assert check(tmp_path / "x.sqlite").unknown == ("NEW_TABLE",)


@pytest.mark.parametrize("table", ["NVTX_EVENTS", "DIAGNOSTIC_EVENT", "PROCESSES"])
def test_a_table_with_a_rule_is_not_named(tmp_path: Path, table: str) -> None:
    write(tmp_path / "x.sqlite", row("CUPTI_ACTIVITY_KIND_KERNEL", start=1), row(table, value="a"))
    assert check(tmp_path / "x.sqlite").unknown == ()


def test_texts_of_plugins_and_of_traces_of_the_system_are_removed(tmp_path: Path) -> None:
    """Their JSON can hold an environment, and paths with escapes; what the plugin sampled stays."""
    source, target = tmp_path / "x.sqlite", tmp_path / "y.sqlite"
    text = r'{"env": ["TOKEN=dont-panic-42"], "cwd": "\/home\/trillian"}'
    rows = [
        Row(one.table, {**one.cells, "data": text}) if one.table == "GENERIC_EVENTS" else one
        for one in nvml_samples((74, 36), (310, 41))
    ]
    described = row("GENERIC_EVENT_TYPES", typeId=7, sourceId=1, nameId="", data=text)
    write(source, row("CUPTI_ACTIVITY_KIND_KERNEL", start=1), *rows, described)
    secret = next(one for one in check(source).secrets if one.kind == "texts of system events")
    assert (secret.count, set(secret.names)) == (3, {"GENERIC_EVENTS", "GENERIC_EVENT_TYPES"})
    redact(source, target)
    assert check(target).secrets == ()
    for word in (b"dont-panic", b"trillian"):
        assert word not in target.read_bytes()
    assert [one.values.tolist() for one in nvml_curves_of(CaptureReader(target))] == [[74, 310], [36, 41]]


def test_the_process_of_a_plugin_is_another_process(tmp_path: Path) -> None:
    plugin = 4711 << 24
    rows = [
        Row(one.table, {**one.cells, "globalTid": plugin + 4711}) if one.table == "GENERIC_EVENTS" else one
        for one in nvml_samples((74, 36))
    ]
    write(
        tmp_path / "x.sqlite",
        row("CUPTI_ACTIVITY_KIND_KERNEL", start=1, globalPid=100 << 24),
        row("PROCESSES", globalPid=plugin, name="nvml"),
        *rows,
    )
    kinds = {one.kind: one.count for one in check(tmp_path / "x.sqlite").secrets}
    assert kinds == {"other processes' names": 1}
