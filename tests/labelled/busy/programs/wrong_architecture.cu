// Compiled for Blackwell alone (nvcc -arch=sm_100): no kernel can start on another GPU. Exit code 1.
// Nothing is slow: every launch fails.
#include <cstdio>

__global__ void scale(float* x, float factor) { x[blockIdx.x * blockDim.x + threadIdx.x] *= factor; }
__global__ void shift(float* x, float offset) { x[blockIdx.x * blockDim.x + threadIdx.x] += offset; }

int main() {
    const int n = 1 << 20, steps = 20;
    float* x;
    if (cudaMalloc(&x, n * sizeof(float)) != cudaSuccess) return 2;
    int failed = 0;
    cudaError_t last = cudaSuccess;
    for (int step = 0; step < steps; ++step) {
        scale<<<n / 256, 256>>>(x, 1.01f);
        if (cudaError_t error = cudaGetLastError()) last = error, ++failed;
        shift<<<n / 256, 256>>>(x, 0.5f);
        if (cudaError_t error = cudaGetLastError()) last = error, ++failed;
    }
    cudaDeviceSynchronize();
    cudaFree(x);
    std::fprintf(stderr, "%d launches failed: %s\n", failed, cudaGetErrorString(last));
    std::printf("TRUTH {\"cause\": \"every launch fails: compiled for another architecture\", \"steps\": 0, "
                "\"seconds_per_step\": 0, \"failed_launches\": %d}\n", failed);
    return failed ? 1 : 0;
}
