// Step a 2D wave in FP32 with tiles in shared memory.
// Healthy: each field is read or written once a step, and the two fields swap their roles.
#include "pieces.cuh"
#include <utility>

const int STEPS = 60, N = 16384, TX = 64, TY = 8;

__global__ void wave(const float* __restrict__ u, float* __restrict__ previous) {
    __shared__ float tile[TY + 2][TX + 2];
    int x = blockIdx.x * TX + threadIdx.x, y = blockIdx.y * TY + threadIdx.y;
    int i = threadIdx.x + 1, j = threadIdx.y + 1;
    size_t at = (size_t)y * N + x;
    tile[j][i] = u[at];
    if (threadIdx.x == 0) tile[j][0] = x ? u[at - 1] : 0.f;
    if (threadIdx.x == TX - 1) tile[j][TX + 1] = x < N - 1 ? u[at + 1] : 0.f;
    if (threadIdx.y == 0) tile[0][i] = y ? u[at - N] : 0.f;
    if (threadIdx.y == TY - 1) tile[TY + 1][i] = y < N - 1 ? u[at + N] : 0.f;
    __syncthreads();
    float here = tile[j][i];
    float sum = tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i];
    previous[at] = 2.f * here - previous[at] + 0.2f * (sum - 4.f * here);
}

int main() {
    float *u, *previous;
    CHECK(cudaMalloc(&u, sizeof(float) * N * N));
    CHECK(cudaMalloc(&previous, sizeof(float) * N * N));
    CHECK(cudaMemset(u, 0, sizeof(float) * N * N));
    CHECK(cudaMemset(previous, 0, sizeof(float) * N * N));
    auto step = [&] {
        for (int i = 0; i < 8; ++i) {
            wave<<<dim3(N / TX, N / TY), dim3(TX, TY)>>>(u, previous);
            std::swap(u, previous);
        }
    };
    measure(step, STEPS, "");
}
