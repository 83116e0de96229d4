"""What API calls are there for, by their names."""

from pathlib import Path

import pytest
from tiny_export import call, opened

from nsyswrap.analysis.names import CLASSES, call_class, call_classes


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("launch", "cudaLaunchKernel_v7000 cudaLaunchKernelExC_v11060 cudaLaunchCooperativeKernel"),
        ("launch", "cuLaunchKernel cuLaunchKernelEx_ptsz cuLaunchGrid cudaGraphLaunch_v10000 cuGraphLaunch"),
        ("synchronise", "cudaDeviceSynchronize_v3020 cudaStreamSynchronize cudaEventSynchronize"),
        ("synchronise", "cuCtxSynchronize cuStreamSynchronize_ptsz cudaThreadSynchronize"),
        ("allocate", "cudaMalloc_v3020 cudaMallocManaged_v6000 cudaMallocAsync cudaFree cudaFreeHost"),
        ("allocate", "cudaHostAlloc cudaHostRegister cuMemAlloc_v2 cuMemFree_v2 cuMemHostAlloc cuMemCreate"),
        ("allocate", "cuMemMap cuMemUnmap cuMemAddressReserve cuMemSetAccess cudaMemPoolCreate_v11020"),
        ("allocate", "cudaMallocArray cuArrayCreate_v2 cuArray3DCreate_v2 cuMipmappedArrayDestroy"),
        (
            "load",
            "cuInit cuModuleLoadData cuLibraryLoadData cuLinkComplete cuKernelGetFunction cudaSetDevice",
        ),
        (
            "load",
            "cuCtxCreate_v2 cuDevicePrimaryCtxRetain cudaInitDevice cudaDeviceReset cudaFuncGetAttributes",
        ),
        (
            "load",
            "cuModuleGetFunction cuModuleUnload cuLibraryGetKernel cuFuncLoad cuDevicePrimaryCtxReset_v2",
        ),
        ("copy", "cudaMemcpy_v3020 cudaMemcpyAsync cuMemcpyHtoD_v2 cudaMemcpyToSymbol cudaMemcpyPeerAsync"),
        ("copy", "cudaMemset cudaMemsetAsync cuMemsetD32_v2 cudaMemPrefetchAsync_v8000"),
        ("other", "cudaEventRecord cudaStreamWaitEvent cudaEventQuery cudaStreamCreate cudaMemGetInfo"),
        (
            "other",
            "cuKernelGetName cuKernelGetAttribute cuKernelSetAttribute cuFuncGetAttribute cuFuncIsLoaded",
        ),
        ("other", "cudaFuncSetAttribute cuModuleGetLoadingMode cuDevicePrimaryCtxGetState"),
        ("other", "cudaGraphInstantiate cudaLaunchHostFunc cuCtxSetCurrent cudaMemAdvise cudaGetLastError x"),
    ],
)
def test_the_classes_of_calls(kind: str, names: str) -> None:
    assert {name: call_class(name) for name in names.split()} == dict.fromkeys(names.split(), kind)


def test_a_call_without_a_name_is_any_other() -> None:
    assert call_class(None) == call_class("") == "other"


def test_every_call_of_a_capture(tmp_path: Path) -> None:
    names: list[str | int] = [
        "cudaFree",
        "cudaLaunchKernel",
        "cudaFree",
        "cuInit",
        7,
    ]  # 7: the export lacks the text
    capture = opened(tmp_path, *(call(name, i, i + 1, i) for i, name in enumerate(names)))
    found = [CLASSES[number] for number in call_classes(capture)]
    assert found == ["allocate", "launch", "allocate", "load", "other"]
