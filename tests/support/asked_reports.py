"""What a report says when it is asked for as nsys asks: ``gpu_gaps:gap=1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.render.formats import csv
from nsyswrap.reports import parse

if TYPE_CHECKING:
    from nsyswrap.api import Capture


def rows_of(capture: Capture, asked: str) -> list[str]:
    [text] = csv.render([parse(asked).make(capture)]).values()
    return text.splitlines()[1:]


def header_of(capture: Capture, asked: str) -> str:
    [text] = csv.render([parse(asked).make(capture)]).values()
    return text.splitlines()[0]


def starts_of(capture: Capture, asked: str) -> list[int]:
    return parse(asked).make(capture).frame["start_ns"].tolist()


def notes_of(capture: Capture, asked: str) -> str:
    return "; ".join(parse(asked).make(capture).notes)
