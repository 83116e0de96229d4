"""Price 32 million options with one kernel that torch.compile fuses.

Nothing is lost: each array is read or written once a step.
"""

import torch
from common import measure

spot = torch.rand(32 << 20, device="cuda") * 100 + 50
strike = torch.rand_like(spot) * 100 + 50
years = torch.rand_like(spot) * 2 + 0.1
rate, volatility = 0.03, 0.2


def normal(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (1 + torch.erf(x / 2**0.5))


@torch.compile
def price(spot: torch.Tensor, strike: torch.Tensor, years: torch.Tensor) -> torch.Tensor:
    deviation = volatility * torch.sqrt(years)
    d1 = (torch.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / deviation
    d2 = d1 - deviation
    discounted = strike * torch.exp(-rate * years)
    call = spot * normal(d1) - discounted * normal(d2)
    return torch.where(call > 0, call, torch.zeros_like(call))


print(measure(lambda: price(spot, strike, years), 200, "none: a fused chain").mean().item())
