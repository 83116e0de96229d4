"""The answer of a capture as lines for people, and as data for programs."""

from nsyswrap.reports.answer.as_data import as_dict
from nsyswrap.reports.answer.line import WIDTH, Line, screen_texts, with_command
from nsyswrap.reports.answer.lines import answer_lines

__all__ = ["WIDTH", "Line", "answer_lines", "as_dict", "screen_texts", "with_command"]
