"""SQL statements with quoted names."""

import sqlite3
from contextlib import closing

import pytest

from nsyswrap.base.sqlite import quoted, statement


def test_names_are_quoted() -> None:
    sql = statement("SELECT {columns} FROM {table} WHERE a = ?", columns=["a", "order"], table="t")
    assert sql == 'SELECT "a", "order" FROM "t" WHERE a = ?'


@pytest.mark.parametrize("name", ['"', 'a"b', "'; DROP TABLE t; --", "{table}", "%s ?", "SELECT"])
def test_any_name_is_one_identifier(name: str) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE {quoted(name)} ({quoted(name)})")
        db.execute(statement("INSERT INTO {table} VALUES (?)", table=name), (1,))
        assert db.execute(statement("SELECT {column} FROM {table}", column=name, table=name)).fetchall() == [
            (1,)
        ]
