// Prepare one image: each of six kernels is launched once. There are no steps.
// Most time: the copy of the image from pageable memory, and the allocation of its buffers.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                     \
    if (cudaError_t error = (call)) {                                                   \
        std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));             \
        std::exit(1);                                                                   \
    }

const int N = 1 << 27;
__device__ int place() { return blockIdx.x * blockDim.x + threadIdx.x; }
__global__ void to_linear(float* x) { int i = place(); x[i] = powf(x[i], 2.2f); }
__global__ void subtract_black(float* x, float black) { int i = place(); x[i] = fmaxf(x[i] - black, 0.f); }
__global__ void blur(const float* x, float* y) {
    int i = place();
    float sum = 0.f;
    for (int k = -4; k <= 4; ++k) sum += x[(i + k) & (N - 1)];
    y[i] = sum / 9.f;
}
__global__ void sharpen(const float* x, const float* soft, float* y) { int i = place(); y[i] = 2.f * x[i] - soft[i]; }
__global__ void tone_map(float* x) { int i = place(); x[i] = x[i] / (1.f + fabsf(x[i])); }
__global__ void histogram(const float* x, unsigned* bins) {
    atomicAdd(&bins[min(255, max(0, int(x[place()] * 256.f)))], 1u);
}

int main() {
    std::vector<float> image(N);
    for (int i = 0; i < N; ++i) image[i] = float(i % 1021) / 1021.f;
    CHECK(cudaFree(nullptr));
    auto began = std::chrono::steady_clock::now();
    float *x, *soft, *sharp;
    unsigned* bins;
    for (float** buffer : {&x, &soft, &sharp}) CHECK(cudaMalloc(buffer, N * sizeof(float)));
    CHECK(cudaMalloc(&bins, 256 * sizeof(unsigned)));
    CHECK(cudaMemset(bins, 0, 256 * sizeof(unsigned)));
    CHECK(cudaMemcpy(x, image.data(), N * sizeof(float), cudaMemcpyHostToDevice));
    int blocks = N / 256;
    to_linear<<<blocks, 256>>>(x);
    subtract_black<<<blocks, 256>>>(x, 0.02f);
    blur<<<blocks, 256>>>(x, soft);
    sharpen<<<blocks, 256>>>(x, soft, sharp);
    tone_map<<<blocks, 256>>>(sharp);
    histogram<<<blocks, 256>>>(sharp, bins);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::printf("TRUTH {\"cause\": \"one shot: a pageable copy, each kernel launched once\", \"steps\": 1, "
                "\"seconds_per_step\": %.6f}\n", seconds);
}
