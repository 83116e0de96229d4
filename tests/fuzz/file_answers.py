"""What a command has to answer to a mutated file: as to the file before, or what a plain reading gives."""

import csv
import json
import math
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from fuzz.file_template import PROJECT, TABLES, printed_before, tables, tables_before, template
from fuzz.text_mutations import Mutation
from nsyswrap.base.run_folder import DIGEST, SPEC, STATUS
from nsyswrap.reports.runs.digest import TOTALS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


OUTCOMES = (
    *("done", "program_failed", "interrupted", "timed_out"),
    *("nsys_failed", "disk_full", "not_redacted", "not_started"),
)


class Given(NamedTuple):
    """The folder of a case, what was mutated in it, and the command."""

    folder: Path
    file: Path
    mutated: Mutation
    argv: tuple[str, ...]


class Answer(NamedTuple):
    code: int
    stdout: str
    stderr: str


def anything(_given: Given, _answer: Answer) -> str:
    return ""


def as_before(given: Given, _answer: Answer) -> str:
    """A file that can be made again: all tables are as they were."""
    wrong = [name for name in TABLES if tables(given.folder)[name] != tables_before()[name]]
    return f"differs: {', '.join(wrong)}" if wrong else ""


def as_before_or_told(given: Given, answer: Answer) -> str:
    now, before = (re.sub(r"\d+ min ago", "", text) for text in (answer.stdout, printed_before(given.argv)))
    return "differs" if given.mutated.is_harmless and now != before else ""


def as_digest_alone(given: Given, answer: Answer) -> str:
    """The digest of a capture that is gone: its figures as they were, or none of them."""
    if tables(given.folder) == tables_before():
        return ""
    now, before = (_rows(one["results.csv"]) for one in (tables(given.folder), tables_before()))
    shown = {row["run"]: row for row in now if row not in before}
    if len(shown) != 1 or any(row[column.name] for row in shown.values() for column in TOTALS):
        return f"figures of a damaged digest: {shown}"
    is_named = DIGEST in answer.stderr or "no capture" in answer.stderr  # the second if there is no digest
    return "" if is_named else f"{DIGEST} is not named"


def as_status(given: Given, answer: Answer) -> str:
    """The outcome is what the status says. A damaged one leaves out its run, and the exit code tells."""
    [row] = [row for row in _rows(tables(given.folder)["results.csv"]) if row["run"].startswith("00001")]
    if answer.code != (65 if row["outcome"] == "damaged" else 0):
        return f"exit code {answer.code} for a run that is {row['outcome']}"
    status = _status(given.mutated.content)
    if status:
        is_so = (row["outcome"], row["exit_code"]) == (status["outcome"], str(status["exit_code"]))
        return "" if is_so else f"{status} is read as {row['outcome']}, {row['exit_code']}"
    if row["outcome"] in OUTCOMES:
        return f"no status is read as {row['outcome']}"
    return "" if given.mutated.content is None or STATUS in answer.stderr else f"{STATUS} is not named"


def as_status_list(given: Given, answer: Answer) -> str:
    is_done = (_status(given.mutated.content) or {}).get("outcome") == "done"
    now, before = (
        int(re.findall(r"(\d+) done", text)[0]) for text in (answer.stdout, printed_before(given.argv))
    )
    return "" if now == before - (not is_done) else f"{now} done"


def _status(content: bytes | None) -> dict[str, Any] | None:
    """Read a status by hand; None if it is not valid."""
    status = {"message": "", "hint": "", **(_plain(content) or {})}
    codes = ("program_code", "nsys_code")
    if status.get("outcome") not in OUTCOMES or not all(
        isinstance(status[k], str) for k in ("message", "hint")
    ):
        return None
    if not all(k in status and (status[k] is None or _is_whole(status[k])) for k in codes):
        return None
    code: Any = status.get("exit_code")
    if not _is_whole(code) or not 0 <= code <= 255:
        return None
    ends_well = code in (0, 73) if status["outcome"] == "done" else code != 0
    return status if ends_well else None


def as_run(given: Given, _answer: Answer) -> str:
    """Wall time, host and start come from run.json: each is what stands there, or not known.

    How many runs share a node comes of the hosts.
    """
    now, before = (_rows(one["results.csv"]) for one in (tables(given.folder), tables_before()))
    run: Any = _plain(given.mutated.content) or {}
    wall_s, host = run.get("duration_s"), run.get("host")
    is_known = (type(wall_s) is float or _is_whole(wall_s)) and 0 <= wall_s < math.inf
    shown = now[0].pop("wall_s")
    before[0].pop("wall_s")
    shown_host, host_before = now[0].pop("host_name"), before[0].pop("host_name")
    is_text = isinstance(host, str)
    if (host == host_before and shown_host != host_before) or (shown_host and not is_text):
        return f"a host of {host!r} is read as {shown_host!r}"
    start, start_before = now[0].pop("started"), before[0].pop("started")
    if start not in ("", start_before) or (not start and run.get("started") == start_before):
        return f"a start of {run.get('started')!r} is read as {start!r}"
    if host != host_before:
        for row in (*now, *before):
            del row["shared_node"]
    if now != before:
        return "other figures changed"
    is_right = float(shown) == float(wall_s) if is_known and shown else shown == "" and not is_known
    return "" if is_right else f"a wall time of {wall_s!r} is read as {shown!r}"


