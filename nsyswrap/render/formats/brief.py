"""The answer for programs: a line of JSON of at most 4 kB for each capture, or for all ranks of a job."""

from __future__ import annotations

from nsyswrap.render.formats import Document, Format, Layout
from nsyswrap.reports.brief import as_text, brief_of, brief_of_ranks, refusal


def render(document: Document, _: Layout) -> dict[str, str]:
    """Return the packets of the captures; one that cannot be read has an error in place of an answer."""
    captures = list(document.captures.values())
    if document.job:
        packets = [brief_of_ranks(captures, document.job[0])]
    else:
        packets = [brief_of(capture) for capture in captures]
    packets += [refusal(one.path, one.text) for one in document.not_read]
    return {"brief.json": "".join(f"{as_text(packet)}\n" for packet in packets)}


FORMAT = Format(render, has_envelope=True, without_reports=True)
