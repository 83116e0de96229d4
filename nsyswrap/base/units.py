"""The units of columns, and how their values are written for machines and for people."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Decimal
from enum import Enum
from typing import Literal

Number = int | float
Rounding = Literal["2025", "legacy"]
TimeUnit = Literal["auto", "ns", "us", "ms", "s"]

_ALL, _ALMOST_ALL, _INEXACT = 100.0, 99.9, 1e-9  # percent; a sum of shares misses 100 by less
_TENTH = Decimal("0.1")
TIE = 0.5
EXACT_TENTHS = 1e11  # below this the rounding error of a product with 10 is far below NEAR_TIE
NEAR_TIE = 1e-3
# Factor, decimals and label of nsys' own --timeunit. nsys multiplies: this decides how ties are rounded.
_TIME: dict[str, tuple[float, int, str]] = {
    "us": (1e-3, 3, "us"),
    "ms": (1e-6, 4, "ms"),
    "s": (1e-9, 4, "sec"),
}
_THOUSAND = 1000
_NS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_WITH_UNIT = re.compile(rf"(\d+(?:\.\d*)?|\.\d+) *({'|'.join(_NS)})")
_DECIMALS = ((10, 2), (100, 1), (math.inf, 0))  # below the first number: decimals for three digits
_SCALES = {
    "time": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")),
    "bytes": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    "joules": ((1e6, "MJ"), (1e3, "kJ"), (1, "J"), (1e-3, "mJ")),
    "flop": ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1, "FLOP")),
}


class Unit(Enum):
    """The unit of a column. The value is the suffix of the column's name in JSON and DataFrames.

    NUMBER has no unit and no suffix: a code, a level, a priority, a rank.
    """

    NS = "ns"
    BYTES = "bytes"
    BYTES_PER_S = "bytes_per_s"
    FLOP = "flop"
    FLOP_PER_S = "flop_per_s"
    JOULES = "joules"
    PERCENT = "percent"
    COUNT = "count"
    RATIO = "ratio"
    ID = "id"
    ADDRESS = "address"
    NUMBER = "number"
    TEXT = "text"


_PLAIN = {Unit.PERCENT: "{:.1f}", Unit.RATIO: "{:.2f}", Unit.COUNT: "{:,}"}


def round_tenth(value: float, rounding: Rounding) -> float:
    """Round half away from zero to one decimal, as the SQLite inside nsys does.

    ``2025``: SQLite 3.43 and newer round the exact binary value. ``legacy`` (nsys up to 2024.2) rounds the
    shortest decimal representation. 13408.05 becomes 13408.0 with ``2025`` and 13408.1 with ``legacy``.
    """
    tenths = abs(value) * 10
    whole = int(tenths) if tenths < EXACT_TENTHS else -1
    if whole >= 0 and abs(tenths - whole - TIE) > NEAR_TIE:  # both give the same, without Decimal
        return math.copysign((whole + (tenths - whole > TIE)) / 10, value)
    exact = Decimal(value) if rounding == "2025" else Decimal(repr(value))
    return float(exact.quantize(_TENTH, ROUND_HALF_UP))


def csv_label(unit: Unit, time_unit: TimeUnit) -> str:
    """Return the unit as nsys appends it to a CSV header, with a leading blank."""
    if unit is Unit.NS:
        return f" ({_TIME[time_unit][2]})" if time_unit in _TIME else " (ns)"
    return {Unit.BYTES: " (MB)", Unit.BYTES_PER_S: " (MB/s)", Unit.PERCENT: " (%)"}.get(unit, "")


def csv_decimals(unit: Unit, time_unit: TimeUnit) -> tuple[int, int]:
    """Return how ``csv_cell`` writes whole numbers: what they are divided by, and the decimals of that.

    (100, 4): hundreds are written as ten-thousandths, as ns in ms.
    """
    if unit in (Unit.BYTES, Unit.BYTES_PER_S):
        return 1000, 3
    if unit is Unit.NS and time_unit in _TIME:
        factor, decimals, _ = _TIME[time_unit]
        return round(1 / factor) // 10**decimals, decimals
    return 1, 0


def csv_cell(value: object, unit: Unit, rounding: Rounding, time_unit: TimeUnit) -> str:
    """Format one value as in nsys' CSV: times with one decimal, MB (10^6) with three, missing as empty."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, (int, float)):
        return str(value)
    if unit in (Unit.BYTES, Unit.BYTES_PER_S):
        return f"{value / 1e6:.3f}"
    if unit is Unit.ADDRESS:
        return f"0x{value:X}"
    if isinstance(value, float):
        value = round_tenth(value, rounding)
    if unit is Unit.NS and time_unit in _TIME:
        factor, decimals, _ = _TIME[time_unit]
        return f"{value * factor:.{decimals}f}"
    return str(value)


