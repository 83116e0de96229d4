"""When a process loads modules or compiles."""

from pathlib import Path

import numpy as np
from tiny_export import call, global_id, kernel, opened, row

from nsyswrap.analysis.steps import loading
from nsyswrap.capture.schema import QUEUE_FULL


def test_loading_counts_once_and_in_the_process(tmp_path: Path) -> None:
    thread = global_id(100, 100)
    overhead = {"globalTid": thread, "nameId": "overhead"}
    rows = [
        *(call("cuModuleLoadData", 10, 40), call("cuLibraryLoadData", 30, 50, tid=101)),
        row("CUPTI_ACTIVITY_KIND_OVERHEAD", start=45, end=70, overheadType=2, **overhead),
        row("CUPTI_ACTIVITY_KIND_OVERHEAD", start=80, end=90, overheadType=1, **overhead),
        row("CUPTI_ACTIVITY_KIND_OVERHEAD", start=100, end=190, overheadType=QUEUE_FULL, **overhead),
        *(call("cuModuleLoadData", 200, 300, pid=200), call("cudaMalloc", 60, 95)),
    ]
    whole = opened(tmp_path, *rows, kernel("k", 0, 5)).whole
    assert loading(whole, global_id(100)).length == 60
    assert loading(whole, global_id(100)).within(np.array([20]), np.array([48])).tolist() == [28]
    assert loading(whole, global_id(200)).length == 100
