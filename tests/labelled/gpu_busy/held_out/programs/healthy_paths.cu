// Simulate paths of prices in FP32 with as many blocks as make many full waves.
#include "pieces.cuh"

const int STEPS = 40, THREADS = 256, BLOCKS = 132 * 8 * 12;

__global__ void paths(float* sums, int points) {
    unsigned state = blockIdx.x * blockDim.x + threadIdx.x + 1u;
    float price = 1.f, sum = 0.f;
    for (int i = 0; i < points; ++i) {
        state = state * 1664525u + 1013904223u;
        price *= 1.f + 0.01f * ((state >> 8) * 0x1p-24f - 0.5f);
        sum += fmaxf(price - 1.f, 0.f);
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main() {
    float* sums;
    CHECK(cudaMalloc(&sums, sizeof(float) * THREADS * BLOCKS));
    measure([&] { paths<<<BLOCKS, THREADS>>>(sums, 4000); }, STEPS, "");
}
