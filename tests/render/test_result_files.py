"""The files with all runs of `nsyswrap collect`: which of them may be replaced."""

from pathlib import Path

import pytest
from batch_folders import rows_of
from pyarrow import parquet
from tiny_export import call, kernel, write

from nsyswrap.api import open_capture
from nsyswrap.base.errors import OutputError
from nsyswrap.cli.collect import collect
from nsyswrap.render.result_files import RESULTS, check_replaceable


@pytest.mark.parametrize("text", ["run,label,n\n", "run,label,"])
def test_results_that_nsyswrap_wrote_are_replaced(text: str, tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_text(text)
    (tmp_path / "kernels.csv").write_text("any")
    check_replaceable(tmp_path)


@pytest.mark.parametrize("text", ["", "run,label", "run,labels,n\n", "RUN,label,n\n", "\nrun,label,\n", None])
def test_other_results_are_not(text: str | None, tmp_path: Path) -> None:
    check_replaceable(tmp_path)  # nothing is there
    (tmp_path / "kernels.csv").write_text("any")
    if text is not None:
        (tmp_path / RESULTS).write_text(text)
    with pytest.raises(OutputError, match="was not written by nsyswrap"):
        check_replaceable(tmp_path)


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
    for name in ("cuda_gpu_kern_sum", "gpu_time", "cuda_api_sum"):
        mine = [row for row in rows_read if (row["run"], row["report"]) == ("run0", name)]
        assert [(int(row["row"]), row["column"], row["value"] or row["text"]) for row in mine] == [
            (number, column, str(value))
            for number, row in enumerate(capture.report(name).records())
            for column, value in row.items()
            if value is not None
        ]
