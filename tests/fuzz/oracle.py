"""The reports of an export once more, in plain Python integers from the rows that SQLite returns.

Shares no code with nsyswrap. What an export says is in ``Rows``; ``TABLES`` has a function for each report
that returns the cells of its CSV as nsys 2025 prints them. It raises ``Absent`` if nothing was recorded,
``Inexact`` if no exact answer exists, and ``Unsure`` if the rows allow several answers.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

KERNEL, MEMCPY = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET, API = "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX, OSRT, COPY_KINDS = "NVTX_EVENTS", "OSRT_API", "ENUM_CUDA_MEMCPY_OPER"
PUSH_POP, START_END, DOMAIN = (59, 70), (60, 71), 75
OSRT_CALL = 27
INT64 = range(-(2**63), 2**63)
NULL_MARK = -(2**63)
"""nsyswrap keeps NULL as this number, so that it has to refuse a cell that holds it."""
_WHOLE_REALS = 2**53
_STEPS = 20_000_000  # of SQLite's machine, a second or two: damage can lead it in circles
_PRECISE = Context(prec=60)
_BUILT_IN = (
    *("Unknown", "Host-to-Device", "Device-to-Host", "Host-to-Array", "Array-to-Host", "Array-to-Array"),
    *("Array-to-Device", "Device-to-Array", "Device-to-Device", "Host-to-Host", "Peer-to-Peer"),
    *("Unified Host-to-Device", "Unified Device-to-Host", "Unified Device-to-Device"),
)


class Absent(Exception):
    """No events of the report."""


class Inexact(Exception):
    """A cell is no integer, or int64 does not hold a result: exit code 65 is the only right answer."""


class Unsure(Exception):
    """Two answers are right, as for two strings with one id."""


class Cell(NamedTuple):
    """A number that is rounded when printed: its text, its exact value, and by how much it may be off."""

    text: str
    value: Decimal
    off: Decimal

    def equals(self, text: str) -> bool:
        try:
            return text == self.text or abs(Decimal(text) - self.value) <= self.off
        except ArithmeticError:
            return False


Cells = list["str | Cell"]
Table = list[Cells]


def _header(count: str, *last: str) -> list[str]:
    times = [f"{name} (ns)" for name in ("Avg", "Med", "Min", "Max", "StdDev")]
    return ["Time (%)", "Total Time (ns)", count, *times, *last]


_SIZES = [f"{name} (MB)" for name in ("Avg", "Med", "Min", "Max", "StdDev")]
HEADERS = {
    "cuda_gpu_kern_sum": _header("Instances", "Name"),
    "cuda_gpu_mem_time_sum": _header("Count", "Operation"),
    "cuda_gpu_mem_size_sum": ["Total (MB)", "Count", *_SIZES, "Operation"],
    "cuda_api_sum": _header("Num Calls", "Name"),
    "nvtx_sum": _header("Instances", "Style", "Range"),
    "cuda_gpu_sum": _header("Instances", "Category", "Operation"),
    "osrt_sum": _header("Num Calls", "Name"),
    "nvtx_pushpop_sum": _header("Instances", "Range"),
}


class Rows:
    """An export as sqlite3 reads it. Raises sqlite3.DatabaseError where that fails."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        self._db.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
        self._db.set_progress_handler(lambda: 1, _STEPS)
        kinds = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        self.tables = {name for (name,) in self._db.execute(kinds).fetchall()}
        self._strings: dict[int, str] | None = None

    def close(self) -> None:
        self._db.close()

    def __call__(self, table: str, *columns: str, text: str = "") -> list[tuple[Any, ...]]:
        """Return columns as they are, then the column ``text`` as text. Raises Inexact if that fails."""
        if table not in self.tables:
            return []
        named = [f'"{column}"' for column in columns] + [f'CAST("{text}" AS TEXT)'] * bool(text)
        try:
            present = {row[1] for row in self._db.execute(f'PRAGMA table_info("{table}")')}
            if missing := {*columns, text} - {"", *present}:
                raise Inexact(f"{table} has no column {missing}")
            return self._db.execute(f'SELECT {", ".join(named)} FROM "{table}"').fetchall()  # noqa: S608 - our names
        except sqlite3.Error as error:
            raise Inexact(f"SQLite cannot read {table}: {error}") from None

    def has(self, table: str, column: str) -> bool:
        return column in {row[1] for row in self._db.execute(f'PRAGMA table_info("{table}")')}

    def strings(self) -> dict[int, str]:
        if self._strings is None:
            self._strings = _numbered(self("StringIds", "id", text="value"), "StringIds")
        return self._strings


