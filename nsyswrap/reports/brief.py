"""The answer as one small JSON object for programs. Its JSON Schema is ``docs/brief.schema.json``.

For any capture it has at most MOST_BYTES: fewer findings and shorter texts rather than more bytes, and the
number of findings that are left out. Commands are never cut: one that does not fit is left out. Times are in
ms, of one step where there are steps, summed over devices.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsyswrap.analysis.answer import Answer, RankShare, answer_of
from nsyswrap.analysis.conditions import run_conditions_of
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.no_gpu_work import has_gpu_work
from nsyswrap.analysis.program_language import PYTORCH, framework_of
from nsyswrap.analysis.range_tree import range_tree_of
from nsyswrap.base.errors import CommandHint
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import shorten
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.shared import shared_command
from nsyswrap.reports import NAMES, find_report
from nsyswrap.reports.figures import figures_of
from nsyswrap.reports.wording.advice import words
from nsyswrap.reports.wording.checks import doubt_texts
from nsyswrap.reports.wording.notes import joined_texts, note_text

with lazy_imports():
    from nsyswrap.reports.runs import tables

if TYPE_CHECKING:
    from nsyswrap.reports.runs.gather import RunResult

FORMAT, COMPARISON_FORMAT = "nsyswrap-brief", "nsyswrap-comparison-brief"
CHECKS_FORMAT, RUNS_FORMAT = "nsyswrap-doctor-brief", "nsyswrap-runs-brief"
VERSION = 1  # raised with every key that is removed or changes its meaning
MOST_BYTES = 4096
# Findings, and characters of a text: the first of these that fits.
_SIZES = ((6, 400), (5, 240), (4, 180), (3, 140), (3, 100), (2, 70), (1, 50), (0, 30), (0, 10))
_ROW_SIZES = ((24, 400), (18, 240), (14, 180), (10, 140), (7, 100), (4, 70), (2, 40), (0, 10))  # of a table
_NS_PER_MS = 1e6
_DIGITS = 6  # significant ones of a figure
_MOST_RANKS = 8
_MOST_GPUS, _MOST_LOOPS, _MOST_OUTLIERS, _MOST_STATES, _MOST_WORDS = 4, 3, 5, 8, 12
_PROGRAM = ("PROGRAM",)
_MOST_COMMAND_BYTES = 800  # of a command or path that is of many runs: a longer one is left out, not cut
_NOT_FAILED = ("done", "planned", "running")
_STATES = ("problem", "note", "unknown", "ok")  # of checks, in their order in a packet
# What the command of a cure begins with. Other cures are sentences, or change the user's own shell.
_PROGRAMS = {"apptainer", "apt-cache", "cp", "docker", "ln", "ls", "podman", "sudo", "wsl.exe"}
_SHELL = frozenset("$`*?~|&;<>()")


def brief_of(capture: Capture) -> dict[str, Any]:
    """Return the answer of a capture as numbers, texts, lists and dicts. What is not known is None."""
    capture = capture.decided()
    answer = answer_of(capture)
    return _of_size(lambda findings, characters: _packet(capture, answer, findings, characters), capture)


def brief_of_ranks(captures: Sequence[Capture], answer: Answer) -> dict[str, Any]:
    """Return the answer over all ranks of a job. ``capture`` in it is that of the first rank."""
    capture = captures[0].decided()
    selection = capture.view.selection
    if len({one.view.selection.processes for one in captures}) > 1:  # each rank is a process
        selection = replace(selection, processes=())
    sources = list(dict.fromkeys(str(one.source) for one in captures))
    skew = ["nsyswrap", "report", *sources, "--by", "rank", "-r", "rank_waiting,rank_skew"]
    skew += [*selection.options, "--format", "json"]
    behind = [{"why": "waiting by rank, slowest ranges and kernels", "argv": skew}]
    fits = len(shlex.join(skew)) <= _MOST_COMMAND_BYTES

    def packet(findings: int, characters: int) -> dict[str, Any]:
        whole = _packet(capture, answer, findings, characters)
        whole["judged"]["options"] = [*selection.options, *_steps_option(capture)]
        ranks = [_rank(rank, characters) for rank in _waiting_most(answer)[:_MOST_RANKS]]
        left_out = max(0, len(answer.ranks) - _MOST_RANKS)
        return {**whole, "next": behind if fits else [], "ranks": ranks, "ranks_left_out": left_out}

    return _of_size(packet, capture)


def _waiting_most(answer: Answer) -> list[RankShare]:
    """Return the ranks, those that wait most first, then the least busy."""

    def order(rank: RankShare) -> tuple[float, float]:
        window = max(rank.window_ns, 1)
        return -(rank.waiting_ns or 0) / window, rank.busy_ns / window

    return sorted(answer.ranks, key=order)


def _rank(rank: RankShare, characters: int) -> dict[str, Any]:
    def share(ns: int | None) -> float | None:
        return None if ns is None else _figure(100.0 * ns / max(rank.window_ns, 1))

    return {
        "rank": _cut(rank.label, characters),
        "busy_percent": share(rank.busy_ns),
        "exposed_communication_percent": share(rank.exposed_ns),
        "waiting_percent": share(rank.waiting_ns),
        "last": rank.last,
        "of_collectives": rank.collectives,
    }


def _of_size(make: Callable[[int, int], dict[str, Any]], capture: Capture) -> dict[str, Any]:
    """Return the first packet that fits, without commands if none does."""
    packet = _fitting(make)
    if _fits(packet):
        return packet
    _, characters = _SIZES[-1]
    path = _cut(str(capture.source), characters)
    options = [_cut(option, characters) for option in packet["judged"]["options"]]
    return {
        **packet,
        "capture": {**packet["capture"], "path": path},
        "judged": {**packet["judged"], "options": options},
        "unknown": [],
        "next": [],
    }


def refusal(path: str, error: str) -> dict[str, Any]:
    """Return the packet of a capture that cannot be read."""
    front = {"format": FORMAT, "version": VERSION}
    packet = {**front, "capture": {"path": path}, "error": error}
    if _fits(packet):
        return packet
    return _fitting(
        lambda _, characters: {
            **front,
            "capture": {"path": _cut(path, characters)},
            "error": _cut(error, characters),
        }
    )


def _fitting(
    make: Callable[[int, int], dict[str, Any]], sizes: Sequence[tuple[int, int]] = _SIZES
) -> dict[str, Any]:
    """Return the first packet that fits, or else the smallest. ``make`` takes findings and characters."""
    for findings, characters in sizes:
        packet = make(findings, characters)
        if _fits(packet):
            break
    return packet


def _fits(packet: Mapping[str, Any]) -> bool:
    return len(as_text(packet)) <= MOST_BYTES


def _cut(text: str, characters: int) -> str:
    """Return a text of at most so many characters and columns: some characters take no column."""
    tail = characters // 3
    if len(text) > characters:
        text = f"{text[: characters - tail - 1]}…{text[-tail:]}"
    return shorten(text, characters)


def as_text(packet: Mapping[str, Any]) -> str:
    """Return a packet as JSON on one line."""
    return json.dumps(packet, separators=(",", ":"), ensure_ascii=True)


def _packet(capture: Capture, answer: Answer, most: int, characters: int) -> dict[str, Any]:
    info, source = capture.info, str(capture.source)
    figures, steps = figures_of(answer), answer.steps
    per = (steps.count if steps else 1) * _NS_PER_MS
    return {
        "format": FORMAT,
        "version": VERSION,
        "capture": {
            "path": source,
            "command": [_cut(word, characters) for word in shared_command(info.command)[:_MOST_WORDS]],
            "gpus": [_cut(name, characters) for name in list(dict.fromkeys(info.gpus))[:_MOST_GPUS]],
            "gpu_count": len(info.gpus),
            "driver": _cut(info.driver_version, characters) or None,
            "nsys": _cut(info.exporter_version, characters) or None,
        },
        "judged": _judged(capture, answer, characters),
        "busy_percent": _figure(figures.get("busy_percent")),
        "idle_percent": _figure(figures.get("idle_percent")),
        "busy_ms": _states(answer.busy_ns, per),
        "idle_ms": _states(answer.idle_ns, per),
        "findings": [_finding(finding, per, characters) for finding in answer.findings[:most]],
        "findings_left_out": max(0, len(answer.findings) - most),
        "facts": [_cut(words(fact).what, characters) for fact in answer.facts[:most]],
        "conditions": _conditions(capture, answer, characters)[: max(most, 1)],
        "unknown": _unknown(capture, answer, characters),
        "next": _next(capture, answer),
    }


def _judged(capture: Capture, answer: Answer, characters: int) -> dict[str, Any]:
    """Return which part of the capture all figures are of."""
    steps = answer.steps
    return {
        "part": answer.scope if answer.devices else None,
        "options": [*capture.view.selection.options, *_steps_option(capture)],
        "no_steps_because": _cut(note_text(answer.why_whole), characters) if answer.why_whole else None,
        "withheld_because": _cut(words(answer.withheld).what, characters) if answer.withheld else None,
        "loop": _cut(steps.label, characters) if steps else None,
        "steps": steps.count if steps else None,
        "of_steps": steps.total if steps else None,
        "step_mean_ms": _figure(steps.mean_ns / _NS_PER_MS) if steps else None,
        "step_median_ms": _figure(steps.median_ns / _NS_PER_MS) if steps else None,
        "long_steps": [one.number for one in steps.outliers[:_MOST_OUTLIERS]] if steps else [],
        "gpu_time_percent": _figure(steps.gpu_percent) if steps else None,
        "devices": len(answer.devices),
        "other_loops": [
            {
                "loop": _cut(loop.label, characters),
                "steps": loop.count,
                "step_mean_ms": _figure(loop.mean_ns / _NS_PER_MS),
                "busy_percent": _figure(loop.busy_percent),
            }
            for loop in answer.other_loops[:_MOST_LOOPS]
        ],
    }


def _states(times_ns: Mapping[str, int], per: float) -> dict[str, float | None]:
    """Return times by state; those beyond the first few are summed as ``other``, so that they add up."""
    first, rest = list(times_ns.items())[:_MOST_STATES], list(times_ns.values())[_MOST_STATES:]
    states = {state: _figure(ns / per) for state, ns in first}
    return {**states, "other": _figure(sum(rest) / per)} if rest else states


def _finding(finding: Finding, per: float, characters: int) -> dict[str, Any]:
    wording = words(finding)
    saved = finding.saved_ns
    return {
        "kind": finding.kind,
        "what": _cut(wording.what, characters),
        "time_ms": _figure(finding.evidence.length / per) if finding.evidence.length else None,
        "saving_ms": None if saved is None else _figure(saved / per),
        "saving_percent": _figure(finding.saved_percent),
        "status": finding.status,
        "do": _cut(wording.do, characters),
        "code": wording.example if len(wording.example) <= characters else None,
        "unless": _cut(wording.unless, characters) or None,
        "report": finding.source,
    }


def _conditions(capture: Capture, answer: Answer, characters: int) -> list[str]:
    """Return what makes the figures less certain than they look."""
    texts = [
        *joined_texts(answer.remarks),
        *(words(note).what for note in answer.notes),
        *doubt_texts(capture),
    ]
    return [_cut(text, characters) for text in dict.fromkeys(texts)]


def _unknown(capture: Capture, answer: Answer, characters: int) -> list[dict[str, Any]]:
    """Return what this capture cannot tell, each with the command that records it."""
    command, source = shared_command(capture.info.command), str(capture.source)
    is_whole = len(command) <= _MOST_WORDS and all(len(word) <= characters for word in command)
    is_whole = is_whole and command == tuple(capture.info.command)  # without a credential it is another one
    program = command if command and is_whole else _PROGRAM
    lacks: list[tuple[str, list[str]]] = []
    if answer.lacks_kernels:
        lacks.append(
            ("how busy the GPU was: no kernel was recorded", ["nsyswrap", "report", source, "--advice"])
        )
    elif not answer.devices and has_gpu_work(capture.whole):
        whole = ["nsyswrap", "report", source, "--format", "brief"]
        lacks.append(("how busy the GPU was: all GPU work is outside of the selection", whole))
    elif not answer.devices:
        lacks.append(("why the GPU had no work", ["nsyswrap", "doctor", source]))
    if answer.devices and answer.steps is None:
        lacks.append(("the time of a step", ["nsyswrap", "profile", "--steps", "10-13", *program]))
    if framework_of(capture.whole) == PYTORCH and not _has_modules(capture):
        lacks.append(("GPU time by module", ["nsyswrap", "profile", "--modules", *program]))
    if capture.has("graph"):
        lacks.append(("kernels in CUDA graphs", ["nsyswrap", "profile", "--graphs", "node", *program]))
    if answer.devices and run_conditions_of(capture) is None:
        lacks.append(("clocks, throttling, other processes", ["nsyswrap", "profile", *program]))
    return [{"what": what, "argv": argv} for what, argv in lacks]


def _has_modules(capture: Capture) -> bool:
    return capture.has("nvtx") and capture.has("api") and range_tree_of(capture.whole).has_modules


def _next(capture: Capture, answer: Answer) -> list[dict[str, Any]]:
    """Return the commands that lead on, the most useful first, with the selection of the capture."""
    source, first = str(capture.source), answer.findings[0] if answer.findings else None
    selection, steps = capture.view.selection.options, _steps_option(capture)

    def rows(report: str, top: int) -> list[str]:
        chosen = steps if report in NAMES and find_report(report).judges_steps else []
        options = ["-r", report, "--top", str(top), *selection, *chosen, "--format", "json"]
        return ["nsyswrap", "report", source, *options]

    commands: list[tuple[str, list[str]]] = []
    if first is not None:
        commands += [(f"the rows behind {first.kind}", rows(first.source, 20))]
    if answer.devices:
        commands += [("the kernels with most time", rows("cuda_gpu_kern_sum", 10))]
    if answer.devices and not (selection or steps):  # compare judges whole captures
        compare = ["nsyswrap", "compare", source, "NEW", "--format", "json"]
        commands += [("whether a change helped", compare)]
    return [{"why": why, "argv": argv} for why, argv in commands]


def _steps_option(capture: Capture) -> list[str]:
    return ["--steps", capture.view.steps] if capture.view.steps else []


def _figure(value: float | None) -> float | None:
    """Return a figure with few digits, which is enough for a claim."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def brief_of_comparison(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict of a comparison and its largest changes, of at most MOST_BYTES.

    ``whole`` is the comparison as ``reports.compare.as_data`` has it.
    """
    others = (row for row in whole["rows"] if row != whole["headline"])
    changed = [row for row in others if row["outcome"] != "same" and row["cost_ns"]]
    changed.sort(key=lambda row: -abs(row["cost_ns"]))
    because = whole["no_verdicts_because"]

    def packet(most: int, characters: int) -> dict[str, Any]:
        return {
            "format": COMPARISON_FORMAT,
            "version": VERSION,
            "base": {"name": _cut(whole["base"]["name"], characters), "runs": len(whole["base"]["runs"])},
            "new": {"name": _cut(whole["new"]["name"], characters), "runs": len(whole["new"]["runs"])},
            "outcome": whole["outcome"],
            "no_verdicts_because": because and _cut(because, characters),
            "obstacles": [
                {name: _cut(str(one[name]), characters) for name in ("about", "base", "new")}
                for one in whole["obstacles"][:most]
            ],
            "headline": whole["headline"] and _change(whole["headline"], characters),
            "conclusion": [_cut(text, characters) for text in whole["conclusion"]],
            "changes": [_change(row, characters) for row in changed[:most]],
            "changes_left_out": max(0, len(changed) - most),
            "gate": whole["gate"] and whole["gate"]["verdict"],
            "notes": [_cut(text, characters) for text in whole["notes"][:most]],
        }

    return _fitting(packet)


def _change(row: Mapping[str, Any], characters: int) -> dict[str, Any]:
    change = {
        "group": row["group"],
        "name": _cut(row["name"], characters),
        "outcome": row["outcome"],
        "cost_ms": row["cost_ns"] and row["cost_ns"] / _NS_PER_MS,
        "base_typical_ms": row["base_typical_ns"] and row["base_typical_ns"] / _NS_PER_MS,
        "new_typical_ms": row["new_typical_ns"] and row["new_typical_ns"] / _NS_PER_MS,
        **{name: row[name] for name in ("change_percent", "low_percent", "high_percent")},
        "more_runs": row["more_runs_count"],
    }
    return {name: _figure(value) if isinstance(value, float) else value for name, value in change.items()}


def brief_of_checks(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checks that are not ok, problems first, of at most MOST_BYTES.

    ``whole`` is what ``doctor --json`` prints.
    """
    counts = Counter(check["level"] for check in whole["checks"])
    checks = [check for check in whole["checks"] if check["level"] != "ok"]
    checks.sort(key=lambda check: _STATES.index(check["level"]))

    def packet(most: int, characters: int) -> dict[str, Any]:
        return {
            "format": CHECKS_FORMAT,
            "version": VERSION,
            "counts": {state: counts[state] for state in _STATES},
            "checks": [_check(check, characters) for check in checks[:most]],
            "checks_left_out": max(0, len(checks) - most),
        }

    return _fitting(packet, _ROW_SIZES)