def human(value: object, unit: Unit, time_unit: TimeUnit = "auto") -> str:
    """Format one value for a person, with about three significant digits and its unit."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if not isinstance(value, (int, float)):
        return str(value)
    if unit is Unit.NS:
        return _scaled_time(value, time_unit)
    if (kind := unit.value.removesuffix("_per_s")) in ("bytes", "flop", "joules"):
        return _scaled(value, kind) + ("/s" if unit in (Unit.BYTES_PER_S, Unit.FLOP_PER_S) else "")
    if unit is Unit.ADDRESS:
        return f"0x{value:X}"
    if unit is Unit.PERCENT and _ALMOST_ALL < value < _ALL - _INEXACT:
        value = _ALMOST_ALL  # 100.0 means all of it
    text = _PLAIN.get(unit, "{}").format(value)
    return text.removeprefix("-") if not text.strip("-0.") else text  # -0.0 is shown as 0.0


def percent(value: float) -> str:
    """Format a percentage for a sentence; only exact values are shown as 0.0 % and 100.0 %."""
    text = f"{value:.1f}"
    if text == "0.0" and value > 0:
        return "under 0.1 %"
    return "over 99.9 %" if text == "100.0" and value < _ALL else f"{text} %"


def duration(ns: float) -> str:
    """Format a duration in ns for a person; numpy numbers are accepted."""
    return human(float(ns), Unit.NS)


def duration_of(part_ns: float, whole_ns: float) -> str:
    """Format a duration and the one that it is a part of; a unit that both have stands once."""
    (part, unit), (whole, of) = (_number_and_unit(float(ns), "time") for ns in (part_ns, whole_ns))
    return f"{part}{'' if unit == of else f' {unit}'} of {whole} {of}"


def parse_share(text: str) -> float:
    """Return ``5%`` or ``5`` as a share, 0.05.

    Raises ValueError, also for ``0.05``, which could be 5 % or 0.05 %.
    """
    number = text.strip()
    value = float(number.removesuffix("%")) / _ALL
    is_ambiguous = 0 < value < 1 / _ALL and not number.endswith("%")
    if is_ambiguous or not 0 <= value < math.inf:
        raise ValueError(text)
    return value


def parse_ns(text: str) -> float:
    """Return a time with its unit, such as ``10us`` or ``1.5 ms``, in ns. Raises ValueError."""
    match = _WITH_UNIT.fullmatch(text.strip())
    if not match:
        raise ValueError(text)
    return float(match[1]) * _NS[match[2]]


def moment(value: object, time_unit: TimeUnit = "auto") -> str:
    """Format a time since the start of the capture to the ns: with three digits a trace would repeat them."""
    if isinstance(value, int) and time_unit == "auto":
        return f"{value / 1e9:.9f} s"
    return human(value, Unit.NS, time_unit)


def _scaled_time(value: Number, time_unit: TimeUnit) -> str:
    if time_unit == "auto":
        return _scaled(value, "time")
    if time_unit == "ns":
        return f"{value:,.1f} ns" if isinstance(value, float) else f"{value:,} ns"
    factor, decimals, _ = _TIME[time_unit]
    label = "µs" if time_unit == "us" else time_unit
    return f"{value * factor:,.{decimals}f} {label}"


def _scaled(value: Number, kind: str) -> str:
    return " ".join(_number_and_unit(value, kind))


def _number_and_unit(value: Number, kind: str) -> tuple[str, str]:
    scales = _SCALES[kind]
    factor, label = next((s for s in reversed(scales) if _rounded(value / s[0]) < _THOUSAND), scales[0])
    scaled = value / factor
    if factor == 1 and float(scaled).is_integer():
        return f"{scaled:.0f}", label
    decimals = next((decimals for limit, decimals in _DECIMALS if _rounded(scaled) < limit), 0)
    return f"{scaled:.{decimals}f}", label


def _rounded(value: float) -> float:
    """Return the absolute value rounded to three significant digits, as it is shown."""
    return abs(float(f"{value:.3g}"))
