"""Adds the version with its commit to the wheel and the sdist, for ``nsyswrap/base/version.py``.

hatchling runs this, see pyproject.toml. An editable install reads the version from its checkout. The wheel of
an sdist has the file of the sdist.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface[Any]):
    """Adds one file to what is built."""

    folder = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file; ``version`` is that of the target: ``standard`` or ``editable``."""
        built = self.config["built"]
        if version == "editable" or Path(self.root, built).exists():
            return
        self.folder = tempfile.mkdtemp()
        path = Path(self.folder, "version")
        path.write_text(f"{self.metadata.version}\n", encoding="utf-8")
        build_data["force_include"][str(path)] = built

    def finalize(self, *_: Any) -> None:
        """Remove the temporary file."""
        if self.folder:
            shutil.rmtree(self.folder)
