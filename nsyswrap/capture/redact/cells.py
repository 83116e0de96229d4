"""Search all cells of an export, count those that hold what is searched for, and replace it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from nsyswrap.base.records import dataclass
from nsyswrap.base.sqlite import quoted, statement, tables_of
from nsyswrap.capture import schema
from nsyswrap.capture.export import Export
from nsyswrap.capture.redact import places
from nsyswrap.capture.redact.search import NUMBERS, PERSONAL_KEYS, REMOVED, ValueSearch, rule_of

_NVTX, _MESSAGES = (schema.EVENTS[kind].table for kind in ("nvtx", "diagnostic"))
# Columns that say what a row is about.
_KEYS = {schema.STRINGS: "id", **dict.fromkeys(places.NAMED_TABLES, "CAST(name AS BLOB)")}
_NAMES = {(_NVTX, "text"), (_MESSAGES, "text"), (schema.STRINGS, "value")}
_COUNT = "SELECT count(*) FROM {table} WHERE "
_NEW = "cleaned({arguments})"
_CHANGES = f"{{is_text}} AND {_NEW} <> CAST({{column}} AS BLOB)"

_ROWS = 5_000  # that are searched at once
_NUMBERS = (b"INTEGER", b"REAL", b"NUMERIC", b"FLOAT")  # declared types of columns without texts

Cells = dict[tuple[str, str], set[bytes]]


@dataclass(frozen=True)
class StringUses:
    """Ids of StringIds: names of ``events``, which are never changed, of ``modules``, and what is deleted.

    ``visible`` has the other names that reports can show, such as those of NVTX ranges.
    """

    events: set[int]
    modules: set[int]
    visible: set[int]
    deleted: set[int]


def sort_strings(export: Export) -> StringUses:
    """Sort the strings of an export by the columns that refer to them."""
    events, modules, visible = set[int](), set[int](), set[int]()
    for table, columns in export.tables.items():
        rule = None if table in (schema.STRINGS, *places.OUTPUT_TABLES) else rule_of(table)
        for column in columns if rule is not None else ():
            if column == "module":
                modules |= places.values(export, table, column)
            elif schema.STRING_COLUMN.fullmatch(column) and rule is not None:
                ids = visible if column in rule.searched else events
                ids |= places.values(export, table, column)
    return StringUses(events, modules - events, visible, set(places.environment_strings(export)))


class DatabaseCells:
    """The cells of an open database, as ``search`` leaves them.

    Different names of events stay different, so that reports count as before: a name that would become the
    same as another one gets a number. The connection has to return texts as bytes.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        search: ValueSearch,
        strings: StringUses,
        only: Mapping[tuple[str, str], set[bytes]] | None = None,
    ) -> None:
        """Look at these cells only, by table and column; by default at all that hold texts or bytes."""
        self._db = db
        self._search = search
        self._strings = strings
        self._encoding = places.encoding_of(db)
        self._originals: dict[bytes, bytes] = {}  # of names with "redacted" in them, by the name
        self._new: dict[bytes, bytes] = {}
        self._copies: Counter[bytes] = Counter()
        self._searched = self._columns() if only is None else list(only)
        self._only = "" if only is None else self._stored(only)
        for table, column in sorted(_NAMES):
            self._take_names(table, column)
        self.renamed: set[bytes] = set()  # names that reports can show, as they were
        self.remaining: set[str] = set()  # values that count_kept came upon
        self._ended: BaseException | None = None
        db.create_function("cleaned", 4, self._function(self._cleaned), deterministic=True)
        db.create_function("remains", 5, self._function(self._remains), deterministic=True)

    def count(self) -> dict[str, int]:
        """Return the number of cells to be changed, by table and column."""
        return self._for_columns(_COUNT, _CHANGES)

    def replace(self) -> dict[str, int]:
        """Change the cells, and return the number of changed ones by table and column."""
        new = f"CASE typeof({{column}}) WHEN 'text' THEN CAST({_NEW} AS TEXT) ELSE {_NEW} END"
        return self._for_columns("UPDATE {table} SET {column} = ", f"{new} WHERE {_CHANGES}")

    def count_kept(self) -> dict[str, int]:
        """Return the number of cells that hold a value and stay as they are, by table and column."""
        searched = self._for_columns(_COUNT, "{is_text} AND remains({arguments}, 0)")
        return searched | self._for_columns(_COUNT, "{is_text} AND remains({arguments}, 1)", kept=True)

    def _for_columns(self, start: str, rest: str, *, kept: bool = False) -> dict[str, int]:
        """Execute a statement for each column, and return the number of rows it counted or changed."""
        counts = {}
        for number, (table, column) in enumerate(self._searched):
            if (column in (rule_of(table) or NUMBERS).kept) != kept:
                continue
            name, literal = quoted(column), table.replace("'", "''")
            only = self._only.format(column=name, number=number)
            arguments = (
                f"'{literal}', {_KEYS.get(table, 'NULL')}, CAST({name} AS BLOB), typeof({name}) = 'text'"
            )
            condition = rest.format(column=name, arguments=arguments, is_text=_is_text(column) + only)
            try:
                cursor = self._db.execute(statement(start, table=table, column=column) + condition)
            except sqlite3.OperationalError as error:
                raise self._ended or error from None
            if rows := cursor.rowcount if cursor.description is None else cursor.fetchone()[0]:
                counts[f"{table}.{column}"] = rows
        return counts

    def _stored(self, only: Mapping[tuple[str, str], set[bytes]]) -> str:
        """Store the cells to look at, and return the condition that a cell of a column is one of them."""
        self._db.execute(
            "CREATE TEMP TABLE looked_at (number, cell, PRIMARY KEY (number, cell)) WITHOUT ROWID"
        )
        rows = [(number, cell) for number, cells in enumerate(only.values()) for cell in cells]
        self._db.executemany("INSERT INTO looked_at VALUES (?, ?)", rows)
        return " AND CAST({column} AS BLOB) IN (SELECT cell FROM looked_at WHERE number = {number})"

    def _columns(self) -> list[tuple[str, str]]:
        """Return the tables and columns that hold texts or bytes, of any declared type."""
        found = []
        for table, names in tables_of(self._db)[0].items():
            tests = ", ".join(f"max({_is_text(name)})" for name in names)  # all columns in one pass
            if table not in places.OUTPUT_TABLES and not table.startswith("sqlite_"):
                [held] = self._db.execute(statement("SELECT % FROM {t}", t=table).replace("%", tests, 1))
                found += [(table, name) for name, is_held in zip(names, held, strict=True) if is_held]
        return found

    def _take_names(self, table: str, column: str) -> None:
        columns = self._db.execute(statement("PRAGMA table_info({t})", t=table)).fetchall()
        if column.encode() not in {name for _, name, *_ in columns}:
            return
        sql = statement("SELECT DISTINCT CAST({c} AS BLOB) FROM {t} WHERE instr({c}, ?)", c=column, t=table)
        for (raw,) in self._db.execute(sql, (REMOVED,)):
            self._originals.setdefault(raw, raw)

    def _function(self, compute: Callable[..., bytes | bool]) -> Callable[..., bytes | bool]:
        """Return a function for SQLite, which hides what ends this process: Ctrl-C and SIGTERM."""

        def called(*arguments: object) -> bytes | bool:
            try:
                return compute(*arguments)
            except (KeyboardInterrupt, SystemExit) as ended:
                self._ended = ended
                raise

        return called

    def _cleaned(self, table: str, key: object, raw: bytes, is_text: int) -> bytes:
        """Return the new content of a cell; ``key`` says what its row is about."""
        if self._is_deleted(table, key) or (table == schema.STRINGS and key in self._strings.events):
            return raw
        end = self._folder_end(raw) if table == schema.STRINGS and key in self._strings.modules else len(raw)
        new = self._search.content(raw[:end], is_text=bool(is_text)) + raw[end:]
        if new == raw or table not in (_NVTX, _MESSAGES, schema.STRINGS):
            return new
        if table == _NVTX or (table == schema.STRINGS and key in self._strings.visible):
            self.renamed.add(raw)
        return self._distinct(raw, new) if is_text else new

    def _remains(self, table: str, key: object, raw: bytes, is_text: int, kept: int) -> bool:
        held = self._search.held(raw)
        if not held or self._is_deleted(table, key):
            return False
        if not kept:
            held = self._search.held(self._cleaned(table, key, raw, is_text))
        self.remaining |= held
        return bool(held)

    def _is_deleted(self, table: str, key: object) -> bool:
        if isinstance(key, bytes | str) and table in places.NAMED_TABLES:
            name = key if isinstance(key, str) else key.decode(self._encoding, "replace")
            return "ENVIRONMENT" in name.upper() or PERSONAL_KEYS.search(name) is not None
        return table == schema.STRINGS and key in self._strings.deleted

    def _folder_end(self, raw: bytes) -> int:
        return max(raw.rfind(separator.encode(self._encoding)) for separator in "/\\") + 1

    def _distinct(self, raw: bytes, new: bytes) -> bytes:
        if raw not in self._new:
            free = new
            while self._originals.setdefault(free, raw) != raw:
                self._copies[new] += 1
                free = new + f" ({self._copies[new] + 1})".encode(self._encoding)
            self._new[raw] = free
        return self._new[raw]


