"""The one model of a timeline's lanes: the page, the plots and the trace for Perfetto draw what is in it.

``names`` has names of GPUs, streams and threads, and styles. ``lanes`` puts events into lanes and parts those
that overlap. It also has the curves of what has a value over time.
"""
