"""``nsyswrap report``: what is in captures, as one screen or as reports in any format.

``command`` parses (``_parse``), plans (``_plan``: all that can be checked before a capture is opened), and
shows in one of four ways:

- alone: what --explain, --list and --ncu ask for, which need no report (``_show_alone``)
- by rank: all captures together (``_show_ranks``)
- a screen for each capture, or one for repeated runs (``_show_screens``)
- tables: one after the other where a format can be written so, else as one Document (``_write_tables``)

Results go to stdout or into files by ``_emit``, notes to stderr. A capture that cannot be read is left out,
the others are shown, and the exit code says so.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nsyswrap.base.errors import CommandHint, NotInCapture, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.text import ascii_layout, counted, printable
from nsyswrap.cli.help import HelpCommand, option
from nsyswrap.cli.options import (
    OUTPUT,
    PATH,
    SHOW,
    captures_argument,
    check_ending,
    csv_option,
    csv_safe_option,
    explain_option,
    is_given,
    newest_capture,
    note_replaced,
    open_all,
    report_option,
    selection_options,
    steps_option,
    top_option,
    written_option,
)
from nsyswrap.cli.output import (
    check_made,
    make_tables,
    note,
    note_selection,
    note_silence,
    print_data,
    report_command,
    say,
    summary_text,
    tables_in_turn,
    write_csv,
    writing_step,
)
from nsyswrap.render import formats

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.capture.capture import Capture
    from nsyswrap.cli.report_options import ReportOptions
    from nsyswrap.reports.table import Table

with lazy_imports():
    import dataclasses
    import pathlib

    from nsyswrap import reports
    from nsyswrap.analysis import nearby
    from nsyswrap.base import errors, files, paths, recent_runs
    from nsyswrap.cli import explain, folders, ncu, repeats, report_options, report_ranks
    from nsyswrap.render import names, summary_screen
    from nsyswrap.render.formats import text as text_format
    from nsyswrap.reports import answer, ranks, summary

_OF_ANY_CAPTURE = "nsyswrap report CAPTURE -"  # in a line of code of the advice
_UNSET: dict[str, Any] = {"readable": False, "top": None}
_MOST_NAMES = 3  # of reports, in a note
_MOST_OPEN = 500  # captures of a folder: each is an open file, and many systems allow 1,024
_SCREENS = 5  # of the captures in a folder


@click.command(
    cls=HelpCommand,
    examples=("nsyswrap report run1 run2 -r cuda_gpu_kern_sum --match '*gemm*' -o k.csv",),
    other_options={
        **dict.fromkeys(("--filter", "--grep", "--kernel"), "--match"),
        **dict.fromkeys(("--head", "--limit"), "--top"),
        "--json": "--format=json",
    },
)
@captures_argument
@report_option
@option(SHOW, "--advice", "Say what to change, the largest saving first (-r advice).")
@option(SHOW, "--by", "Show reports by rank, and compare the ranks.", choices=["rank"])
@top_option
@option(SHOW, "--sort COLUMN", "Order rows by this column; -COLUMN: upwards.", default="")
@option(SHOW, "--match GLOB", "Show rows with such a name: '*gemm*'.", default="")
@option(SHOW, "--list", "List available reports, and the events that others lack.", name="listing")
@explain_option
@option(
    SHOW, "--ncu [KERNEL]", "Print the command of Nsight Compute for a kernel.", is_flag=False, flag_value=""
)
@selection_options("yes; nsys' reports: no")
@steps_option
@option(
    OUTPUT,
    "--names FORM",
    "Write kernel names in full, base or mangled form.",
    choices=["full", "base", "mangled"],
    default="full",
)
@option(OUTPUT, "--nvtx-names", "Put the innermost NVTX range before each kernel name.")
@option(OUTPUT, "--readable", "Shorten kernel names for reading; #1, #2 tell them apart.")
@option(OUTPUT, "--classes FILE", "Classify kernels by the rules in this TOML file first.", type=PATH)
@option(
    OUTPUT,
    "--timeunit UNIT",
    "Write times in auto, ns, us, ms or s; JSON stays in ns.",
    name="time_unit",
    choices=["auto", "ns", "us", "ms", "s"],
    default="auto",
)
@option(
    OUTPUT,
    "--rounding ERA",
    "Match CSV of nsys 2025, or legacy: of 2024 and older.",
    choices=["2025", "legacy"],
    default="2025",
)
@option(
    OUTPUT,
    "--format FORMAT",
    f"Write {', '.join(formats.NAMES[:-1])} or {formats.NAMES[-1]}.",
    name="form",
    choices=formats.NAMES,
    default="text",
    elsewhere={
        "html": "nsyswrap view writes a page",
        **dict.fromkeys(("png", "svg", "pdf"), "nsyswrap plot draws pictures"),
    },
)
@written_option
@csv_option(OUTPUT)
@option(OUTPUT, "--like-nsys", "Name files as nsys, by --csv PREFIX.")
@csv_safe_option
def command(**values: Any) -> None:
    """Show captures: one screen, or reports in any format.

    CAPTURE is a run folder or any file of nsys; by default the newest run.
    """
    options = _parse(values)
    sys.exit(_show_alone(options) if options.stands_alone else _show(_plan(options)))


def _parse(values: dict[str, Any]) -> ReportOptions:
    """Return what is asked for, by the options and by the user's settings."""
    values |= _with_more_reports(values["captures"], values["reports"])
    values["form"] = _form(values["output"], values["form"])
    options = report_options.ReportOptions(**values)
    if options.format.for_people:
        return options
    # the user's settings are not about files for programs
    return dataclasses.replace(
        options, **{name: value for name, value in _UNSET.items() if _is_setting(name)}
    )