def as_spec(given: Given, answer: Answer) -> str:
    """A run whose spec.json is another than batch.json says has no parameters, and is not compared."""
    row = _rows(tables(given.folder)["results.csv"])[0]
    spec, before = (_plain(one) or {} for one in (given.mutated.content, template()[given.file]))
    same = {json.dumps({**one, "label": "", "timeout_s": 0}, sort_keys=True) for one in (spec, before)}
    if isinstance(spec.get("label"), str) and len(same) == 1:
        return "" if (row["repeat"], row["outcome"]) == ("1", "done") else f"{row}"
    if row["repeat"] or row["outcome"] == "done":
        return f"a spec that is not valid is read as {row}"
    return "" if SPEC in answer.stderr else f"{SPEC} is not named"


def as_batch(given: Given, answer: Answer) -> str:
    runs: Any = (_plain(given.mutated.content) or {}).get("runs")
    rows = [run for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []
    names = [str(run.get("folder")) for run in rows if run.get("active") is not False]
    numbers = [run.get("number") for run in rows]
    is_valid = (
        rows and len(rows) == len(runs) and all(map(_is_whole, numbers)) and len(set(numbers)) == len(rows)
    )
    is_valid = is_valid and not any("/" in name or name in ("..", ".", "") for name in names)
    if answer.code or given.mutated.content is None:
        return ""
    if not is_valid:
        return "a batch.json that is not valid is read"
    shown = [row["run"] for row in _rows(tables(given.folder)["results.csv"])]
    return "" if len(shown) == len(names) else f"runs {shown}"


def as_rules(given: Given, answer: Answer) -> str:
    """Classify the kernels of the capture by the rules, one after another."""
    kernels = {"k": ("other", 3), "ncclDevKernel_AllReduce()": ("communication", 1), "advec_x": ("other", 1)}

    rules = _rules(given.mutated.content)
    if answer.code or rules is None:
        return "" if answer.code and rules is None else f"exit code {answer.code} for the rules {rules}"
    expected: dict[str, int] = {}
    for name, (built_in, count) in kernels.items():
        kind = next((kind for kind, pattern in rules if re.search(pattern, name)), built_in)
        expected[kind] = expected.get(kind, 0) + count
    shown = {row["class"]: int(row["instances"]) for row in _rows(answer.stdout)}
    return (
        ""
        if list(shown.values()) == list(shown.values()) and shown == expected
        else f"{shown}, not {expected}"
    )


def _rules(content: bytes | None) -> list[tuple[str, str]] | None:
    rules = (_toml(content) or {}).get("class")
    if set(_toml(content) or {}) != {"class"} or not isinstance(rules, list) or not rules:
        return None
    if not all(isinstance(one, dict) and set(one) == {"name", "pattern"} for one in rules):
        return None
    pairs = [(one["name"], one["pattern"]) for one in rules]
    try:
        return pairs if all(a and isinstance(a, str) and b and re.compile(b) for a, b in pairs) else None
    except (re.error, TypeError, OverflowError, RecursionError):
        return None


def as_settings(given: Given, answer: Answer) -> str:
    table = _toml(given.mutated.content) or {}
    key = "top" if given.file == PROJECT else "trace"
    own = table.get("tool", {}).get("nsyswrap", {}) if given.file == PROJECT else table
    if answer.code or not isinstance(own, dict) or not isinstance(own.get(key), (int, str)):
        return ""
    shown = re.search(rf"^{key} +(.*\S) +\S+$", answer.stdout, re.MULTILINE)
    return "" if shown and shown[1] == str(own[key]) else f"{key} = {own[key]!r} is not shown"


def _is_whole(value: object) -> bool:
    return type(value) is int and abs(value) < 2**63


def _plain(content: bytes | None) -> dict[str, Any] | None:
    """Read an object of JSON by hand; None if it is none, or if something in it has two meanings."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    def refuse(_: str) -> None:
        raise ValueError

    try:
        text = (content or b"").decode("utf-8", "surrogateescape")
        document = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _toml(content: bytes | None) -> dict[str, Any] | None:
    if content is None or len(content) > 4 << 20 or max(map(content.count, (b"a.a.", b'b"."a'))) > 100:
        return None
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))
