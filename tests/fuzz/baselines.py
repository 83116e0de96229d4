"""Mutated baselines, with the checksum of the file as it was, of what it is now, or none."""

import json
from functools import cache
from pathlib import Path
from random import Random

from made_runs import made_side

from fuzz.case import Case, no_problem
from fuzz.text_mutations import mutation
from nsyswrap.base.run_facts import checksum
from nsyswrap.reports.compare.baseline import baseline_text

_MARK, _SUM = "nsyswrap_baseline", "sha256"
_COMMANDS = (
    *("baseline show a.json", "baseline show a.json --format json", "baseline show a.json --format csv"),
    *("compare a.json b.json", "compare b.json a.json --format json", "compare a.json b.json --anyway"),
    *("compare a.json b.json --gate", "compare b.json a.json --format markdown", "baseline list ."),
    *("baseline history . -o out/page.html", "compare a.json b.json --view out/page.html"),
    "export --metrics openmetrics a.json",
)
_CODES = (0, 1, 2, 3, 65)  # 1 and 3: of the gate


@cache
def _texts() -> tuple[bytes, bytes]:
    return (
        baseline_text(made_side("a", 3, seed=1)).encode(),
        baseline_text(made_side("b", 3, seed=2)).encode(),
    )


def case(random: Random, folder: Path) -> Case:
    """Return a command that reads two baselines, of which one is mutated."""
    mutated, other = _texts()
    mutant = mutation(random, mutated, ".json")
    sums = "its old checksum"
    content = mutant.content
    if content is not None and random.random() < 0.7:
        content, sums = _with_checksum(random, content)
    (folder / "b.json").write_bytes(other)
    if content is None:
        mutant.put(folder / "a.json")
    else:
        (folder / "a.json").write_bytes(content)
    (folder / "out").mkdir()
    argv = random.choice(_COMMANDS).split()
    inputs = [path for path in folder.glob("*.json") if path.is_file()]
    made = f"a.json: {mutant.made}, {sums}"
    return Case(argv, inputs, no_problem, made, (folder / "out",), _CODES, names_each=True)


def _with_checksum(random: Random, content: bytes) -> tuple[bytes, str]:
    """Give a document the right checksum, or none; as it is where it is no document."""
    try:
        document = json.loads(content)
        document.pop(_SUM, None)
        if random.random() < 0.1:
            return json.dumps(document).encode(), "no checksum"
        inside = {key: value for key, value in document.items() if key != _MARK}
        document[_SUM] = checksum(inside)
        return json.dumps(document).encode(), "its own checksum"
    except (ValueError, AttributeError, RecursionError, TypeError):
        return content, "no document"
