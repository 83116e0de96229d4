"""Plans: the programs or scenarios of a batch, with their parameters and repeats.

A plan is read from a file (``read_plan``) or typed (``sweep``). Its runs are all combinations of the
parameters of its blocks. In a command line, or in the value of an environment variable, ``{name}`` stands for
the value of a parameter; a word stays one word. Relative paths count from the current folder.
"""

from nsyswrap.record.batch.plan.expand import Plan, RunsEntry
from nsyswrap.record.batch.plan.make_plan import checked_settings, read_plan, sweep

__all__ = ["Plan", "RunsEntry", "checked_settings", "read_plan", "sweep"]
