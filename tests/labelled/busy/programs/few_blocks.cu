// Estimate an integral with random points, on a grid of BLOCKS blocks.
// Four: most time is a long kernel that uses four of more than a hundred multiprocessors. 8192: nothing is lost,
// as thousands of blocks keep all multiprocessors busy, and the launches run ahead.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                     \
    if (cudaError_t error = (call)) {                                                   \
        std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));             \
        std::exit(1);                                                                   \
    }

#ifndef BLOCKS
#define BLOCKS 4
#define POINTS 100000
#endif
const int STEPS = 40, THREADS = 256;

__global__ void sample(unsigned long long* hits, unsigned seed, int points) {
    unsigned state = seed * 9781u + blockIdx.x * blockDim.x + threadIdx.x + 1u, count = 0;
    for (int i = 0; i < points; ++i) {
        state = state * 1664525u + 1013904223u;
        float x = (state >> 8) * 0x1p-24f;
        state = state * 1664525u + 1013904223u;
        float y = (state >> 8) * 0x1p-24f;
        count += x * x + y * y < 1.f;
    }
    atomicAdd(hits, (unsigned long long)count);
}

int main() {
    unsigned long long *hits, total = 0;
    CHECK(cudaMalloc(&hits, sizeof *hits));
    CHECK(cudaMemset(hits, 0, sizeof *hits));
    sample<<<BLOCKS, THREADS>>>(hits, 1u, POINTS);
    CHECK(cudaDeviceSynchronize());
    auto began = std::chrono::steady_clock::now();
    for (int step = 0; step < STEPS; ++step) sample<<<BLOCKS, THREADS>>>(hits, step + 2u, POINTS);
    CHECK(cudaDeviceSynchronize());
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    CHECK(cudaMemcpy(&total, hits, sizeof total, cudaMemcpyDeviceToHost));
    std::printf("%.5f\n", 4.0 * total / ((STEPS + 1.0) * BLOCKS * THREADS * POINTS));
    std::printf("TRUTH {\"cause\": \"%s: a grid of %d\", \"steps\": %d, \"seconds_per_step\": %.9f}\n",
                BLOCKS < 100 ? "few blocks" : "none", BLOCKS, STEPS, seconds / STEPS);
}
