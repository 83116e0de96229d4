"""The answer of a capture as lines for people, and as data for programs."""

from nsyswrap.reports.answer.as_data import as_dict
from nsyswrap.reports.answer.line import WIDTH, AnswerLine, screen_texts, with_command
from nsyswrap.reports.answer.lines import answer_lines

__all__ = ["WIDTH", "AnswerLine", "answer_lines", "as_dict", "screen_texts", "with_command"]