def _with_more_reports(captures: Sequence[Path], named: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return captures and reports: behind ``-r A`` also B is a report, unless there is such a file.

    Raises UsageError for the name of a report without ``-r``.
    """
    known = {*(["all"] if named else []), *reports.NAMES, *ranks.NAMES}
    more = [path for path in captures if str(path).partition(":")[0] in known and not paths.exists(path)]
    others = tuple(path for path in captures if path not in more)
    if more and not named:
        raise UsageError(
            f"{more[0]} is a report, not a capture",
            CommandHint.of(["nsyswrap", "report", *others, "-r", ",".join(map(str, more))], "use {}"),
        )
    return {"captures": others, "reports": (*named, *map(str, more))}


def _form(output: Path | None, form: str) -> str:
    if output is None or is_given("form"):
        return form
    check_ending(output, formats.ENDINGS)
    return formats.ENDINGS.get(output.suffix.lower(), form)


def _is_setting(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP


class ReportPlan(NamedTuple):
    """What is shown: ``requests`` of the captures of ``options``, ``given`` as files or folders."""

    options: ReportOptions
    given: Sequence[Path]
    requests: Sequence[reports.ReportRequest]

    @property
    def shows_screens(self) -> bool:
        """True if each capture is shown as a screen."""
        return self.options.is_screen and not self.options.csv_folder


def _plan(options: ReportOptions) -> ReportPlan:
    """Check what is asked for, and note what of it makes no difference. No capture is opened."""
    given, options = options.captures, options.with_folders_opened()
    if options.rank_reports and not options.by:
        note(f"nsyswrap: {options.rank_reports[0]} compares ranks: --by rank is assumed")
    options.check()
    plan = ReportPlan(options, given, options.requests)
    _note_whole_files(options)
    _note_unchosen_steps(options, plan.requests)
    return plan


def _show(plan: ReportPlan) -> int:
    options, given = plan.options, plan.given
    if options.by_rank:
        return _show_ranks(plan)
    if plan.shows_screens and not options.output and len(given) == 1 and recent_runs.repeats_in(given[0]):
        return repeats.show(given[0], options.opener())
    if not plan.shows_screens:
        advice = CommandHint.of(["nsyswrap", "collect", *given], "{} writes the tables of all")
        folders.check_number(options.captures, given, _MOST_OPEN, "report reads", advice)
    limit = _SCREENS if plan.shows_screens and any(map(folders.is_folder, given)) else None
    captures, left_out = open_all(options.captures[:limit], options.opener(), as_screens=plan.shows_screens)
    if plan.shows_screens:
        _show_screens(captures.values(), options)
        if more := options.captures[limit or len(options.captures) :]:
            note(f"nsyswrap: not shown: {folders.listed(more)}")
            note(f"  name those to show, or compare all: nsyswrap collect {shlex.join(map(str, given))}")
    elif captures:
        named = [request.report.schema.name for request in plan.requests]
        if options.begins_with_answer or options.format.without_reports or named == ["advice"]:  # as a screen
            captures = {label: nearby.near_window(capture) for label, capture in captures.items()}
        _write_tables(captures, plan, left_out)
        note_replaced(captures.values())
    return errors.exit_code_of(left_out)


def _note_whole_files(options: ReportOptions) -> None:
    if options.csv_folder and options.readable and not _is_setting("readable"):
        note("nsyswrap: --readable does not change names in the files of --csv")
    if options.csv_folder and options.top and not _is_setting("top"):
        note("nsyswrap: --top does not limit the files of --csv")


def _note_unchosen_steps(options: ReportOptions, requests: Sequence[reports.ReportRequest]) -> None:
    if not options.steps or not options.named_reports or _is_setting("steps"):
        return
    names = [request.report.name for request in requests if not request.report.judges_steps]
    if names:
        listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        note(f"nsyswrap: --steps selects no rows of {listed}\n  use --time to select a part of the capture")


def _write_tables(
    captures: Mapping[str, Capture], plan: ReportPlan, left_out: Sequence[errors.UnreadCapture]
) -> None:
    options, requests = plan.options, plan.requests
    if options.writes_in_turn:
        made = map(options.arranged, tables_in_turn(captures, requests, of_several=bool(left_out)))
        if options.like_nsys:
            _write_like_nsys(made, options, [request.report.name + request.suffix for request in requests])
        else:
            _write_in_turn(made, options)
        return
    selection, answers = options.selection, {}
    if options.begins_with_answer:  # the tables are of the same part, as on the screen
        selection = selection.decided(as_nsys=False)
        captures = {label: capture.decided() for label, capture in captures.items()}
        answers = {label: summary.answer_with_lines(capture) for label, capture in captures.items()}
    needs_one = not options.format.has_envelope
    tables, missing = make_tables(captures, requests, of_several=bool(left_out), needs_one=needs_one)
    _write(formats.Document(tables, captures, selection, missing, answers, left_out), plan)


def _show_ranks(plan: ReportPlan) -> int:
    options = plan.options
    members, left_out = report_ranks.opened(options.captures, options.opener())
    if left_out and len(members) == 1 and options.rank_reports:
        note(f"nsyswrap: {members[0].label} is the only rank that can be read: nothing to compare it with")
    elif members:
        captures = {member.label: member.capture for member in members}
        job = report_ranks.answer(members) if options.answers_job else None
        tables, missing = report_ranks.make(members, plan.requests, options.rank_reports)
        _write(
            formats.Document(tables, captures, options.selection, missing, not_read=left_out, job=job), plan
        )
        note_replaced(captures.values())
    return errors.exit_code_of(left_out)


def _show_alone(options: ReportOptions) -> int:
    options.check_alone()
    exit_code = 0
    if options.ncu is not None:
        ncu.check_kernel(options.ncu)
        (capture,) = options.captures or (newest_capture(),)
        text = ncu.command_text(options.opener()(capture), options.ncu)
    elif options.explain:
        text = (report_ranks if options.explain in ranks.NAMES else explain).explain(options.explain)
    else:
        text, exit_code = explain.listing(folders.captures_in(options.captures))
    _emit(text, options.output)
    return exit_code


def _show_screens(captures: Iterable[Capture], options: ReportOptions) -> None:
    for number, capture in enumerate(captures):
        if len(options.captures) > 1:
            heading = f"== {printable(str(capture.source))}"
            say(f"\n{heading}" if number else heading)
        in_file = options.output is not None
        text = summary_text(
            capture, options.layout, options=options.selecting, readable=options.readable, in_file=in_file
        )
        _emit(text, options.output)
        note_silence(capture, on_screen=not in_file)


def _write(document: formats.Document, plan: ReportPlan) -> None:
    options = plan.options
    if not options.format.has_envelope:
        check_made(document.tables, document.captures)
    prints_selection = options.prints_tables and (options.format.for_people or options.format.has_envelope)
    if not prints_selection:
        note_selection(document.tables)
    document = document._replace(tables=list(map(options.arranged, document.tables)))
    if options.csv_folder:
        write_csv(options.csv_folder, document.tables, options.layout)
    if not options.prints_tables:
        return
    with writing_step(f"writing {options.form} …", to_stdout=not options.output):
        document = document._replace(tables=[_for_program(table, options) for table in document.tables])
        if options.readable:
            document = document._replace(tables=names.readable_tables(document.tables))
        with ascii_layout(active=options.layout.ascii and options.form == "text"):
            contents = options.format.render(document, options.layout)
        if options.format.is_binary:
            _write_files(contents, options.output or pathlib.Path())
            return
        if options.form != "text":
            for_people = options.format.for_people
            _emit(formats.in_one(contents.values()), options.output, is_data=True, for_people=for_people)
            return
        left_out = [f"not read: {printable(capture.text)}" for capture in document.not_read]
        job = [_job_text(document.job[1], plan)] if document.job else []
        content = "\n".join([*(left_out if options.output else ()), *job, *map(str, contents.values())])
        if not options.output:
            sources = plan.given or [capture.source for capture in document.captures.values()]
            again = report_command(*sources, options=options.selecting)
            content = content.replace(_OF_ANY_CAPTURE, f"{again} -")
        _emit(content, options.output)


def _job_text(lines: Iterable[answer.AnswerLine], plan: ReportPlan) -> str:
    """Return the answer over all ranks; with the command that shows them again, but in a file."""
    options = plan.options
    if not options.output:
        command = report_command(
            *plan.given or options.captures, options=["--by", "rank", *options.selecting]
        )
        lines = answer.with_command(lines, command)
    return text_format.styled(
        summary_screen.answer_texts(lines, options.layout.width), color=options.layout.color
    )


def _write_in_turn(tables: Iterator[Table], options: ReportOptions) -> None:
    """Write each table before the next is made, into the folder of --csv or one after the other."""
    if options.csv_folder:
        write_csv(options.csv_folder, tables, options.layout)
    else:
        _emit(formats.in_one(_contents(tables, options)), options.output, is_data=True)


def _write_like_nsys(tables: Iterator[Table], options: ReportOptions, names: Sequence[str]) -> None:
    """Write the files of `nsys stats --format csv -o PREFIX`, empty ones for reports without a table."""
    prefix, missing = options.csv_folder or pathlib.Path(), set(names)
    paths.check_target(prefix.parent)
    try:
        while (table := next(tables, None)) is not None:
            (content,) = formats.find_format("csv").render(formats.Document([table]), options.layout).values()
            files.write(prefix.with_name(f"{prefix.name}_{table.label}.csv"), content, follow=False)
            missing.discard(table.label)
            del table, content
    except NotInCapture as error:  # nsys ends with 0
        note(f"nsyswrap: {error.message}")
    for name in missing:
        files.write(prefix.with_name(f"{prefix.name}_{name}.csv"), "", follow=False)
    note(f"wrote {counted(len(names), 'CSV files')} {prefix}_*.csv")


def _contents(tables: Iterator[Table], options: ReportOptions) -> Iterator[formats.Content]:
    while (table := next(tables, None)) is not None:
        document = formats.Document([_for_program(table, options)])
        contents = options.format.render(document, options.layout).values()
        del table, document  # or it would be there while the next is made
        yield from contents


def _for_program(table: Table, options: ReportOptions) -> Table:
    """Return the first rows of a table for a format that does not limit them itself, and print how many."""
    if options.top is None or options.format.for_people or len(table) <= options.top:
        return table
    first = table.first(options.top)
    rows = f"{len(first):,} of {len(table):,} rows (--top)"
    note(f"nsyswrap: {table.label}: {rows}")
    return dataclasses.replace(first, left_out=table.left_out, notes=(*table.notes, rows))


def _write_files(contents: Mapping[str, formats.Content], output: Path) -> None:
    is_file = len(contents) == 1 and output.suffix
    paths.check_target(output)
    for name, content in contents.items():
        path = output if is_file else output / name
        files.write(path, content, follow=bool(is_file))
        note(f"wrote {path}")


def _emit(
    content: str | Iterator[bytes], output: Path | None, *, is_data: bool = False, for_people: bool = False
) -> None:
    """Print the text, or write it to the file of ``-o``. Data can be for people, too, as Markdown is."""
    if output is not None:
        files.write(output, content)
        note(f"wrote {output}")
    elif is_data or not isinstance(content, str):
        print_data(content, for_people=for_people)
    else:
        say(content, styled=True)