def _is_text(column: str) -> str:
    """Return the condition that a cell holds a text or bytes: they sort after all numbers."""
    return f"{quoted(column)} >= '' COLLATE BINARY"


# Find the cells of an export that hold a value, quickly: the texts of many rows are searched at once.


class _Block(NamedTuple):
    """Rows of a table: the texts of each column in one, and the condition that selects the rows."""

    texts: tuple[bytes | None, ...]
    where: str


def cells_that_hold(db: sqlite3.Connection, export: Export, search: ValueSearch) -> Cells:
    """Return the cells with a value in them, by table and column. Environments are left out.

    The connection has to return texts as bytes.
    """
    found: Cells = {}
    tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for table in (raw.decode() for (raw,) in tables if raw != schema.STRINGS.encode()):
        columns = _declared_texts(db, table)
        for block in _blocks(db, table, columns) if columns else ():
            for column, text in zip(columns, block.texts, strict=True):
                if text and search.held(text):
                    held = _cells(db, table, column, block.where, search)
                    found.setdefault((table, column), set()).update(held)
    if strings := _strings_that_hold(db, export, search):
        found[schema.STRINGS, "value"] = strings
    return {place: cells for place, cells in found.items() if cells}


def _declared_texts(db: sqlite3.Connection, table: str) -> list[str]:
    columns = db.execute(statement("PRAGMA table_info({table})", table=table)).fetchall()
    return [name.decode() for _, name, kind, *_ in columns if kind.upper() not in _NUMBERS]


