"""Plans: which programs or scenarios to run, with which parameters, how often, and where.

A plan is read from a file (``read_plan``) or typed (``sweep``). Its runs are all combinations of the
parameters of its blocks; ``{name}`` in a command line, or in the value of an environment variable, is
replaced by the value of that parameter, and what was one word stays one word. Relative paths count from the
folder where the plan is read, as they do in a shell.
"""

from nsyswrap.record.batch.plan.expand import Plan
from nsyswrap.record.batch.plan.plan_file import read_plan
from nsyswrap.record.batch.plan.sweep import sweep

__all__ = ["Plan", "read_plan", "sweep"]
