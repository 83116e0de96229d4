"""Hypothesis with the same examples in every run, and nothing left behind in the checkout."""

from __future__ import annotations

import atexit
import shutil
import tempfile

from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

# From the collection of tests on it keeps what it has seen of the modules there are.
_home = tempfile.mkdtemp(prefix="hypothesis-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
set_hypothesis_home_dir(_home)

FIXED = settings(derandomize=True, deadline=None, database=None)
FILES = settings(FIXED, max_examples=min(30, FIXED.max_examples))  # for tests that write an export for each
