"""The answer for programs: a line of JSON for each capture, of at most 4 kB."""

from __future__ import annotations

from nsyswrap.render.formats import Document, Format, Layout
from nsyswrap.reports.brief import as_text, brief_of, refusal


def render(document: Document, _: Layout) -> dict[str, str]:
    """Return the packets of the captures; one that cannot be read has an error in place of an answer."""
    packets = [brief_of(capture) for capture in document.captures.values()]
    packets += [refusal(one.path, one.text) for one in document.not_read]
    return {"brief.json": "".join(f"{as_text(packet)}\n" for packet in packets)}


FORMAT = Format(render, has_envelope=True, without_reports=True)
