"""summaries.csv and summaries.parquet of many runs: the same values, whatever is written at once."""

from pathlib import Path

from batch_folders import rows_of
from pyarrow import parquet
from tiny_export import call, kernel, write

from nsyswrap.cli.collect import collect


def test_summaries_as_parquet_have_the_values_of_the_csv(tmp_path: Path) -> None:
    for number, name in enumerate(('k "of", two\nlines', "plain", "")):
        begin = 1000 * number
        rows = [
            call("cudaLaunchKernel", begin, begin + 10, 1),
            kernel(name, begin + 20, begin + 45 + number, 1),
        ]
        write(tmp_path / f"run{number}.sqlite", *rows)
    collect([tmp_path], tmp_path / "out", jobs=1)
    rows_read = rows_of(tmp_path / "out" / "summaries.csv")
    table = parquet.read_table(tmp_path / "out" / "summaries.parquet")
    assert table.column_names == list(rows_read[0])
    as_text = [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in table.to_pylist()
    ]
    assert as_text == rows_read
    types = {name: str(table.schema.field(name).type) for name in ("run", "total_ns", "avg_ns", "rank")}
    assert types == {"run": "string", "total_ns": "int64", "avg_ns": "double", "rank": "int64"}
