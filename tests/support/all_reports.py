"""All that nsyswrap says of a capture: the rows and notes of each report, and the screen with the answer."""

from pathlib import Path

from click.testing import CliRunner

from nsyswrap import open_capture, reports
from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import NotInCapture
from nsyswrap.cli import cli

# nsys' rules take the first rows of a table up to their limit, and sort these: here they take all.
RULES = ("cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync", "cuda_api_sync")

Rows = list[dict[str, object]]


def all_reports(path: Path, time: str = "", nvtx: str = "") -> dict[str, tuple[Rows, tuple[str, ...]]]:
    """Return rows and notes by report; if the capture cannot answer one, the reason stands for its notes."""
    capture = open_capture(path).select(time=time, nvtx=nvtx)
    return {name: _said(capture, name, path) for name in reports.NAMES}


def _said(capture: CaptureReader, name: str, path: Path) -> tuple[Rows, tuple[str, ...]]:
    try:
        table = reports.parse(f"{name}:rows=-1" if name in RULES else name).make(capture)
    except NotInCapture as error:
        return [], (str(error).replace(str(path), "CAPTURE"),)
    columns = [column.name for column in table.columns]
    return [dict(zip(columns, row, strict=True)) for row in table.rows()], tuple(table.notes)


def screen(path: Path) -> str:
    """Return what `nsyswrap report` prints of a capture."""
    done = CliRunner().invoke(cli, ["report", str(path)])
    assert done.exit_code == 0
    return str(done.output).replace(str(path), "CAPTURE")
