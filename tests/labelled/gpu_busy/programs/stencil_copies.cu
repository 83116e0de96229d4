// Step a 2D wave in FP32 with three fields.
// Avoidable: after each step two fields are copied on the device, where pointers could be exchanged.
#include "pieces.cuh"

const char* CAUSE = "device-to-device copies of whole fields";
const int STEPS = 60, N = 16384;

__global__ void wave(const float* __restrict__ u, const float* __restrict__ previous, float* __restrict__ next) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= N - 1 || y >= N - 1) return;
    size_t at = (size_t)y * N + x;
    float sum = u[at - 1] + u[at + 1] + u[at - N] + u[at + N];
    next[at] = 2.f * u[at] - previous[at] + 0.2f * (sum - 4.f * u[at]);
}

int main() {
    const size_t bytes = sizeof(float) * N * N;
    float* fields[3];
    for (float*& field : fields) {
        CHECK(cudaMalloc(&field, bytes));
        CHECK(cudaMemset(field, 0, bytes));
    }
    auto step = [&] {
        for (int i = 0; i < 4; ++i) {
            wave<<<dim3(N / 64, N / 8), dim3(64, 8)>>>(fields[1], fields[0], fields[2]);
            CHECK(cudaMemcpyAsync(fields[0], fields[1], bytes, cudaMemcpyDeviceToDevice));
            CHECK(cudaMemcpyAsync(fields[1], fields[2], bytes, cudaMemcpyDeviceToDevice));
        }
    };
    measure(step, STEPS, CAUSE);
}
