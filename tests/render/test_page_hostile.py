"""Names with markup, scripts or formulas appear on the page as plain names."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tiny_export import call, diagnostic, kernel, nvtx, opened, row

from nsyswrap.render.page import render
from nsyswrap.render.page.html import plain

if TYPE_CHECKING:
    from browser import Visit

pytest_plugins = ("browser",)
HOSTILE = (
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 1</script>",
    "<!--<script>",
    "\"><img src=x onerror='window.pwned = 1'>",
    '\'" onmouseover="window.pwned = 1" x=\'',
    "&lt;b&gt; &amp; <b>bold</b>",
    "</code></details></table><h1>taken over</h1>",
    '=HYPERLINK("http://other"),a',
    "javascript:pwned=1",
    "kernel 🚀 漢字 \u05d0\u05d1\u05d2 \u202etxt.exe\u202c",
    "zero\x00bell\x07newline\nend",
    "x" * 1500 + "<i>",
)


def hostile_page(folder: Path) -> Path:
    rows = []
    for i, name in enumerate(HOSTILE):
        begin = 1000 * i
        rows += [
            call("cudaLaunchKernel", begin, begin + 10, i + 1),
            kernel(name, begin + 20, begin + 900, i + 1),
        ]
        rows += [nvtx(name, begin, begin + 950), diagnostic(name)]
    rows.append(row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value=HOSTILE[0]))
    rows.append(row("TARGET_INFO_GPU", id=0, name=HOSTILE[3]))
    rows.append(row("ThreadNames", nameId=HOSTILE[1], priority=20, globalTid=72057595715747940))
    path = folder / "hostile.html"
    path.write_text(render({HOSTILE[3]: opened(folder, *rows)}), encoding="utf-8")
    return path


def test_hostile_names_are_names(tmp_path: Path, visit: Visit) -> None:
    page = visit(hostile_page(tmp_path))
    names = page.evaluate("[...document.querySelectorAll('#kernels code')].map(code => code.textContent)")
    assert set(names) == set(map(plain, HOSTILE))
    assert page.locator("h1").all_inner_texts() == [HOSTILE[3]]
    assert page.locator("img, #kernels b, #kernels i").count() == 0
    page.locator("article.timeline .picture canvas").focus()
    for key in ("ArrowDown", *("n" for _ in HOSTILE)):
        page.keyboard.press(key)
        page.locator("article.timeline .picture canvas").hover()
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert page.evaluate("document.documentElement.scrollWidth") == 1280


def test_a_spreadsheet_gets_no_formula(tmp_path: Path, visit: Visit) -> None:
    page = visit(hostile_page(tmp_path))
    page.locator("#kernels details.numbers > summary").first.click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name=re.compile("Save CSV of all .* kernels")).click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    names = {line["name"] for line in csv.DictReader(io.StringIO(text))}
    assert f"'{HOSTILE[7]}" in names
    assert names - {f"'{HOSTILE[7]}"} == {plain(name) for name in HOSTILE} - {HOSTILE[7]}
