"""``compare --view --plot``: files that are written, and those that are not."""

from pathlib import Path

import pytest
from made_runs import made_side

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.base.errors import OutputError, UsageError
from nsyswrap.cli.compare import check_pictures, write_pictures


def test_the_page_and_the_picture_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view, plot = tmp_path / "page.html", tmp_path / "picture.SVG"
    check_pictures(view, plot, force=False)
    write_pictures(compare(made_side("a", 3), made_side("b", 3)), view, plot)
    assert view.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "<svg" in plot.read_text(encoding="utf-8")
    assert f"wrote {view}" in capsys.readouterr().err
    with pytest.raises(OutputError, match=r"page\.html already exists"):
        check_pictures(view, None, force=False)
    check_pictures(view, plot, force=True)


def test_a_picture_needs_a_known_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"invalid --plot .*picture\.gif: unknown format") as refused:
        check_pictures(None, tmp_path / "picture.gif", force=False)
    assert refused.value.hint == "name a file that ends in .png, .svg, .pdf"