def _numbered(rows: Iterable[tuple[Any, Any]], table: str) -> dict[int, str]:
    """Return texts by id; raises Unsure for an id with two texts."""
    texts: dict[int, str] = {}
    for number, text in rows:  # an id that is no number is never asked for
        if text is not None and texts.setdefault(number, text) != text:
            raise Unsure(f"{table} has two texts for {number}")
    return texts


def integer(cell: object, table: str, column: str) -> int | None:
    """Return an INTEGER or NULL; a whole REAL counts as one."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < _WHOLE_REALS:
        return int(cell)
    if cell is None or (isinstance(cell, int) and cell != NULL_MARK):
        return cell
    raise Inexact(f"{table}.{column} holds {cell!r:.40}")


def in_int64(number: int, what: str) -> int:
    if number not in INT64:
        raise Inexact(f"{what} {number} is no int64")
    return number


def integers(rows: Rows, table: str, *columns: str) -> list[tuple[int | None, ...]]:
    return [
        tuple(integer(cell, table, column) for cell, column in zip(row, columns, strict=True))
        for row in rows(table, *columns)
    ]


def lasting(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else in_int64(end - start, "the duration")


def tenth(value: float) -> str:
    """Round half away from zero to one decimal, from the exact binary value, as nsys 2025 does."""
    return str(float(Decimal(value).quantize(Decimal("0.1"), ROUND_HALF_UP, _PRECISE)))


def _ns(value: Fraction | Decimal, scale: int) -> Cell:
    """A rounded cell in ns. Of numbers above 2^53 nsys' floats know the first 15 digits."""
    exact = (
        _PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))
        if isinstance(value, Fraction)
        else value
    )
    off = (
        Decimal("0.05") + Decimal("1e-9")
        if isinstance(value, Decimal) or scale >= _WHOLE_REALS
        else Decimal(0)
    )
    return Cell(tenth(float(value)), exact, off + (Decimal(scale) * Decimal("1e-15") if off else 0))


def _mb(value: Fraction | Decimal, scale: int) -> Cell:
    exact = (
        _PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))
        if isinstance(value, Fraction)
        else value
    )
    return Cell(
        f"{float(value) / 1e6:.3f}",
        exact / 10**6,
        Decimal("0.0005000001") + Decimal(scale) * Decimal("1e-21"),
    )