def _blocks(db: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[_Block]:
    only = " AND ifnull(name, '') NOT LIKE '%environment%'" if table in places.NAMED_TABLES else ""
    joined = ", ".join(f"group_concat({quoted(column)}, char(10))" for column in columns)
    rows = statement('SELECT rowid AS "its row", {columns} FROM {table}', columns=columns, table=table)
    after, number = -(1 << 63), _ROWS
    while after is not None:
        some = f"{rows} WHERE rowid > {after}{only} LIMIT {number}"
        try:
            [(last, *texts)] = db.execute(f'SELECT max("its row"), {joined} FROM ({some})')  # noqa: S608 - quoted
        except sqlite3.DataError:  # more text than SQLite joins
            if number == 1:
                raise
            number = 1
            continue
        if last is not None:
            yield _Block(tuple(texts), f"rowid > {after} AND rowid <= {last}{only}")
        after = last


def _cells(db: sqlite3.Connection, table: str, column: str, where: str, search: ValueSearch) -> set[bytes]:
    sql = statement("SELECT CAST({c} AS BLOB) FROM {t} WHERE {c} >= '' AND ", c=column, t=table) + where
    return {cell for (cell,) in db.execute(sql) if search.held(cell)}


def _strings_that_hold(db: sqlite3.Connection, export: Export, search: ValueSearch) -> set[bytes]:
    """Return the texts of StringIds with a value, which the export has in memory already."""
    environments = set(places.environment_strings(export))
    texts = (text for i, text in export.strings.items() if i not in environments)
    while block := list(islice(texts, _ROWS)):
        if search.holds("\n".join(block)):
            return _cells(db, schema.STRINGS, "value", "id IS NOT NULL", search)
    return set()