def _check(check: Mapping[str, Any], characters: int) -> dict[str, Any]:
    remedy = _argv(check["cure"])
    return {
        "name": _cut(check["subject"], characters),
        "state": check["level"],
        "what": _cut(check["text"], characters),
        "do": _cut(check["cure"], characters) or None,
        "remedy": remedy if len(shlex.join(remedy)) <= characters else [],
    }


def _argv(cure: str) -> list[str]:
    """Return the words of a cure that is one command and needs no shell; else none."""
    if isinstance(cure, CommandHint):
        return list(cure.argv)
    try:
        words, plain = shlex.split(cure, comments=True), shlex.split(cure, comments=True, posix=False)
    except ValueError:  # an open quote: a sentence
        return []
    needs_shell = any(_SHELL.intersection(word) for word in plain if word[:1] not in ("'", '"'))
    is_command = bool(words) and (words[0] in _PROGRAMS or words[0].startswith("/"))
    return words if is_command and not needs_shell else []


def brief_of_runs(results: Sequence[RunResult], table: Path) -> dict[str, Any]:
    """Return the outcomes of runs and the runs to read first, of at most MOST_BYTES.

    Those that failed are first, then the least busy GPUs. ``table`` is the file with all runs.
    """
    outcomes = Counter(result.run.outcome for result in results)
    gpus = Counter(tables.text_of(result, "gpus") for result in results)
    del gpus[""]
    failed = [result for result in results if result.run.outcome not in _NOT_FAILED]
    ended = [result for result in results if result.run.outcome == "done"]
    ended.sort(key=lambda one: float("inf") if (busy := tables.busy_percent(one)) is None else busy)
    first = [*failed, *ended]

    def packet(most: int, characters: int) -> dict[str, Any]:
        return {
            "format": RUNS_FORMAT,
            "version": VERSION,
            "rows": len(results),
            "of": tables.nouns_of(results),
            "outcomes": dict(outcomes.most_common()),
            "gpus": [
                {"names": _cut(names, characters), "rows": rows}
                for names, rows in gpus.most_common(_MOST_GPUS)
            ],
            "gpus_left_out": max(0, len(gpus) - _MOST_GPUS),
            "first": [_run(result, characters) for result in first[:most]],
            "rows_left_out": len(results) - min(most, len(first)),
            "table": str(table) if _is_short(str(table)) else None,
            "next": _next_of_runs(failed, ended),
        }

    return _fitting(packet, _ROW_SIZES)


