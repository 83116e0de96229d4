"""The pytest fixture ``gpu_profile``. pytest loads this file always, so it imports little.

It is here and not in ``cli``, whose package loads click.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nsyswrap.api.gpu_profile import Profiler


@pytest.fixture
def gpu_profile(request: pytest.FixtureRequest, tmp_path: Path) -> Profiler:
    """Profile a program or a function under nsys, in a process of its own.

    ``gpu_profile("train.py", "--steps", "3")`` or ``gpu_profile(function, *arguments)`` returns the profile:
    ``assert gpu_profile("train.py").kernels("add*").count == 10``. See docs/compare.md.
    """
    from nsyswrap.api import gpu_profile as profiles  # noqa: PLC0415 - pytest looks into a plugin's names

    return profiles.Profiler(tmp_path, request.path.parent, request.node)
