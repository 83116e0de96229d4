"""Sample images with a small U-Net. What repeats: 9 denoising steps, `denoise 1/9` to `denoise 9/9`."""

import torch
from torch import nn
from truth import tell, timed

STEPS = 9
BATCH = 16
SIDE = 256


class Block(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1),
            nn.GroupNorm(8, after),
            nn.SiLU(),
            nn.Conv2d(after, after, 3, padding=1),
            nn.GroupNorm(8, after),
            nn.SiLU(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [64, 128, 256, 512]
        self.first = nn.Conv2d(3, 64, 3, padding=1)
        self.down = nn.ModuleList(map(Block, [64, *widths[:-1]], widths))
        self.up = nn.ModuleList(map(Block, [512 + 256, 256 + 128, 128 + 64], [256, 128, 64]))
        self.last = nn.Conv2d(64, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, skips = self.first(x), []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        x = nn.functional.interpolate(x, scale_factor=2.0)
        for block, skip in zip(self.up, skips[-2::-1], strict=True):
            x = block(torch.cat([nn.functional.interpolate(x, scale_factor=2.0), skip], 1))
        return self.last(x)


network = UNet().to("cuda", torch.float16).eval()
x = torch.randn(BATCH, 3, SIDE, SIDE, device="cuda", dtype=torch.float16)
with torch.no_grad(), timed("denoising steps", STEPS):
    for step in range(1, STEPS + 1):
        with torch.cuda.nvtx.range(f"denoise {step}/{STEPS}"):
            for _ in range(4):  # corrector passes of one step
                x = x - network(x).clamp(-1, 1) / STEPS
            x = x + 0.01 * torch.randn_like(x)
print(x.float().std().item())
tell("denoising steps")
