// Solve a Poisson equation on a small grid with conjugate gradients: seven small kernels an iteration.
// Lost time: each kernel takes a few microseconds, as its launch does.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#define CHECK(call) \
    if (cudaError_t error = (call)) std::fprintf(stderr, "%s\n", cudaGetErrorString(error)), std::exit(1);

const int SIDE = 96, N = SIDE * SIDE, STEPS = 2000;
__device__ int place() { return blockIdx.x * blockDim.x + threadIdx.x; }
__global__ void laplace(const float* p, float* q) {
    int i = place(), row = i / SIDE, column = i % SIDE;
    float sum = 4.1f * p[i];
    sum -= (row > 0 ? p[i - SIDE] : 0.f) + (row < SIDE - 1 ? p[i + SIDE] : 0.f);
    q[i] = sum - (column > 0 ? p[i - 1] : 0.f) - (column < SIDE - 1 ? p[i + 1] : 0.f);
}
__global__ void clear(float* scalar) { *scalar = 1e-20f; }
__global__ void dot(const float* a, const float* b, float* sum) {
    float value = a[place()] * b[place()];
    for (int lane = 16; lane > 0; lane /= 2) value += __shfl_down_sync(~0u, value, lane);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, value);
}
__global__ void advance(float* x, float* r, const float* p, const float* q, const float* rr, const float* pq) {
    int i = place();
    float alpha = *rr / *pq;
    x[i] += alpha * p[i];
    r[i] -= alpha * q[i];
}
__global__ void redirect(float* p, const float* r, const float* now, const float* before) {
    p[place()] = r[place()] + *now / *before * p[place()];
}
__global__ void fill(float* a, float value) { a[place()] = value; }

int main() {
    float* data;
    CHECK(cudaMalloc(&data, (4 * N + 3) * sizeof(float)));
    float *x = data, *r = x + N, *p = r + N, *q = p + N, *rr = q + N, *next = rr + 1, *pq = next + 1;
    int threads = 256, blocks = N / threads;
    for (float* vector : {x, r, p}) fill<<<blocks, threads>>>(vector, vector == x ? 0.f : 1.f);
    clear<<<1, 1>>>(rr);
    dot<<<blocks, threads>>>(r, r, rr);
    CHECK(cudaDeviceSynchronize());
    auto began = std::chrono::steady_clock::now();
    for (int step = 0; step < STEPS; ++step) {
        laplace<<<blocks, threads>>>(p, q);
        clear<<<1, 1>>>(pq);
        dot<<<blocks, threads>>>(p, q, pq);
        advance<<<blocks, threads>>>(x, r, p, q, rr, pq);
        clear<<<1, 1>>>(next);
        dot<<<blocks, threads>>>(r, r, next);
        redirect<<<blocks, threads>>>(p, r, next, rr);
        float* old = rr; rr = next; next = old;
    }
    CHECK(cudaDeviceSynchronize());
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    CHECK(cudaGetLastError());
    std::printf("TRUTH {\"cause\": \"launches of many small kernels\", \"steps\": %d, \"seconds_per_step\": %.9f}\n",
                STEPS, seconds / STEPS);
}
