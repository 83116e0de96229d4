"""``nsyswrap export``: a capture as a timeline for Perfetto, its events as Parquet, or runs as metrics."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import (
    UNREADABLE,
    CommandHint,
    NotInCapture,
    OutputError,
    UnreadCapture,
    UsageError,
    exit_code_of,
    not_read,
    nothing_read,
)
from nsyswrap.base.files import write
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import counted, printable
from nsyswrap.cli.folders import are_ranks, captures_in, listed
from nsyswrap.cli.help import HelpCommand, option
from nsyswrap.cli.options import (
    OUTPUT,
    PATH,
    PATH_OR_STDOUT,
    captures_argument,
    check_ending,
    newest_capture,
    note_replaced,
    opener,
    output_option,
    selection_options,
)
from nsyswrap.cli.output import data_stream, note, note_not_read, note_remarks, print_data, step, writing_step

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture

with lazy_imports():
    from nsyswrap.analysis import nvtx_ranges
    from nsyswrap.analysis.compare import run_figures
    from nsyswrap.analysis.ranks import members
    from nsyswrap.capture import schema
    from nsyswrap.capture import selection as selections
    from nsyswrap.render import perfetto as perfetto_trace
    from nsyswrap.render import text_exports
    from nsyswrap.render.formats import parquet as parquet_events
    from nsyswrap.reports.compare import sides
    from nsyswrap.reports.runs import metrics as run_metrics
    from nsyswrap.reports.wording import notes as wording

METRICS = ("openmetrics", "github-benchmark")
FORMS = ("perfetto", "json")


@click.command(
    cls=HelpCommand,
    examples=(
        "nsyswrap export run1 --perfetto run1.pftrace.gz",
        "nsyswrap export run1 run2 --metrics openmetrics -o gpu.prom",
    ),
)
@captures_argument
@option(OUTPUT, "--perfetto FILE", "Write a timeline; - is stdout, .gz compresses.", type=PATH_OR_STDOUT)
@option(OUTPUT, "--format FORMAT", "perfetto or json; by default json for .json.", name="form", choices=FORMS)
@option(OUTPUT, "--parquet DIR", "Write the events of each kind to DIR/<kind>.parquet.", type=PATH)
@option(OUTPUT, "--flamegraph FILE", "Write GPU time by NVTX range as folded stacks.", type=PATH_OR_STDOUT)
@option(
    OUTPUT, "--metrics FORMAT", "Write the main figures: openmetrics or github-benchmark.", choices=METRICS
)
@output_option("Write the metrics to FILE, not to stdout.", metavar="FILE")
@option(OUTPUT, "--force", "Replace the files of an earlier export.")
@selection_options("no")
def command(
    captures: Sequence[Path],
    *,
    perfetto: Path | None,
    form: str | None,
    parquet: Path | None,
    flamegraph: Path | None,
    metrics: str | None,
    output: Path | None,
    selection: selections.Selection,
    force: bool,
) -> None:
    """Write a capture for Perfetto or as Parquet, or the metrics of runs.

    CAPTURE is a run folder, a .sqlite or .nsys-rep file, or a parquetdir or arrowdir folder; by default the
    newest run. Open the timeline in ui.perfetto.dev. Several captures, or the folder of a job's ranks, give
    one timeline with aligned clocks. In JSON, for speedscope and chrome://tracing, slices have name, time and
    lane only. Open the flame graph in speedscope: it is the tree of report nvtx_tree. The Parquet files have
    the columns of Capture.events(). Messages on stderr list all that was written and left out.

    Metrics are medians of equal runs: give several captures, the folder of runs, or a baseline.
    """
    outputs = {"perfetto": perfetto, "flamegraph": flamegraph, "output": output}
    _check_outputs(captures, outputs, parquet=parquet, metrics=metrics)
    check_ending(perfetto, (".json",), "the timeline of Perfetto ends in .pftrace, .pftrace.gz or .json")
    check_ending(flamegraph, (".txt",), "name a .txt file: speedscope draws the folded stacks in it")
    check_ending(output, (".json",) if metrics == METRICS[1] else (".txt",))
    if form is not None and perfetto is None:
        raise UsageError("--format is for --perfetto", "add --perfetto FILE")
    if perfetto is not None and _is_stdout(perfetto) and form != "json" and sys.stdout.isatty():
        raise UsageError("the timeline is binary", "use --perfetto FILE, or --format json")
    written = [path for path in outputs.values() if path is not None and not _is_stdout(path)]
    taken = [path for path in written if paths.is_taken(path) and paths.is_file(path)]
    taken += [parquet] if parquet is not None and paths.is_filled(parquet) else []
    if taken and not force:
        raise OutputError(f"{taken[0]} already exists", "use --force to replace it, or use another name")
    given = captures or (newest_capture(),)
    left_out: list[UnreadCapture] = []
    if (perfetto, parquet, flamegraph) != (None, None, None):
        opened, left_out = _opened(_places(given, several=parquet is None), selection)
        selected, labels = list(opened.values()), list(opened)
        if perfetto is not None:
            _write_trace(selected, labels, perfetto, form)
        if flamegraph is not None:
            _write_flamegraph(selected, labels, flamegraph)
        if parquet is not None:
            _write_events(selected[0], parquet)
    if metrics is not None:
        left_out += _write_metrics(given, metrics, output, selection)
    sys.exit(exit_code_of(left_out))


def _check_outputs(
    captures: Sequence[Path], outputs: Mapping[str, Path | None], *, parquet: Path | None, metrics: str | None
) -> None:
    given = [outputs["perfetto"], outputs["flamegraph"], parquet, metrics]
    if outputs["output"] is not None and metrics is None:
        raise UsageError(
            "--output is for --metrics",
            "add --metrics FORMAT, or use --perfetto FILE, --flamegraph FILE or --parquet DIR",
        )
    if given == [None] * len(given):
        raise UsageError(
            "no output is named", "use --perfetto FILE, --flamegraph FILE, --parquet DIR or --metrics FORMAT"
        )
    if len(captures) > 1 and parquet is not None:
        raise UsageError(
            f"--parquet takes one capture, {len(captures)} given", "the other outputs take several"
        )
    streams = [name for name, path in outputs.items() if path is not None and _is_stdout(path)]
    if metrics is not None and outputs["output"] is None:
        streams.append("output")
    if len(streams) > 1:
        titles = {"perfetto": "the timeline", "flamegraph": "the flame graph", "output": "the metrics"}
        one, other = (titles[name] for name in streams[:2])
        raise UsageError(f"{one} and {other} cannot both go to stdout", "use a file for one of them")


def _places(given: Sequence[Path], *, several: bool) -> list[members.RankLocation]:
    """Return the captures to write. A folder stands for the ranks in it."""
    inside = captures_in(given)
    if len(inside) > len(given) and not (several and are_ranks(inside, given)):
        command = ["nsyswrap", "export", *map(str, inside[: 2 if several else 1])]
        raise UsageError(
            f"{listed(given)} holds {len(inside)} captures{', not ranks of one launch' if several else ''}",
            f"{CommandHint.of(command)} ..." if several else CommandHint.of([*command, "--parquet", "DIR"]),
        )
    return members.places(inside) if len(inside) > 1 else [members.RankLocation(inside[0], "")]


def _is_stdout(path: Path) -> bool:
    return str(path) == "-"


def _opened(
    places: Sequence[members.RankLocation], selection: selections.Selection, *, shared: bool = False
) -> tuple[dict[str, Capture], list[UnreadCapture]]:
    """Open captures. Return them by label, and those that cannot be read, which are named on stderr.

    Raises the error of a single one, and NotACapture if none can be read.
    """
    captures, left_out = {}, []
    for place in places:
        try:
            captures[place.label] = _open_selected(place.path, selection, shared=shared)
        except UNREADABLE as error:
            if len(places) == 1:
                raise
            left_out.append(not_read(place.label, place.path, error))
    note_not_read(left_out)
    if not captures:
        raise nothing_read(left_out)
    return captures, left_out


def _open_selected(path: Path, selection: selections.Selection, *, shared: bool = False) -> Capture:
    capture = opener(selection, shared=shared)(path)
    note_remarks(path, capture.remarks)
    if capture.selected:
        note(f"nsyswrap: selected: {capture.selected}")
    return capture


def _write_trace(captures: Sequence[Capture], labels: Sequence[str], path: Path, form: str | None) -> None:
    form = form or perfetto_trace.format_of(path)
    with writing_step(f"writing {path} …", to_stdout=_is_stdout(path)):
        trace = perfetto_trace.compose(*captures, labels=labels)
        if _is_stdout(path):
            perfetto_trace.stream(trace, data_stream(), form)
        else:
            perfetto_trace.write(trace, path, form)
    if form == "json":
        trace.leave_out_arrows()
    note(f"wrote {'stdout' if _is_stdout(path) else path}: {', '.join(trace.contents())}")
    if trace.left_out:
        note(f"left out: {'; '.join(trace.left_out)}")
    for text in trace.notes:
        note(f"nsyswrap: {text}")


def _write_flamegraph(captures: Sequence[Capture], labels: Sequence[str], path: Path) -> None:
    for capture in captures:
        capture.whole.columns("nvtx", "start_ns")  # without ranges there is no tree: says what collects them
        capture.whole.columns("api", "start_ns")
    with writing_step(f"writing {path} …", to_stdout=_is_stdout(path)):
        content = text_exports.folded(captures, labels)
    if not content:
        raise NotInCapture(
            "no kernels in the selection", "select more of the capture", source=captures[0].source
        )
    if _is_stdout(path):
        print_data(content)
    else:
        write(path, content)
    for text in wording.note_texts(
        one for capture in captures for one in nvtx_ranges.moved_notes(capture.whole)
    ):
        note(f"nsyswrap: {text}")
    lines = content.count("\n")
    note(f"wrote {'stdout' if _is_stdout(path) else path}: {counted(lines, 'stacks')} of GPU time in ns")


def _write_events(capture: Capture, folder: Path) -> None:
    with step(f"writing {folder} …"):
        rows = parquet_events.write(capture, folder)
    held = ", ".join(counted(count, schema.EVENTS[kind].title) for kind, count in rows.items())
    note(f"wrote {counted(len(rows), 'Parquet files')} to {folder}/: {held}")


def _write_metrics(
    given: Sequence[Path], name: str, output: Path | None, selection: selections.Selection
) -> Sequence[UnreadCapture]:
    source = sides.source_of(given, note=lambda text: note(f"nsyswrap: {text}"))
    if selection == selections.EVERYTHING:
        side = sides.load(source, lambda text: note(f"nsyswrap: {text}"))
    elif source.baseline:
        raise UsageError(f"{source.baseline}: no part of a baseline can be selected", "use its captures")
    else:
        for run in source.left_out:
            note(f"nsyswrap: left out: {printable(run.named)}")
        places = [members.RankLocation(run.path, run.label) for run in source.runs]
        opened, left_out = _opened(places, selection, shared=True)
        runs = [run_figures.run_figures(capture, label) for label, capture in opened.items()]
        note_replaced(opened.values())
        side = sides.of_runs(source.name, runs, (*source.left_out, *left_out))
    found = run_metrics.metrics_of(side)
    content = text_exports.FORMATS[name](found)
    if output is None or _is_stdout(output):
        print_data(content)
    else:
        write(output, content)
    samples = sum(len(family.samples) for family in found.families)
    where = "stdout" if output is None or _is_stdout(output) else output
    note(f"wrote {where}: {counted(samples, 'metrics')} of {counted(found.runs, 'runs')}")
    for text in found.notes:
        note(f"nsyswrap: {text}")

    return side.left_out
