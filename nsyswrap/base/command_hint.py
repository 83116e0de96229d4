"""Hints that are a command: one source for the text that people read and the words that programs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.lazy import lazy_imports

with lazy_imports():
    import shlex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self


class CommandHint(str):
    """The hint of an error that names a command, whose words are ``argv``.

    Words in capitals, such as OUT, are for the user to replace.
    """

    __slots__ = ("argv",)
    argv: tuple[str, ...]

    @classmethod
    def of(cls, argv: Sequence[object], text: str = "{}") -> Self:
        """Return ``text`` with the command, quoted for a shell, in place of ``{}``."""
        words = tuple(map(str, argv))
        before, _, behind = text.partition("{}")
        hint = cls(f"{before}{shlex.join(words)}{behind}")
        hint.argv = words
        return hint
