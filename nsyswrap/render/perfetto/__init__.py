"""Export a capture as Chrome trace events, which Perfetto and chrome://tracing show as a timeline.

``compose`` decides what the trace contains. ``write`` and ``stream`` write it block by block.
"""

from nsyswrap.render.perfetto.trace import Trace, compose, stream, write

__all__ = ["Trace", "compose", "stream", "write"]
