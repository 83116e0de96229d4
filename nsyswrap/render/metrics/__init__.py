"""Metrics of runs as text for other programs. A format is a file here, and a line in ``FORMATS``."""

from __future__ import annotations

from nsyswrap.render.metrics import github_benchmark, openmetrics

FORMATS = {"openmetrics": openmetrics.render, "github-benchmark": github_benchmark.render}

__all__ = ["FORMATS"]
