// Compute the forces between bodies; positions and forces are stored in FP32.
// Avoidable: variables of type double and literals without an f make the arithmetic of each pair FP64.
#include "pieces.cuh"

const char* CAUSE = "FP64 by accident, from double variables in a kernel";
const int STEPS = 20, N = 65536;

__global__ void forces(const float4* bodies, float4* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 here = bodies[i];
    float x = 0, y = 0, z = 0;
    for (int j = 0; j < N; ++j) {
        float4 there = bodies[j];
        double dx = there.x - here.x, dy = there.y - here.y, dz = there.z - here.z;
        double square = dx * dx + dy * dy + dz * dz + 1e-4;
        double pull = 1.0 / (square * sqrt(square));
        x += dx * pull;
        y += dy * pull;
        z += dz * pull;
    }
    out[i] = make_float4(x, y, z, 0);
}

int main() {
    float4 *bodies, *out;
    CHECK(cudaMalloc(&bodies, sizeof(float4) * N));
    CHECK(cudaMalloc(&out, sizeof(float4) * N));
    CHECK(cudaMemset(bodies, 0, sizeof(float4) * N));
    measure([&] { forces<<<N / 128, 128>>>(bodies, out); }, STEPS, CAUSE);
}
