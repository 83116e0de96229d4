"""The files with all runs of `nsyswrap collect`: which of them may be replaced."""

from pathlib import Path

import pytest

from nsyswrap.base.errors import OutputError
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