def statistics(values: Sequence[int], unit: Callable[[Fraction | Decimal, int], Cell]) -> Cells:
    """Return average, median, minimum, maximum and sample deviation as they are printed."""
    if not values:
        return ["", "", "", "", unit(Fraction(0), 0)]
    ordered, count = sorted(values), len(values)
    total = sum(values)
    middle = Fraction(ordered[(count - 1) // 2] + ordered[count // 2], 2)
    squares = Fraction(sum(value * value for value in values)) - Fraction(total * total, count)
    variance = squares / max(count - 1, 1)
    deviation = _PRECISE.sqrt(_PRECISE.divide(Decimal(variance.numerator), Decimal(variance.denominator)))
    scale = max(abs(ordered[0]), abs(ordered[-1]), abs(total))
    low, high = (str(value) if unit is _ns else f"{value / 1e6:.3f}" for value in (ordered[0], ordered[-1]))
    return [unit(Fraction(total, count), scale), unit(middle, scale), low, high, unit(deviation, scale)]


def _summary(
    groups: dict[Any, list[int | None]], keys: Callable[[Any], Any], *, by_count: bool = False
) -> list[tuple[Any, Cells]]:
    """Return key and cells (percent, total, count, statistics) of each group in nsys' order."""
    known = {key: [value for value in values if value is not None] for key, values in groups.items()}
    totals = {key: in_int64(sum(values), "the total") if values else None for key, values in known.items()}
    whole = sum(total for total in totals.values() if total is not None)
    order = sorted(groups, key=keys)
    order.sort(key=lambda key: (totals[key] is None, -(totals[key] or 0), len(groups[key]) * by_count))

    def cells(key: Any) -> Cells:  # noqa: ANN401 - keys are of several types
        total = totals[key]
        if total is None:
            return ["", "", str(len(groups[key])), *statistics([], _ns)]
        percent: str | Cell = ""
        if whole:
            exact = _PRECISE.divide(Decimal(total * 100), Decimal(whole))
            percent = Cell(tenth(total * 100.0 / whole), exact, Decimal("0.05000001"))
        return [percent, str(total), str(len(groups[key])), *statistics(known[key], _ns)]

    return [(key, cells(key)) for key in order]


def _name_order(name: str | None) -> tuple[bool, str]:
    return name is not None, name or ""


def _grouped(pairs: Iterable[tuple[Any, int | None]]) -> dict[Any, list[int | None]]:
    groups: dict[Any, list[int | None]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def kernels(rows: Rows) -> list[tuple[str | None, int | None]]:
    found = integers(rows, KERNEL, "start", "end", "demangledName")
    return [(rows.strings().get(name), lasting(*span)) for *span, name in found]  # type: ignore[arg-type]


def copies(rows: Rows, *columns: str) -> list[tuple[str, tuple[int | None, ...]]]:
    """Return copies with a known kind and memsets, with their columns."""
    found = integers(rows, MEMCPY, "copyKind", *columns)
    labels = rows(COPY_KINDS, "id", text="label") if found else []
    if any(label is None for _, label in labels):
        raise Unsure("a copy kind without a label")
    known = _numbered(labels, COPY_KINDS) if labels else dict(enumerate(_BUILT_IN))
    named = [(f"[CUDA memcpy {known[kind]}]", cells) for kind, *cells in found if kind in known]
    sets = [("[CUDA memset]", cells) for cells in integers(rows, MEMSET, *columns)]
    if not found and not sets:
        raise Absent
    return named + sets  # type: ignore[return-value]


def cuda_gpu_kern_sum(rows: Rows) -> Table:
    groups = _grouped(kernels(rows))
    if not groups:
        raise Absent
    made = _summary(groups, _name_order, by_count=True)
    return [[*cells, name or ""] for name, cells in made]


def cuda_gpu_mem_time_sum(rows: Rows) -> Table:
    groups = _grouped((name, lasting(*span)) for name, span in copies(rows, "start", "end"))
    made = _summary(groups, _name_order)
    return [[*cells, name] for name, cells in made]


def cuda_gpu_mem_size_sum(rows: Rows) -> Table:
    groups = _grouped((name, size) for name, (size,) in copies(rows, "bytes"))
    made = []
    for name, cells in _summary(groups, _name_order):
        sizes = [size for size in groups[name] if size is not None]
        total = f"{sum(sizes) / 1e6:.3f}" if sizes else ""
        made.append([total, cells[2], *statistics(sizes, _mb), name])
    return made


def cuda_gpu_sum(rows: Rows) -> Table:
    """One row a name; its category is that of its longest operation."""
    parts = [("CUDA_KERNEL", name, lasts) for name, lasts in kernels(rows)]
    try:
        parts += [("MEMORY_OPER", name, lasting(*span)) for name, span in copies(rows, "start", "end")]
    except Absent:
        if not parts:
            raise
    groups = _grouped((name, lasts) for _, name, lasts in parts)
    categories: dict[str | None, set[str]] = {}
    for category, name, _ in parts:
        categories.setdefault(name, set()).add(category)
    if any(len(several) > 1 for several in categories.values()):
        raise Unsure("a kernel named as a copy")
    made = _summary(groups, _name_order)
    return [[*cells, *categories[name], name or ""] for name, cells in made]


def cuda_api_sum(rows: Rows) -> Table:
    return _calls(rows, integers(rows, API, "start", "end", "nameId"), strip=True)


def osrt_sum(rows: Rows) -> Table:
    found = integers(rows, OSRT, "eventClass", "start", "end", "nameId")
    if not found:
        raise Absent
    return _calls(rows, [row for kind, *row in found if kind == OSRT_CALL], strip=False)  # type: ignore[misc]


def _calls(rows: Rows, found: list[tuple[int | None, ...]], *, strip: bool) -> Table:
    if strip and not found:
        raise Absent
    groups = _grouped((name, lasting(start, end)) for start, end, name in found)
    made = _summary(groups, lambda name: (name is not None, name or 0))
    names = rows.strings()

    def text(number: int) -> str:
        name = names.get(number, "")
        return name[:-6] if strip and name[-6:-4] == "_v" else name

    return [[*cells, text(number)] for number, cells in made]


def nvtx_sum(rows: Rows) -> Table:
    made = _summary(_grouped(_ranges(rows, PUSH_POP + START_END)), lambda key: (_name_order(key[0]), key[1]))
    return [[*cells, style, name] for (name, style), cells in made]


def nvtx_pushpop_sum(rows: Rows) -> Table:
    made = _summary(_grouped(_ranges(rows, PUSH_POP)), lambda key: (_name_order(key[0]), key[1]))
    return [[*cells, name] for (name, _), cells in made]


def _ranges(rows: Rows, types: tuple[int, ...]) -> list[tuple[tuple[str, str], int | None]]:
    """Return name and style, and duration of each range, once for each thread that created its domain."""
    columns = ["start", "end", "eventType", "globalTid"]
    columns += [column for column in ("textId", "domainId") if rows.has(NVTX, column)]
    own = "text" if rows.has(NVTX, "text") else ""
    events: list[dict[str, Any]] = []
    for row in rows(NVTX, *columns, text=own):
        event = {column: integer(cell, NVTX, column) for column, cell in zip(columns, row, strict=False)}
        registered = rows.strings().get(event.get("textId"))  # type: ignore[arg-type]
        events.append({**event, "name": row[-1] if registered is None and own else registered})
    if not events:
        raise Absent
    times = [time for event in events for time in (event["start"], event["end"]) if time is not None]
    last = max(times, default=None) if any(event["end"] is not None for event in events) else None
    domains = _domains(events)
    found = []
    for event in events:
        if event["eventType"] in types:
            end = last if event["end"] is None else event["end"]
            style = "PushPop" if event["eventType"] in PUSH_POP else "StartEnd"
            key = (process(event["globalTid"]), event.get("domainId"))
            for domain in domains.get(key, [""]) if None not in key else [""]:
                name = f"{domain}:{event['name'] or ''}"
                found.append(((name, style), lasting(event["start"], end)))
    return found


def process(thread: int | None) -> int | None:
    return None if thread is None else thread >> 24 & 0xFFFFFF


def _domains(events: list[dict[str, Any]]) -> dict[tuple[int | None, int | None], list[str]]:
    """Return the names of each process' domains: the first one of each thread that created it."""
    created: dict[tuple[int | None, int | None], dict[int, tuple[int, str]]] = {}
    for event in events:
        if event["eventType"] != DOMAIN or event.get("domainId") is None or event["globalTid"] is None:
            continue
        if event["start"] is None:
            raise Unsure("a domain that was created at no time")
        key = (process(event["globalTid"]), event["domainId"])
        one = (event["start"], event["name"] or "")
        known = created.setdefault(key, {}).setdefault(event["globalTid"], one)
        if known[0] == one[0] and known != one:
            raise Unsure("two names for one domain")
        created[key][event["globalTid"]] = min(known, one)
    return {key: [name for _, name in threads.values()] for key, threads in created.items()}


TABLES: dict[str, Callable[[Rows], Table]] = {
    one.__name__: one
    for one in (
        *(cuda_gpu_kern_sum, cuda_gpu_mem_time_sum, cuda_gpu_mem_size_sum, cuda_api_sum, nvtx_sum),
        *(cuda_gpu_sum, osrt_sum, nvtx_pushpop_sum),
    )
}


def expected(path: Path, names: Iterable[str]) -> dict[str, Table | str]:
    """Return the table of each report, or why there is none: ``absent``, ``inexact: ...``, ``unsure``."""
    answers: dict[str, Table | str] = {}
    try:
        with closing(Rows(path)) as rows:
            for name in names:
                try:
                    answers[name] = TABLES[name](rows)
                except (Absent, Inexact, Unsure) as error:
                    answers[name] = f"{type(error).__name__.lower()}: {error}"
    except (sqlite3.Error, UnicodeError) as error:
        answers = dict.fromkeys(names, f"inexact: SQLite cannot read the file: {error}")
    return answers
