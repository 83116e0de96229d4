"""summaries.csv and summaries.parquet of many runs: a row for each value, the same in both."""

from pathlib import Path

from batch_folders import rows_of
from pyarrow import parquet
from tiny_export import call, kernel, write

from nsyswrap.api import open_capture
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
    in_csv = [
        {**row, "rank": None, "row": int(row["row"]), "value": float(row["value"]) if row["value"] else None}
        for row in rows_read
    ]
    assert [{**row, "text": row["text"] or ""} for row in table.to_pylist()] == in_csv
    types = ["string", "int64", "string", "int64", "string", "double", "string"]
    assert list(map(str, table.schema.types)) == types
    capture = open_capture(tmp_path / "run0.sqlite")
    for name in ("cuda_gpu_kern_sum", "gpu_time", "diagnostics"):
        mine = [row for row in rows_read if (row["run"], row["report"]) == ("run0", name)]
        assert [(int(row["row"]), row["column"], row["value"] or row["text"]) for row in mine] == [
            (number, column, str(value))
            for number, row in enumerate(capture.report(name).records())
            for column, value in row.items()
            if value is not None
        ]
