"""The conclusion: obstacles first, then slower or not, the cause, the counts, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.text import without_folders
from nsyswrap.render.comparison import short_names
from nsyswrap.render.page.html import Section, element, section
from nsyswrap.reports.compare.conclusion import conclude, left_out_texts

if TYPE_CHECKING:
    from nsyswrap.analysis.compare.model import Comparison
    from nsyswrap.render.page.html import Markup

_CLASSES = {"slower": "slower", "faster": "faster"}
_DIFFER = "The sides differ in more than the change:"


def make(comparison: Comparison) -> Markup:
    """Return the conclusion in the words of the screen."""
    made = conclude(comparison, short_names(comparison))
    verdict, *others = made.lines
    heading, colon, rest = verdict.partition(":")
    level = _CLASSES.get(made.outcome, "")
    first = (element("b", heading, class_=level), colon, rest) if colon else (verdict,)
    left_out = [element("li", without_folders(text)) for text in left_out_texts(comparison)]
    obstacles = [element("li", without_folders(one.text)) for one in comparison.obstacles]
    return section(
        "conclusion",
        "Conclusion",
        element("p", "Left out:", class_="warning") if left_out else None,
        element("ul", *left_out, class_="changed warning") if left_out else None,
        element("p", _DIFFER, class_="warning") if obstacles else None,
        element("ul", *obstacles, class_="changed warning") if obstacles else None,
        element(
            "article",
            element("p", *first, class_="answer-verdict"),
            *(element("p", line) for line in (*others, *made.counts)),
            *(
                element("p", without_folders(f"Note: {remark}"), class_="note")
                for remark in comparison.remarks
            ),
            class_="tile answer",
        ),
    )


SECTION = Section("conclusion", "Conclusion", make)
