// Simulate paths of prices, with one block more than fit on the GPU at once.
// Avoidable: the last block starts when the others are done, and works alone for half of the time.
#include "pieces.cuh"

const char* CAUSE = "a second wave of one block";
const int STEPS = 40, THREADS = 512, SHARED = 160 * 1024;

__global__ void paths(float* sums, int points) {
    extern __shared__ float terms[];
    unsigned state = blockIdx.x * blockDim.x + threadIdx.x + 1u;
    float price = 1.f, sum = 0.f;
    for (int i = 0; i < points; ++i) {
        state = state * 1664525u + 1013904223u;
        price *= 1.f + 0.01f * ((state >> 8) * 0x1p-24f - 0.5f);
        terms[(i & 63) * THREADS + threadIdx.x] = price;
        sum += fmaxf(price - terms[(i * 7 & 63) * THREADS + threadIdx.x], 0.f);
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main() {
    int multiprocessors;
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    float* sums;
    CHECK(cudaMalloc(&sums, sizeof(float) * THREADS * (multiprocessors + 1)));
    CHECK(cudaFuncSetAttribute(paths, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    measure([&] { paths<<<multiprocessors + 1, THREADS, SHARED>>>(sums, 200000); }, STEPS, CAUSE);
}
