"""Train a GPT of six layers on random tokens; print the loss of each step. Plain PyTorch.

train_gpt.py [--steps N] [--compile] [--ddp] [--ranges] [--small]; --ranges marks steps and modules by hand.
"""

# PyTorch has types in some versions only.
# mypy: ignore-errors

import argparse
import os

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, tokens: int, width: int, length: int, layers: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Block(width, 8) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.token(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def mark_by_hand(model: nn.Module) -> None:
    """Put an NVTX range around the forward of each module, and a mark where its backward begins.

    A range around a backward would be mixed with those of PyTorch: they end on the same thread.
    """

    def begin(name: str) -> None:
        torch.cuda.nvtx.range_push(f"hand {name}")

    def end() -> None:
        torch.cuda.nvtx.range_pop()

    def mark(name: str) -> None:
        torch.cuda.nvtx.mark(f"hand back {name}")

    for name, module in model.named_modules():
        if name and not isinstance(module, nn.ModuleList):
            module.register_forward_pre_hook(lambda _m, _i, name=name: begin(name))
            module.register_forward_hook(lambda _m, _i, _o: end())
            module.register_full_backward_pre_hook(lambda _m, _g, name=name: mark(name))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=16)
    for flag in ("--compile", "--ddp", "--ranges", "--small"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.ddp:
        torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    tokens, width, length, batch = (256, 64, 32, 2) if options.small else (8192, 512, 256, 8)
    model: nn.Module = GPT(tokens, width, length, 6).to(device)
    if options.ranges:
        mark_by_hand(model)
    if options.ddp:
        model = nn.parallel.DistributedDataParallel(model)
    if options.compile:
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(options.steps):
        if options.ranges:
            torch.cuda.nvtx.range_push(f"hand step {step}")
        ids = torch.randint(tokens, (batch, length + 1), device=device)
        optimizer.zero_grad()
        logits = model(ids[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if options.ranges:
            torch.cuda.nvtx.range_pop()
        print(f"step {step} loss {loss.item():.6f}", flush=True)
    if options.ddp:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