def _run(result: RunResult, characters: int) -> dict[str, Any]:
    run = result.run
    texts = {
        "idle_cause": tables.text_of(result, "idle_cause"),
        "finding": tables.text_of(result, "finding"),
        "what": tables.text_of(result, "first_finding"),
        "message": run.message,
    }
    return {
        "name": _cut(run.label, characters),
        "rank": run.rank,
        "outcome": run.outcome,
        "busy_percent": _figure(tables.busy_percent(result)),
        "idle_cause_percent": _figure(tables.figures(result)["idle_cause_percent"]),
        **{name: _cut(text, characters) or None for name, text in texts.items()},
    }


def _next_of_runs(failed: Sequence[RunResult], ended: Sequence[RunResult]) -> list[dict[str, Any]]:
    commands: list[tuple[str, list[str]]] = []
    if failed:
        doctor = ["nsyswrap", "doctor", str(failed[0].run.path), "--format", "brief"]
        commands += [("why the first run failed", doctor)]
    if judged := [result for result in ended if tables.busy_percent(result) is not None]:
        report = ["nsyswrap", "report", str(judged[0].run.path), "--format", "brief"]
        commands += [("the run with the least busy GPU", report)]
    return [{"why": why, "argv": argv} for why, argv in commands if _is_short(argv)]


def _is_short(value: object) -> bool:
    return len(json.dumps(value)) <= _MOST_COMMAND_BYTES
