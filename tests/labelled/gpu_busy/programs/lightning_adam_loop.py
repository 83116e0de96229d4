"""Train a wide network on small batches with Lightning, and an AdamW without foreach and fused.

Avoidable: the update of each matrix takes a dozen elementwise kernels, which pass over it again and again.
"""

import lightning
import torch
from common import report, start

CAUSE = "an optimizer without foreach and fused"
STEPS, WARM_UP, WIDTH = 25, 3, 4096


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(24)]
        self.network = torch.nn.Sequential(*layers)
        self.started = 0.0

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        if number == WARM_UP:
            self.started = start()
        return self.network(batch).mean()

    def on_train_end(self) -> None:  # before the model is moved to the host
        report(CAUSE, STEPS, self.started)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-5, foreach=False)


torch.set_float32_matmul_precision("high")
batches = [torch.randn(512, WIDTH, device="cuda")] * (STEPS + WARM_UP)
quiet = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
trainer = lightning.Trainer(max_epochs=1, accelerator="gpu", devices=1, **quiet)
trainer.fit(Module(), torch.utils.data.DataLoader(batches, batch_size=None))
