"""Mutated parquetdir and arrowdir exports: tables, columns, types, values and bytes of their files."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import ipc, parquet
from table_folders import as_parquet
from tiny_export import KERNEL, everything, write

from fuzz.case import Case, no_problem
from nsyswrap import reports

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    Random = random.Random
    # Replaces a table. None as its result: the file is removed.
    Mutation = tuple[str, pa.Table | None]

_TYPES = (
    *(pa.string(), pa.binary(), pa.float64(), pa.float32(), pa.bool_(), pa.int8(), pa.uint64(), pa.null()),
    *(pa.timestamp("ns"), pa.date32(), pa.time64("ns"), pa.duration("us"), pa.decimal128(38, 0)),
    *(pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.dictionary(pa.int32(), pa.string())),
    pa.dictionary(pa.int8(), pa.int64()),
)
_VALUES = (0, 1, -1, -(2**63), 2**63 - 1, 2**62, None, 2**32)
_EVENTS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS", "StringIds")
_TIMES = ("start", "end", "eventType", "correlationId", "globalTid", "id", "value")


@cache
def _tables() -> dict[str, pa.Table]:
    with tempfile.TemporaryDirectory(prefix="nsyswrap-fuzz-") as made:
        export = write(Path(made, "x.sqlite"), *everything())
        folder = as_parquet(export, Path(made, "tables"))
        return {path.stem: parquet.read_table(path) for path in sorted(folder.iterdir())}


def case(random: Random, folder: Path) -> Case:
    """Return a command on an export of which one or two tables are mutated."""
    tables, made = dict(_tables()), []
    ending = random.choice(("parquet", "arrow"))
    is_harmless = random.random() < 0.1
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice((KERNEL, *_EVENTS, *tables))
        if name not in tables or not tables[name].num_columns:
            continue
        mutate = random.choice(_HARMLESS if is_harmless else _MUTATIONS)
        what, table = mutate(random, tables[name])
        made.append(f"{name}: {what}")
        if table is None:
            del tables[name]
        else:
            tables[name] = table
    place = folder / "x"
    place.mkdir()
    for name, table in tables.items():
        _write(random, table, place / f"{name}.{ending}")
    if not is_harmless and random.random() < 0.2:
        made.append(_damaged(random, random.choice(sorted(place.iterdir()))))
    argv = random.choice(_COMMANDS)(random)
    outputs = tuple(folder / name for name in ("out", "page.html", "trace.json"))
    is_answered = is_harmless and argv[0] not in ("collect", "doctor")
    inputs = sorted(place.iterdir())
    made_of = f"{ending}; {'; '.join(made)}"
    codes = (0, 1, 65) if argv[0] == "doctor" else (0, 65)
    return Case(argv, inputs, no_problem, made_of, outputs, codes, names_each=True, must_answer=is_answered)


def _write(random: Random, table: pa.Table, path: Path) -> None:
    rows = random.choice((1, 3, 1000))
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=rows)
        return
    with ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, max_chunksize=rows)


def _damaged(random: Random, path: Path) -> str:
    content = bytearray(path.read_bytes())
    end = len(content)
    if random.random() < 0.3:
        end = random.randrange(len(content) + 1)
    else:
        for _ in range(random.choice((1, 1, 5))):
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content[:end])
    return f"{path.name}: damaged bytes, {end} of {len(content)}"


def _column(random: Random, table: pa.Table) -> str:
    known = [name for name in _TIMES if name in table.column_names]
    return str(random.choice(known if known and random.random() < 0.6 else table.column_names))


def _twice(random: Random, table: pa.Table) -> Mutation:
    name = _column(random, table)
    other = table.column(_column(random, table))
    return f"{name} twice", table.append_column(name, other)


def _removed(random: Random, table: pa.Table) -> Mutation:
    name = _column(random, table)
    return f"{name} removed", table.drop_columns([name])


def _renamed(random: Random, table: pa.Table) -> Mutation:
    name = _column(random, table)
    new = random.choice(("", name.upper(), f"{name} ", "x.y", "start", "\x1b[2J", "a" * 300))
    return f"{name} called {new!r}", table.rename_columns(
        [new if n == name else n for n in table.column_names]
    )


def _retyped(random: Random, table: pa.Table) -> Mutation:
    name, kind = _column(random, table), random.choice(_TYPES)
    at = table.column_names.index(name)
    try:
        column = table.column(name).combine_chunks().cast(kind, safe=False)
    except (pa.ArrowException, TypeError):
        column = pa.nulls(table.num_rows, kind)
    return f"{name} as {kind}", table.set_column(at, name, column)


def _revalued(random: Random, table: pa.Table) -> Mutation:
    name, value = _column(random, table), random.choice(_VALUES)
    at, cells = table.column_names.index(name), table.column(name).to_pylist()
    if not cells or not pa.types.is_integer(table.schema.field(name).type):
        return "nothing", table
    for _ in range(random.choice((1, len(cells)))):
        cells[random.randrange(len(cells))] = value
    return f"{name} = {value}", table.set_column(at, name, pa.array(cells, pa.int64()))


def _rows(random: Random, table: pa.Table) -> Mutation:
    numbers = list(range(table.num_rows))
    what = random.choice(("removed", "again", "shuffled", "none"))
    kept = {
        "removed": numbers[1:],
        "again": numbers * 2,
        "shuffled": random.sample(numbers, len(numbers)),
        "none": [],
    }[what]
    return f"rows {what}", table.take(pa.array(kept, pa.int64()))


def _gone(_random: Random, _table: pa.Table) -> Mutation:
    return "removed", None


def _laid_out(random: Random, table: pa.Table) -> Mutation:
    names = random.sample(table.column_names, table.num_columns)
    return "columns in another order", table.select(names)


def _grown(_random: Random, table: pa.Table) -> Mutation:
    name = f"new{table.num_columns}"
    return "another column", table.append_column(name, pa.nulls(table.num_rows, pa.list_(pa.int8())))


_HARMLESS = (_laid_out, _grown)
_MUTATIONS = (
    *(_twice, _removed, _renamed, _retyped, _retyped, _revalued, _revalued, _rows, _gone),
    *_HARMLESS,
)


def _report(random: Random) -> list[str]:
    names = random.sample(reports.NAMES, random.choice((1, 2, 3)))
    form = random.choice(("csv", "json", "text", "markdown"))
    return ["report", "x", *(word for name in names for word in ("-r", name)), "--format", form]


_COMMANDS: tuple[Callable[[Random], list[str]], ...] = (
    *(_report,) * 5,
    lambda _: ["report", "x", "-r", "all", "--format", "csv"],
    lambda _: ["report", "x"],
    lambda _: ["report", "x", "--advice"],
    lambda _: ["view", "x", "-o", "page.html"],
    lambda _: ["export", "x", "--perfetto", "trace.json"],
    lambda _: ["doctor", "x"],
    lambda _: ["collect", "x", "-o", "out", "--jobs", "1"],
)
