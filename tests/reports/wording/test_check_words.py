"""The words for the checks of a capture."""

import ast
from pathlib import Path

from nsyswrap.analysis import diagnostics
from nsyswrap.analysis.names import RESULTS
from nsyswrap.analysis.no_gpu_work import FATAL_RESULTS
from nsyswrap.reports.wording.checks import CURES, EFFECTS, RESULT_CURES, TEXTS


def test_the_catalogue_has_no_words_for_what_no_check_yields() -> None:
    folder = Path(diagnostics.__file__).parent
    files = [*folder.glob("*.py"), folder.parent / "no_gpu_work" / "__init__.py"]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    kinds = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert TEXTS.keys() - kinds - {"not_checked"} == set()  # a report that meets a trimmed export
    assert (CURES.keys() | EFFECTS.keys()) - TEXTS.keys() == set()


def test_every_result_that_leaves_no_gpu_has_a_meaning_and_a_cure() -> None:
    assert RESULT_CURES.keys() == set(FATAL_RESULTS)
    assert set(FATAL_RESULTS) <= RESULTS.keys()
