// Twelve kernels with different limits of occupancy, each launched three times; prints what the runtime says of each.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e)); exit(1); } } while (0)

// Keeps N floats alive in registers.
template <int N> __device__ __forceinline__ void work(float *x, int rounds) {
    float v[N];
    int id = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = x[(id * 7 + i * 131) & 0xfffff];
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = v[i] * 1.0001f + v[(i + 1) % N];
    }
    float s = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) s += v[i];
    x[id & 0xfffff] = s;
}
__global__ void __launch_bounds__(256) registers_many(float *x, int r) { work<110>(x, r); }
__global__ void __launch_bounds__(128) registers_most(float *x, int r) { work<220>(x, r); }
__global__ void __launch_bounds__(96) registers_odd(float *x, int r) { work<48>(x, r); }
__global__ void __launch_bounds__(1024) block_1024(float *x, int r) { work<20>(x, r); }
__global__ void warps_limit(float *x, int r) { work<6>(x, r); }
__global__ void blocks_limit(float *x, int r) { work<4>(x, r); }
__global__ void block_33(float *x, int r) { work<4>(x, r); }
__global__ void shared_static(float *x, int r) {
    __shared__ float s[10000];
    for (int i = threadIdx.x; i < 10000; i += blockDim.x) s[i] = x[i];
    __syncthreads();
    for (int k = 0; k < r; ++k) s[(threadIdx.x * 3 + k) % 10000] += s[(threadIdx.x + k) % 10000];
    __syncthreads();
    x[(blockIdx.x * blockDim.x + threadIdx.x) & 0xfffff] = s[threadIdx.x];
}
template <int WHICH> __device__ void dynamic(float *x, int r) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int k = 0; k < r; ++k) s[threadIdx.x] += s[(threadIdx.x + k) % blockDim.x];
    x[(blockIdx.x * blockDim.x + threadIdx.x) & 0xfffff] = s[threadIdx.x];
}
__global__ void shared_dynamic(float *x, int r) { dynamic<0>(x, r); }
__global__ void carveout_small(float *x, int r) { dynamic<1>(x, r); }
__global__ void __cluster_dims__(4, 1, 1) clusters(float *x, int r) { dynamic<2>(x, r); }
__global__ void cooperative(float *x, int r) {
    work<16>(x, r);
    cooperative_groups::this_grid().sync();
    x[threadIdx.x] += 1;
}

typedef void (*Kernel)(float *, int);
static void say(const char *name, Kernel k, dim3 grid, dim3 block, size_t shared) {
    cudaFuncAttributes a;
    int blocks = 0;
    CHECK(cudaFuncGetAttributes(&a, k));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, block.x * block.y, shared));
    printf("%s grid=%u block=%u registers=%d static=%zu dynamic=%zu blocks=%d\n", name, grid.x * grid.y, block.x * block.y, a.numRegs, a.sharedSizeBytes, shared, blocks);
}
int main() {
    int sms = 0;
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    float *x;
    CHECK(cudaMalloc(&x, sizeof(float) << 20));
    CHECK(cudaMemset(x, 0, sizeof(float) << 20));
    const int big = 100 * 1024, r = 2000;
    CHECK(cudaFuncSetAttribute(shared_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, big));
    CHECK(cudaFuncSetAttribute(clusters, cudaFuncAttributeMaxDynamicSharedMemorySize, big));
    CHECK(cudaFuncSetAttribute(carveout_small, cudaFuncAttributePreferredSharedMemoryCarveout, 28));
    struct { const char *name; Kernel k; dim3 grid, block; size_t shared; } all[] = {
        {"registers_many", registers_many, dim3(sms * 5), dim3(256), 0},
        {"registers_most", registers_most, dim3(sms * 2 + 40), dim3(128), 0},
        {"registers_odd", registers_odd, dim3(sms, 15), dim3(96), 0},
        {"block_1024", block_1024, dim3(sms * 3), dim3(1024), 0},
        {"warps_limit", warps_limit, dim3(sms * 10), dim3(32, 8), 0},
        {"blocks_limit", blocks_limit, dim3(sms * 48), dim3(32), 0},
        {"block_33", block_33, dim3(sms * 40), dim3(33), 0},
        {"shared_static", shared_static, dim3(sms * 7), dim3(128), 0},
        {"shared_dynamic", shared_dynamic, dim3(sms * 3 - 1), dim3(256), big},
        {"carveout_small", carveout_small, dim3(sms * 12), dim3(128), 10 * 1024},
        {"clusters", clusters, dim3(sms / 4 * 4 * 5), dim3(256), big},
    };
    for (auto &one : all) say(one.name, one.k, one.grid, one.block, one.shared);
    for (int i = 0; i < 3; ++i) {
        for (auto &one : all) {
            one.k<<<one.grid, one.block, one.shared>>>(x, r);
            CHECK(cudaGetLastError());
            CHECK(cudaDeviceSynchronize());
        }
        int rounds = r;
        void *arguments[] = {&x, &rounds};
        CHECK(cudaLaunchCooperativeKernel((void *)cooperative, dim3(sms * 2), dim3(256), arguments, 0, 0));
        CHECK(cudaDeviceSynchronize());
    }
    say("cooperative", cooperative, dim3(sms * 2), dim3(256), 0);
    printf("done\n");
}
