"""Secrets planted in every place of an export that can hold a text, and the values that must be gone."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tiny_export import PID, Row, diagnostic, global_id, kernel, nvtx, row

USER = "zaphod"
HOST = "magrathea7"
KEY = "Vogon42-poetry-xq"
ODD = "forty-two towels 42"
UUID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
SECRETS = (USER, HOST, KEY, ODD, UUID, "Slartibartfast99", "10.42.7.9", "00:1a:2b:3c:4d:5e")
ENVIRONMENT = (
    f"HOME=/data/users/{USER}\0USER={USER}\0HOSTNAME={HOST}.galaxy.example\0WANDB_API_KEY={KEY}\0"
    f"GREETING={ODD}\0PATH=/usr/bin:/bin\0DB_PASSWORD=Slartibartfast99\0"
)
# Paths that name the user.
PATHS = (
    *(f"/home/{USER}/x", f"/scratch/{USER}/x", f"/home/group/{USER}/x", f"/u/{USER}/x", f"/Users/{USER}/x"),
    *(f"/data/users/{USER}/x", rf"C:\Users\{USER}\x", rf"C:\\Users\\{USER}\\x", f"/global/homes/z/{USER}/x"),
    *(f"/mnt/disk/{USER}", f"--out=/scratch/{USER}", f"file:///home/{USER}/x", f"/data/{USER}_runs/x"),
)
# Texts that hold another secret.
TEXTS = (
    *(f"cannot reach {HOST}", f"ssh {USER}@{HOST}.galaxy.example", f"host={HOST.upper()}"),
    *(f"key {KEY}", f"https://{USER}:{KEY}@example.org", f'{{"key": "{KEY}"}}', f"say {ODD}!"),
    *(f"GPU-{UUID}", f"bound to {UUID.upper()}", "password=Slartibartfast99", "rank 0 at 10.42.7.9:29500"),
    "mac 00:1a:2b:3c:4d:5e",
)
CODES = ("utf-8", "utf-16-le", "utf-16-be")


class Place(NamedTuple):
    """A table and a column, and the other cells of its row."""

    table: str
    column: str
    cells: Mapping[str, object] = MappingProxyType({})


PLACES = (
    Place("DIAGNOSTIC_EVENT", "text", diagnostic("").cells),
    Place("META_DATA_CAPTURE", "value", {"name": "PROCESS_0:ARGUMENT_7"}),
    Place("META_DATA_CAPTURE", "value", {"name": "PROCESS_0:COMMAND"}),
    Place("META_DATA_EXPORT", "value", {"name": "EXPORT_PARAM_INPUT_FILE"}),
    Place("EXPORT_META_DATA", "value", {"name": "EXPORT_OUTUPT_FILE"}),
    Place("TARGET_INFO_SYSTEM_ENV", "value", {"name": "PluginsInfo"}),
    Place("NVTX_EVENTS", "text", nvtx("", 0, 10).cells),
    Place("NVTX_EVENTS", "jsonText", nvtx("payload", 0, 10).cells),
    Place("NVTX_EVENTS", "binaryData", nvtx("payload", 0, 10).cells),
    Place("NVTX_PAYLOAD_SCHEMAS", "name"),
    Place("NVTX_PAYLOAD_SCHEMA_ENTRIES", "description"),
    Place("NVTX_PAYLOAD_ENUM_ENTRIES", "name"),
    Place("GENERIC_EVENTS", "data", {"rawTimestamp": 5, "genericEventId": 1}),
    Place("GENERIC_EVENT_SOURCES", "data"),
    Place("GENERIC_EVENT_TYPES", "ftraceFormat"),
    Place("ETW_EVENTS", "data"),
    Place("OSRT_FILE_ACCESS_DESCRIPTORS", "filePath"),
    Place("PROCESSES", "name", {"globalPid": global_id(PID), "pid": PID}),
    Place("TARGET_INFO_NVTX_CUDA_STREAM", "name"),
    Place("TARGET_INFO_XMC_SPEC", "name"),
    Place("TARGET_INFO_NETWORK_METRICS", "note"),
    Place("MPI_COMMUNICATORS", "members"),
    Place("SAMPLING_CALLCHAINS", "symbolName"),
    Place("SOME_NEW_TABLE", "anything"),
)
# Columns with the id of a text in StringIds.
STRING_PLACES = (
    Place("NVTX_EVENTS", "textId", {**nvtx(None, 0, 10).cells}),
    Place("ThreadNames", "nameId", {"globalTid": global_id(PID, PID)}),
    Place("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "sourceFile", {"start": 5, "globalPid": global_id(PID)}),
    Place("OSRT_CALLCHAINS", "module", {"id": 1}),
    Place("CUPTI_ACTIVITY_KIND_OPENACC_DATA", "srcFile", {"start": 1, "end": 2}),
)
IDENTIFIERS = (
    Place("TARGET_INFO_GPU", "uuid", {"id": 0}),
    Place("TARGET_INFO_CUDA_DEVICE", "uuid", {"gpuId": 0}),
    Place("META_DATA_CAPTURE", "value", {"name": "PROFILING_SESSION_UUID"}),
)


def planted_row(place: Place, content: object) -> Row:
    return row(place.table, **{**place.cells, place.column: content})


def plants() -> dict[str, list[Row]]:
    """Return every text in every place, in UTF-8 and UTF-16, by table and column."""
    made: dict[str, list[Row]] = {}
    for place in (*PLACES, *STRING_PLACES):
        ending = "/lib.so" if place.column == "module" else ""
        contents: list[object] = [text + ending for text in (*PATHS, *TEXTS)]
        if place in PLACES:
            blobs = ("\n".join((*PATHS, *TEXTS)).encode(code) for code in CODES)
            contents += [b"\x01\x02" + blob + b"\0\xff" for blob in blobs]
        rows = made.setdefault(f"{place.table}.{place.column}", [])
        rows += [planted_row(place, content) for content in contents]
    for place in IDENTIFIERS:
        made.setdefault(f"{place.table}.{place.column}", []).append(planted_row(place, UUID))
    return made


def base_rows() -> list[Row]:
    """Return the rows of every export here: a GPU, and an event of the process that all rows are of."""
    return [kernel("add", 20, 30, 1), planted_row(IDENTIFIERS[0], UUID)]
