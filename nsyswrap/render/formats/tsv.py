"""TSV: the cells of CSV separated by tabs, to paste into a spreadsheet."""

from __future__ import annotations

from functools import partial

from nsyswrap.render.formats import Format, csv

render = partial(csv.render, delimiter="\t", ending="tsv")

FORMAT = Format(partial(csv.in_blocks, delimiter="\t", ending="tsv"), one_table=True)
