"""``nsyswrap --show-config``: the value of each setting, and where it came from."""

from __future__ import annotations

from nsyswrap.base import settings
from nsyswrap.cli.output import note


def show_config() -> str:
    """Return the settings as text, with the files that were looked for. Notes are printed."""
    values, notes = settings.current()
    for text in notes:
        note(f"nsyswrap: {text}")
    rows = [(key, _written(value.value), value.source) for key, value in values.items()]
    width = max(len(text) for _, text, _ in rows)
    lines = [f"{key:10}{text:{width}}  {source}" for key, text, source in rows]
    project, user = settings.project_file(), settings.user_file()
    absent = "" if user and settings.is_there(user) else " (not there)"
    lines += ["", f"{'project':10}{project or 'no pyproject.toml here or in the repository'}"]
    lines += [f"{'user':10}{user or 'no home folder'}{absent}"]
    return "\n".join(lines) + "\n"


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
