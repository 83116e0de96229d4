"""Modules that a profiled program imports: ``measure``, clocks, and the frame of a scenario's script."""
