"""The one model of a timeline's lanes: the page, the plots and the trace for Perfetto draw what is in it.

``owners`` names GPUs, streams and threads. ``lanes`` puts events into lanes. ``packing`` parts those that
overlap.
"""
