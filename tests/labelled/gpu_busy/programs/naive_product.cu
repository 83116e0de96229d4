// Multiply FP32 matrices with a kernel in which each thread computes one value from global memory.
// Avoidable: cuBLAS is several times faster, as it keeps tiles in shared memory and registers.
#include "pieces.cuh"

const char* CAUSE = "a slow handwritten kernel: a matrix product without tiles";
const int STEPS = 25, N = 4096;

__global__ void multiply(const float* a, const float* b, float* c) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.f;
    for (int k = 0; k < N; ++k) sum += a[row * N + k] * b[k * N + column];
    c[row * N + column] = sum;
}

__global__ void activate(float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = fmaxf(x[i], 0.f);
}

int main() {
    float *a, *b, *c;
    for (float** matrix : {&a, &b, &c}) {
        CHECK(cudaMalloc(matrix, sizeof(float) * N * N));
        CHECK(cudaMemset(*matrix, 0, sizeof(float) * N * N));
    }
    auto step = [&] {
        multiply<<<dim3(N / 16, N / 16), dim3(16, 16)>>>(a, b, c);
        activate<<<N * N / 256, 256>>>(c);
        multiply<<<dim3(N / 16, N / 16), dim3(16, 16)>>>(c, b, a);
    };
    measure(step, STEPS, CAUSE);
}
