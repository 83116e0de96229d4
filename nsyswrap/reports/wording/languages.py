"""What to do, and a line of code, in what a program is written with. The catalogue itself is for PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

from nsyswrap.analysis.finding import FindingKind
from nsyswrap.analysis.program_language import CUDA, CUPY, JAX, OPENACC, PYTHON, PYTORCH

Texts = tuple[str, str]  # what to do, and a line of code


_NO_TEXT = ""  # that of the catalogue holds
_LOADED = (_NO_TEXT, "CUDA_MODULE_LOADING=EAGER ./program  # or one launch of each kernel before the loop")
_RATES = "nsyswrap report CAPTURE -r memcpy_bandwidth  # which copies"
_TF32 = "allow TF32, which rounds the inputs of products to a mantissa of 10 bits"
_IN_CUDA: Mapping[FindingKind, Texts] = {
    "launch_bound": (
        "reduce the number of launches: CUDA graphs, fused kernels, larger batches",
        "cudaGraphLaunch(graph, stream);  // recorded once, by cudaStreamBeginCapture",
    ),
    "host_bound": (
        "move host work out of the loop or to another thread, or queue more GPU work ahead",
        "auto following = std::async(std::launch::async, prepare);  // while the GPU works",
    ),
    "waiting_for_input": (
        "load and prepare input in other threads, ahead of the step that needs it",
        "auto following = std::async(std::launch::async, read_batch);  // while the GPU works",
    ),
    "synchronizing": (
        "avoid cudaDeviceSynchronize and blocking copies in the loop; wait on events instead",
        "cudaStreamWaitEvent(stream, event);  // instead of cudaDeviceSynchronize()",
    ),
    "allocating": (
        "allocate before the loop, or from a pool: cudaMallocAsync and cudaFreeAsync",
        "cudaMallocAsync(&data, bytes, stream);  // instead of cudaMalloc",
    ),
    "loading_in_loop": ("load each kernel before the loop", _LOADED[1]),
    "spikes": (_NO_TEXT, "std::thread(write_checkpoint, snapshot).detach();"),
    "pageable_copies": (
        "use pinned memory and asynchronous copies: cudaMallocHost or cudaHostRegister, and cudaMemcpyAsync",
        "cudaMallocHost(&data, bytes);  // instead of malloc",
    ),
    "copies_not_overlapped": (
        _NO_TEXT,
        "cudaMemcpyAsync(next, host, bytes, cudaMemcpyHostToDevice, copy_stream);",
    ),
    "copy_bound": (_NO_TEXT, _RATES),
    "tiny_copies": (
        _NO_TEXT,
        "cudaMemcpyAsync(all, packed, bytes, cudaMemcpyHostToDevice, stream);  // in one buffer",
    ),
    "fp32_products": (_TF32, "cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH);"),
    "misaligned_products": (_NO_TEXT, "int lda = (n + 7) / 8 * 8;  // elements of FP16 in a column"),
    "exposed_communication": (
        "overlap it with compute on a separate stream, communicate less, or find the late rank",
        "ncclAllReduce(part, part, count, ncclFloat, ncclSum, communicator, side_stream);",
    ),
    "timed_launch_only": (_NO_TEXT, "cudaDeviceSynchronize();  // as the last line of the range"),
    "timed_earlier_work": (_NO_TEXT, "cudaDeviceSynchronize();  // as the last line before the range"),
    "idle_queued": (_NO_TEXT, "cudaGraphLaunch(graph, stream);  // recorded once, by cudaStreamBeginCapture"),
    "idle_load": (_NO_TEXT, _LOADED[1]),
    "idle_allocate": (_NO_TEXT, "cudaMallocAsync(&data, bytes, stream);  // instead of cudaMalloc"),
    "idle_synchronise": (
        _NO_TEXT,
        "cudaStreamWaitEvent(stream, event);  // instead of cudaDeviceSynchronize()",
    ),
    "idle_launch": (
        "reduce the number of launches: CUDA graphs, fused kernels; -r gpu_idle lists the gaps",
        "cudaGraphLaunch(graph, stream);  // recorded once, by cudaStreamBeginCapture",
    ),
    "idle_copy": (_NO_TEXT, "cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream);  // pinned"),
    "idle_host": (
        "move host work out of the loop or to another thread, or queue more GPU work ahead",
        "auto following = std::async(std::launch::async, prepare);  // while the GPU works",
    ),
}
_BATCHED = "use more blocks: process more elements per call, or batch small problems"
_WAVES = (_NO_TEXT, "batch = 2 * batch // 3  # or another size whose blocks fill whole waves")
_IN_PYTHON: Mapping[FindingKind, Texts] = {
    "last_wave": _WAVES,
    "copy_bound": (_NO_TEXT, _RATES),
    "launch_bound": (
        "reduce the number of launches: CUDA graphs, fused kernels, larger batches",
        "nsyswrap report CAPTURE -r launch_overhead  # which kernels to fuse",
    ),
    "waiting_for_input": (_NO_TEXT, "future = pool.submit(load, following)  # while the GPU works"),
    "synchronizing": (
        "avoid copies to the host, printing an array and synchronize() in the loop; wait on events instead",
        "total += loss  # on the GPU, and to the host once after the loop",
    ),
    "allocating": (
        "allocate before the loop or from a pool",
        "nsyswrap report CAPTURE -r cuda_api_sum  # which calls allocate",
    ),
    "loading_in_loop": (_NO_TEXT, "step(batch)  # once before the loop"),
    "spikes": (_NO_TEXT, "threading.Thread(target=save, args=(snapshot,)).start()"),
    "pageable_copies": (
        "use pinned memory and asynchronous copies",
        "nsyswrap report CAPTURE -r cuda_memcpy_async  # which copies block",
    ),
    "copies_not_overlapped": (
        _NO_TEXT,
        "nsyswrap report CAPTURE -r cuda_gpu_trace  # what waits for the copies",
    ),
    "tiny_copies": (_NO_TEXT, "values = to_gpu(numpy.asarray(numbers))  # all in one array"),
    "few_blocks": (_BATCHED, "y = f(numpy.stack(inputs))  # one call for all"),
    "fp32_products": (_TF32, "nsyswrap report CAPTURE -r kernel_class_sum  # which products"),
    "misaligned_products": (_NO_TEXT, "width = (width + 63) // 64 * 64  # before arrays are created"),
    "exposed_communication": (
        "overlap it with compute on a separate stream, communicate less, or find the late rank",
        "nsyswrap report CAPTURE --by rank",
    ),
    "timed_launch_only": (_NO_TEXT, "stream.synchronize()  # as the last line of the range"),
    "timed_earlier_work": (_NO_TEXT, "stream.synchronize()  # as the last line before the range"),
    "idle_queued": (_NO_TEXT, "nsyswrap report CAPTURE -r gpu_idle"),
    "idle_load": (_NO_TEXT, "step(batch)  # once before the loop"),
    "idle_allocate": (
        "allocate before the loop or from a pool; -r gpu_idle lists the gaps",
        "nsyswrap report CAPTURE -r cuda_api_sum  # which calls allocate",
    ),
    "idle_synchronise": (_NO_TEXT, "total += loss  # on the GPU, and to the host once after the loop"),
    "idle_launch": (
        "reduce the number of launches: CUDA graphs, fused kernels; -r gpu_idle lists the gaps",
        "nsyswrap report CAPTURE -r launch_overhead  # which kernels to fuse",
    ),
    "idle_copy": (_NO_TEXT, "nsyswrap report CAPTURE -r cuda_memcpy_async  # which copies block"),
}
_JITTED = "step = jax.jit(step)  # the whole step, with its optimizer"
_LATER = "losses.append(loss)  # an array on the GPU; float(loss) after the loop"
_SHAPES = "pad inputs to few shapes, so that jax.jit compiles once, or keep compiled programs in a cache"
_IN_JAX: Mapping[FindingKind, Texts] = {
    **_IN_PYTHON,
    "launch_bound": ("put the whole step under jax.jit, and loops into lax.scan", _JITTED),
    "host_bound": ("put the whole step under jax.jit, or queue more steps before waiting for one", _JITTED),
    "synchronizing": (
        "avoid block_until_ready(), float(), numpy.asarray() and printing an array in the loop",
        _LATER,
    ),
    "allocating": (
        "keep JAX's preallocated memory (XLA_PYTHON_CLIENT_PREALLOCATE), and donate what a step replaces",
        "step = jax.jit(step, donate_argnums=0)",
    ),
    "loading_in_loop": (_SHAPES, "jax.config.update('jax_compilation_cache_dir', folder)"),
    "pageable_copies": (
        "copy the next batch from another thread, ahead of the step that needs it",
        "following = pool.submit(jax.device_put, batch)  # while the GPU works",
    ),
    "copies_not_overlapped": (
        "copy the next batch while a kernel works on this one",
        "following = jax.device_put(next_batch)  # before the result of this step is read",
    ),
    "tiny_copies": (_NO_TEXT, "values = jnp.asarray(numbers)  # all in one array"),
    "few_blocks": (_BATCHED, "y = jax.vmap(f)(inputs)  # one call for all"),
    "fp32_products": (_TF32, "jax.config.update('jax_default_matmul_precision', 'high')"),
    "fp64_kernels": (
        "compute in FP32, the default of JAX unless FP64 is enabled",
        "jax.config.update('jax_enable_x64', False)",
    ),
    "exposed_communication": (
        "let XLA overlap it with compute, communicate less, or find the late rank",
        "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true python train.py",
    ),
    "timed_launch_only": (_NO_TEXT, "jax.block_until_ready(result)  # as the last line of the range"),
    "timed_earlier_work": (_NO_TEXT, "jax.block_until_ready(state)  # as the last line before the range"),
    "idle_queued": (_NO_TEXT, _JITTED),
    "idle_synchronise": (_NO_TEXT, _LATER),
    "elementwise_chains": ("put the function under jax.jit, which fuses its operations", _JITTED),
    "idle_launch": ("put the whole step under jax.jit, and loops into lax.scan", _JITTED),
    "idle_host": ("put the whole step under jax.jit, or queue more steps before waiting for one", _JITTED),
    "idle_copy": (_NO_TEXT, "following = pool.submit(jax.device_put, batch)  # while the GPU works"),
}
_PINNED = "host = cupyx.empty_pinned(shape, dtype)  # instead of numpy.empty"
_IN_CUPY: Mapping[FindingKind, Texts] = {
    **_IN_PYTHON,
    "launch_bound": (
        "reduce the number of launches: cupy.fuse, cupy.RawKernel, CUDA graphs, larger arrays",
        "@cupy.fuse()  # above a function of elementwise operations",
    ),
    "synchronizing": (
        "avoid get(), item(), float() and printing an array in the loop; wait on events instead",
        "total += loss  # an array on the GPU; float(total) after the loop",
    ),
    "allocating": (
        "keep the memory pool: no free_all_blocks() in the loop",
        "cupy.add(a, b, out=buffer)  # allocated before the loop",
    ),
    "pageable_copies": ("use pinned memory and asynchronous copies: cupyx.empty_pinned", _PINNED),
    "copies_not_overlapped": (_NO_TEXT, "following.set(host, stream=copy_stream)  # from pinned memory"),
    "tiny_copies": (_NO_TEXT, "values = cupy.asarray(numbers)  # all in one array"),
    "fp32_products": (_TF32, "CUPY_TF32=1 python program.py"),
    "idle_launch": (
        "reduce the number of launches: cupy.fuse, CUDA graphs; -r gpu_idle lists the gaps",
        "@cupy.fuse()  # above a function of elementwise operations",
    ),
    "idle_copy": (_NO_TEXT, _PINNED),
}
_ASYNC = "!$acc parallel loop async(1)  ! and !$acc wait(1) once after the loop"
_CREATED = "!$acc enter data create(buffer)  ! before the loop"
_IN_OPENACC: Mapping[FindingKind, Texts] = {
    "copy_bound": (_NO_TEXT, _RATES),
    "last_wave": (_NO_TEXT, "!$acc parallel loop gang num_gangs(gangs)  ! a multiple of the SMs"),
    "launch_bound": (
        "merge parallel regions, collapse nested loops, and launch with async",
        "!$acc parallel loop collapse(2) async(1)",
    ),
    "host_bound": ("launch with async, and do host work before the wait", _ASYNC),
    "waiting_for_input": (
        "read and prepare input in another thread, ahead of the step that needs it",
        "!$acc update device(following) async(2)",
    ),
    "synchronizing": ("launch with async, and wait once after the loop", _ASYNC),
    "allocating": ("put one data region around the loop", _CREATED),
    "loading_in_loop": ("load each kernel before the loop", _LOADED[1]),
    "spikes": (_NO_TEXT, "!$acc update host(state) async(2)  ! and write it in another thread"),
    "pageable_copies": (
        "use pinned memory: compile with -gpu=mem:separate:pinnedalloc (earlier: -gpu=pinned)",
        "nvfortran -acc -gpu=mem:separate:pinnedalloc program.f90",
    ),
    "copies_not_overlapped": (
        "copy the next part with async in a queue of its own, while a kernel works on this one",
        "!$acc update device(following) async(2)",
    ),
    "tiny_copies": ("combine the data in one array, or keep it on the GPU", "!$acc data copyin(all_values)"),
    "fp32_products": (_TF32, "status = cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH)"),
    "misaligned_products": (_NO_TEXT, "lda = (n + 7) / 8 * 8  ! elements of FP16 in a column"),
    "few_blocks": ("use more gangs: collapse nested loops", "!$acc parallel loop gang vector collapse(2)"),
    "timed_launch_only": (_NO_TEXT, "!$acc wait  ! as the last line of the range"),
    "timed_earlier_work": (_NO_TEXT, "!$acc wait  ! as the last line before the range"),
    "idle_queued": (_NO_TEXT, "!$acc parallel loop collapse(2) async(1)"),
    "idle_load": (_NO_TEXT, _LOADED[1]),
    "idle_allocate": ("put one data region around the loop; -r gpu_idle lists the gaps", _CREATED),
    "idle_synchronise": (_NO_TEXT, _ASYNC),
    "idle_launch": (
        "merge parallel regions, collapse nested loops; -r gpu_idle lists the gaps",
        "!$acc parallel loop collapse(2) async(1)",
    ),
    "idle_copy": (
        "put one data region around the loop; -r gpu_idle lists the gaps",
        "!$acc data copy(state)",
    ),
    "idle_host": ("launch with async, and do host work before the wait", _ASYNC),
}
_TEXTS: Mapping[str, Mapping[FindingKind, Texts]] = {
    PYTORCH: {
        "few_blocks": (_BATCHED, "y = torch.bmm(a, b)  # one call for many small products"),
        "last_wave": _WAVES,
    },
    JAX: _IN_JAX,
    CUPY: _IN_CUPY,
    PYTHON: _IN_PYTHON,
    OPENACC: _IN_OPENACC,
    CUDA: _IN_CUDA,
}
_LAUNCHES = {JAX: "Compiling the whole step", OPENACC: "Fewer, larger regions"}
_REMEDIES: Mapping[FindingKind, Mapping[str, str]] = {"launch_bound": _LAUNCHES, "idle_launch": _LAUNCHES}


def in_language(kind: FindingKind, language: str) -> dict[str, str]:
    """Return the fields of a wording that differ in a language; none where the catalogue holds."""
    do, example = _TEXTS.get(language, {}).get(kind, (_NO_TEXT, _NO_TEXT))
    remedy = _REMEDIES.get(kind, {}).get(language, _NO_TEXT)
    texts = {"remedy": remedy, "do": do, "example": example}
    return {name: text for name, text in texts.items() if text}
