"""Filter fields with cuFFT; the scale of the transforms is part of the filter."""

import torch
from common import measure

STEPS = 30
fields = torch.randn(16, 4096, 4096, device="cuda", dtype=torch.complex64)
response = torch.rand(4096, 4096, device="cuda", dtype=torch.complex64) / 4096**2


def step() -> None:
    spectrum = torch.fft.fft2(fields)
    spectrum.mul_(response)
    torch.fft.ifft2(spectrum, norm="forward")


measure(step, STEPS, "")
