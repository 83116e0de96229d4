"""Where a capture comes from: the program, the GPUs, the versions; and what nsys warned of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nsyswrap.base.run_folder import LAUNCHERS
from nsyswrap.capture import schema

if TYPE_CHECKING:
    from nsyswrap.capture.export import Export

_CUDA_TRACE = ":COLLECT_CUDA_TRACE"  # of a process, in the capture's metadata
_CUDA_SCOPE = "CUDA_TRACE_SCOPE"  # where nsys 2026 has this, the former is false whatever was traced


@dataclass(frozen=True)
class Info:
    """Where a capture comes from; an empty string or None means that the export does not say.

    ``cuda_traced``: whether nsys was to record CUDA in any of the processes; None where it is not said.
    """

    command: tuple[str, ...]
    exporter_version: str
    schema_version: str
    gpus: tuple[str, ...]
    driver_version: str
    cuda_version: str
    started_utc: str
    duration_ns: int | None
    cuda_traced: bool | None


@dataclass(frozen=True)
class Diagnostic:
    """One message nsys left in the export; ``loss`` says that events are missing from it."""

    text: str
    loss: bool


def read_info(export: Export) -> Info:
    """Read what the export says of itself; what an era or a third party left out is empty."""
    said = {**_pairs(export, schema.EXPORT_METADATA[1]), **_pairs(export, schema.EXPORT_METADATA[0])}
    system = _pairs(export, schema.SYSTEM_ENV)
    version = system.get("CudaDriverVersion", "")
    cuda = int(version) if version.isdigit() else 0
    started = export.select(schema.SESSION_START, "utcTime")
    duration = export.select(schema.ANALYSIS, "duration")
    return Info(
        command=_command(export),
        exporter_version=said.get("EXPORT_PRODUCT_VERSION", ""),
        schema_version=said.get("EXPORT_SCHEMA_VERSION", ""),
        gpus=tuple(str(name) for _, name in sorted(export.select(schema.GPUS, "id", "name"))),
        driver_version=_driver_version(system.get("NvDriverVersion", "")),
        cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        started_utc=str(started[0][0] or "") if started else "",
        duration_ns=duration[0][0] if duration else None,
        cuda_traced=_cuda_traced(export),
    )


def newer_than_known(info: Info) -> str:
    """Say that an export is newer than any that was compared; empty where it is not."""
    release, newest = schema.ERAS[-1]
    if tuple(map(int, re.findall(r"\d+", info.schema_version)[:2])) <= newest:
        return ""
    return (
        f"written by nsys {info.exporter_version} (schema {info.schema_version}), newer than any that "
        f"nsyswrap was compared with ({release}): read as if it were that"
    )


def message_level(severity: int | None, text: str) -> Literal["loss", "warning", "info"]:
    """Return how much a message of nsys matters: whether events are missing, or something else is wrong.

    That a process had no events of a kind is no warning: every child that uses no CUDA has none.
    """
    if severity not in schema.SEVERITY_WARNINGS or re.fullmatch(schema.ABSENCE_WARNING, text.strip()):
        return "info"
    return "loss" if re.search(schema.LOSS_WARNING, text) else "warning"


def read_diagnostics(export: Export) -> list[Diagnostic]:
    """Read the warnings nsys left, those about lost events first; absences are left out."""
    rows = export.select(schema.EVENTS["diagnostic"].table, "severity", "text")
    levels: dict[str, str] = {}
    for severity, text in rows:
        level = message_level(severity, str(text))
        if level != "info":
            levels.setdefault(str(text).strip().partition("\n")[0].strip(), level)
    found = [Diagnostic(text, level == "loss") for text, level in levels.items()]
    return sorted(found, key=lambda diagnostic: not diagnostic.loss)


def _command(export: Export) -> tuple[str, ...]:
    """The program as it was started: without the launcher `nsyswrap profile` puts before it."""
    said = _pairs(export, schema.CAPTURE_METADATA)
    prefix = schema.ARGUMENT_PREFIX
    numbers = sorted(int(end) for name in said if (end := name.removeprefix(prefix)).isdigit())
    argv = [said[name] for name in (schema.COMMAND, *(f"{prefix}{n}" for n in numbers)) if name in said]
    launcher = next((i for i, argument in enumerate(argv) if Path(argument).name in LAUNCHERS), None)
    return tuple(argv if launcher is None else argv[launcher + 2 :])


def _cuda_traced(export: Export) -> bool | None:
    said = _pairs(export, schema.CAPTURE_METADATA)
    values = {value for name, value in said.items() if name.endswith(_CUDA_TRACE)}
    return "true" in values if values and _CUDA_SCOPE not in said else None


def _pairs(export: Export, table: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in export.select(table, "name", "value")}


def _driver_version(said: str) -> str:
    """Write 52510517, as exports before 2023 do, as 525.105.17; 0 stands for no driver."""
    if not said.isdigit():
        return said
    return f"{said[:3]}.{said[3:-2]}.{said[-2:]}" if len(said) > 5 else ""  # noqa: PLR2004
