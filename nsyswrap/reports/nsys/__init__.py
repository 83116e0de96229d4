"""The reports of nsys itself: equal to `nsys stats`, cell by cell."""

from __future__ import annotations

# In the order of `-r all`: summaries and traces, then the expert rules.
NAMES = (
    "cuda_gpu_kern_sum",
    "cuda_gpu_kern_gb_sum",
    "cuda_api_sum",
    "cuda_api_gpu_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_gpu_sum",
    "cuda_kern_exec_sum",
    "cuda_kern_exec_trace",
    "cuda_gpu_trace",
    "cuda_api_trace",
    "um_sum",
    "um_total_sum",
    "um_cpu_page_faults_sum",
    "nvtx_sum",
    "nvtx_pushpop_sum",
    "nvtx_pushpop_trace",
    "nvtx_startend_sum",
    "nvtx_kern_sum",
    "nvtx_gpu_proj_sum",
    "nvtx_gpu_proj_trace",
    "osrt_sum",
    "openmp_sum",
    "openacc_sum",
    "mpi_event_sum",
    "mpi_event_trace",
    "cuda_memcpy_async",
    "cuda_memcpy_sync",
    "cuda_memset_sync",
    "cuda_api_sync",
    "gpu_gaps",
    "gpu_time_util",
)
