"""Solve a linear system with SciPy's conjugate gradients and a product on the GPU.

What repeats: 400 iterations.
"""

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, cg
from truth import tell, timed

ITERATIONS = 400
SIZE = 24576

points = torch.rand(SIZE, 3, device="cuda")
kernel = torch.exp(-torch.cdist(points, points).square() * 2)
kernel.diagonal().add_(1e-3)


def product(vector: np.ndarray) -> np.ndarray:
    x = torch.from_numpy(np.ascontiguousarray(vector, dtype=np.float32)).cuda()
    return (kernel @ x.reshape(-1)).cpu().numpy().astype(np.float64)


operator = LinearOperator((SIZE, SIZE), matvec=product, dtype=np.float64)
right = np.random.default_rng(1).standard_normal(SIZE)
with timed("iterations", ITERATIONS):
    solution, info = cg(operator, right, rtol=0.0, atol=0.0, maxiter=ITERATIONS)
print(info, np.linalg.norm(solution))
tell("iterations")
