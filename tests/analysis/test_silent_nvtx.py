"""A Python program whose package nvtx records no range under an older nsys: only domains are left."""

from pathlib import Path

import pytest
from diagnostics_found import found
from tiny_export import Row, call, domain, kernel, nvtx, opened, row

from nsyswrap.reports.summary import trust

TEXT = (
    "no NVTX ranges, only domains: possibly the package nvtx 0.2.12 or newer, which is silent under nsys 2024"
)
DOMAIN = domain("train", 1)


@pytest.mark.parametrize(
    ("nsys", "program", "events", "is_silent"),
    [
        ("2023.4.4.54", "python3", [DOMAIN], True),
        ("2024.2.3.38", "/opt/conda/bin/python", [DOMAIN, domain("train", 1, eventType=76)], True),
        ("2025.1.1.0", "python3", [DOMAIN], False),
        ("", "python3", [DOMAIN], False),
        ("2023.4.4.54", "./a.out", [DOMAIN], False),
        ("2023.4.4.54", "python3", [], False),
        ("2023.4.4.54", "python3", [DOMAIN, nvtx("step", 0, 50, domainId=1)], False),
    ],
)
def test_domains_without_ranges(
    tmp_path: Path, nsys: str, program: str, events: list[Row], *, is_silent: bool
) -> None:
    capture = opened(
        tmp_path,
        row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value=nsys),
        row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value=program),
        *(call("cudaLaunchKernel", 1, 5, 1), kernel("k", 10, 30, 1), *events),
    )
    assert (f"  {TEXT}" in trust(capture).remarks) is is_silent
    (level, _, _, meaning), *_ = found(capture, "NVTX ranges")
    assert (level == "warning") is is_silent
    assert str(meaning).startswith(TEXT) is is_silent
    assert str(meaning).endswith("pip install 'nvtx<0.2.12'") is is_silent
