"""Train a wide network with Lightning in BF16, with a fused optimizer and batches that lie on the GPU."""

import lightning
import torch
from common import report, start

STEPS, WARM_UP, WIDTH = 30, 3, 8192


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layers = [
            torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(inplace=True)) for _ in range(3)
        ]
        self.network = torch.nn.Sequential(*layers)
        self.started = 0.0

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        if number == WARM_UP:
            self.started = start()
        return self.network(batch).mean(dtype=torch.float32)

    def on_train_end(self) -> None:  # before the model is moved to the host
        report("", STEPS, self.started)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-5, fused=True)


batches = [torch.randn(16384, WIDTH, device="cuda", dtype=torch.bfloat16)] * (STEPS + WARM_UP)
quiet = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
trainer = lightning.Trainer(max_epochs=1, accelerator="gpu", devices=1, precision="bf16-true", **quiet)
trainer.fit(Module(), torch.utils.data.DataLoader(batches, batch_size=None))
