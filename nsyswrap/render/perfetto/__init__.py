"""Export captures as a timeline: Perfetto's own format, or Chrome trace events in JSON.

``compose`` decides what the trace contains. ``write`` and ``stream`` write it block by block.
"""

from nsyswrap.render.perfetto.files import FORMATS, format_of, stream, write
from nsyswrap.render.perfetto.trace import Trace, compose

__all__ = ["FORMATS", "Trace", "compose", "format_of", "stream", "write"]
