"""Errors, units, text, files and the run folder. This package imports nothing else of nsyswrap."""
