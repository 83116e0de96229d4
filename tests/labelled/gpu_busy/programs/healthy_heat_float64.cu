// Step heat through a volume in FP64, which its conservation to twelve digits needs.
// Healthy: the kernel reads each value about once from memory and writes it once.
#include "pieces.cuh"
#include <utility>

const int STEPS = 50, N = 640;

__global__ void heat(const double* __restrict__ t, double* __restrict__ out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= N - 1 || y >= N - 1) return;
    size_t plane = (size_t)N * N, at = plane * (1 + blockIdx.z * 32) + (size_t)y * N + x;
    double below = t[at - plane], here = t[at];
    for (int z = 1 + blockIdx.z * 32; z < N - 1 && z < 33 + blockIdx.z * 32; ++z, at += plane) {
        double above = t[at + plane];
        out[at] = here + 0.1 * (t[at - 1] + t[at + 1] + t[at - N] + t[at + N] + below + above - 6 * here);
        below = here;
        here = above;
    }
}

int main() {
    double *t, *out;
    CHECK(cudaMalloc(&t, sizeof(double) * N * N * N));
    CHECK(cudaMalloc(&out, sizeof(double) * N * N * N));
    CHECK(cudaMemset(t, 0, sizeof(double) * N * N * N));
    CHECK(cudaMemset(out, 0, sizeof(double) * N * N * N));
    dim3 threads(64, 4), blocks(N / 64, N / 4, N / 32);
    auto step = [&] {
        for (int i = 0; i < 2; ++i) {
            heat<<<blocks, threads>>>(t, out);
            std::swap(t, out);
        }
    };
    measure(step, STEPS, "");
}
