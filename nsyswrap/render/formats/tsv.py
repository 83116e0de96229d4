"""TSV: the cells of CSV separated by tabs, to paste into a spreadsheet."""

from __future__ import annotations

from functools import partial

from nsyswrap.render.formats import Format
from nsyswrap.render.formats.csv import in_blocks

FORMAT = Format(partial(in_blocks, delimiter="\t", ending="tsv"), one_table=True)
