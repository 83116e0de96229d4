"""Train an encoder in BF16 with Accelerate.

Nothing is lost: mixed precision casts the weights once a step, and large products take most of the time.
"""

import torch
import torch.utils.data
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from common import report, start

STEPS = 40
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True)
network = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
batches = torch.utils.data.DataLoader(torch.randn(32 * (STEPS + 3), 16, 1024), batch_size=32, pin_memory=True)
copies = DataLoaderConfiguration(non_blocking=True)
accelerator = Accelerator(mixed_precision="bf16", dataloader_config=copies)
network, optimizer, batches = accelerator.prepare(network, optimizer, batches)
started = 0.0
for number, batch in enumerate(batches):
    if number == 3:
        started = start()
    loss = network(batch.repeat(1, 32, 1)).float().square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
report("none: BF16 products on the tensor cores", STEPS, started)
