"""The words for notes on figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nsyswrap.analysis.finding import Note, Numbers
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.units import duration
from nsyswrap.reports.wording.numbers import Words, in_words

with lazy_imports():  # of what compares runs
    from nsyswrap.reports.wording import comparisons

HOW_TO_TELL = "trace OS runtime calls (nsyswrap profile --trace cuda,nvtx,osrt)"


def _overlapped(n: Numbers) -> str:
    how = "add NVTX ranges to that thread"
    how = how if n["has_osrt"] else f"{HOW_TO_TELL}, or {how}"
    return (
        f"ranges overlapped by GPU work of a thread without ranges: {n['ranges']}; this work is not counted, "
        f"as no wait for it is recorded; to tell, {how}"
    )


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


TEXTS: Mapping[str, Words] = {
    "not_judged": lambda n: f"Not judged: {note_text(n['reason'])}.",
    "no_processes": (
        "{title} of this export have no process id (globalPid); they are matched to API calls by correlation "
        "id alone"
    ),
    "negative_allocations": "allocations of a negative number of bytes are left out: {allocations:d}",
    "graphs_not_busy": (
        "whole-graph executions ({graphs}) do not count as busy, as in nsys; record their kernels with "
        "--cuda-graph-trace=node"
    ),
    "graphs_hide_kernels": (
        "whole-graph executions ({graphs}) hide their kernels and collectives; profile with --graphs node"
    ),
    "ranges_moved": (
        "NVTX ranges that ended on another thread than they began on: {ranges}; no GPU work is theirs"
    ),
    "ranges_open": ("NVTX ranges without an end: {ranges:d}; they end at the last NVTX event, as in nsys"),
    "domain_once_a_thread": (
        "several threads created the same NVTX domain; its ranges count once per thread, as in nsys"
    ),
    "domain_once": (
        "several threads created the same NVTX domain; its ranges count once; nsys fails on such a capture"
    ),
    "ranges_adopted": (
        "ranges with launches by other threads, as in PyTorch's backward: {ranges:d}; counted where the "
        "thread of the range waits for them"
    ),
    "ranges_overlapped": _overlapped,
    "many_threads": (
        "more than {pairs} pairs of threads with ranges and threads with calls: each launch counts "
        "for the thread that made it"
    ),
    "collective_alone": "collectives on only one rank are not matched: {name}",
    "collectives_uneven": (
        "{name}: {least:d} to {most:d} per rank; the first {least:d} are matched; this is wrong unless the "
        "last ones are missing"
    ),
    "collectives_uneven_doubt": "the ranks have {least:d} to {most:d} collectives {name}",
    "collectives_apart": (
        "{apart:d} of {of:d} collectives {name} are not at the same time on all ranks: not matched, possibly "
        "several communicators"
    ),
    "collectives_apart_doubt": "{apart:d} of {of:d} collectives {name} are not at the same time on all ranks",
    "selected_is_judged": "the selected part is judged",
    "all_is_judged": "all of it is judged",
    "no_launch_calls": "no GPU operation has a recorded launch call",
    "no_work_in_steps": "no GPU work in {label}",
    "no_such_range": lambda n: f"no NVTX range {n['name']!r} in this process",
    "nothing_repeats": "nothing that repeats holds 25 % of the launches",
    "holds_too_little": lambda n: (
        f"'{n['name']}' {'comes twice and ' if n['is_twice'] else ''}holds only "
        f"{100 * n['gpu']:.0f} % of the GPU time, {100 * n['time']:.0f} % of the time"
    ),
    "fewer_steps": "only {count:steps}",
    "too_few_steps": "{label} repeats too few times",
    "steps_vary": "{label} varies from {short_ns} to {long_ns}",
    "work_beside": lambda n: (
        f"another thread launches its own GPU work beside {n['label']}{': ' if n['ranges'] else ''}"
        + ", ".join(f"{count:,} x '{name}'" for count, name in n["ranges"])
    ),
    "several_updates": lambda n: (
        "each step has several updates of an optimizer: " + ", ".join(f"'{name}'" for name in n["names"])
    ),
    "steps_grow": lambda n: (
        f"steps {'grow' if n['last_ns'] > n['first_ns'] else 'shrink'} from {duration(n['first_ns'])} to "
        f"{duration(n['last_ns'])}"
    ),
    "names_alone": "range names on only one rank are not matched: {names:d}",
    "names_uneven": lambda n: (
        f"range {n['names'][0]!r}{_more(n['names'])}: the number of instances differs between ranks; the "
        "first ones are matched"
    ),
}


def note_text(note: Note | str) -> str:
    """Return a note in words. What is text stays as it is."""
    if isinstance(note, str):
        return note
    text = TEXTS[note.kind] if note.kind in TEXTS else comparisons.TEXTS[note.kind]
    return in_words(text, note.numbers)


def note_texts(notes: Iterable[Note | str]) -> tuple[str, ...]:
    """Return notes in words, each once, without empty ones."""
    return tuple(dict.fromkeys(filter(None, map(note_text, notes))))


def joined(notes: Iterable[Note | str]) -> str:
    """Return notes in one line of words."""
    return "; ".join(map(note_text, notes))


def joined_texts(groups: Iterable[Iterable[Note | str]]) -> tuple[str, ...]:
    """Return a line for each group of notes, each once, without empty ones."""
    return tuple(dict.fromkeys(filter(None, map(joined, groups))))
