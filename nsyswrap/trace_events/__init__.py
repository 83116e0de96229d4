"""A capture as Chrome trace events, which Perfetto and chrome://tracing show as a timeline.

``compose`` says what is in the trace, ``write`` writes it, block by block.
"""

from nsyswrap.trace_events.trace import Trace, compose
from nsyswrap.trace_events.writer import write

__all__ = ["Trace", "compose", "write"]
