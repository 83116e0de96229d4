"""The GPUs of this machine, asked for once: each question is a process. And the marks of tests on them."""

import pytest

from nsyswrap.record import gpus

DEVICES = gpus.query()
NO_GPU = DEVICES.error
needs_gpu = pytest.mark.skipif(bool(NO_GPU), reason=f"needs a GPU: {NO_GPU}")
ON_A_GPU = [pytest.mark.gpu, pytest.mark.nsys, needs_gpu]
