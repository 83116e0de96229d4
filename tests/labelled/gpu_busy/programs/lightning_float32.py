"""Train an encoder with Lightning at its default precision.

Avoidable: precision "32-true" with FP32 products; Lightning itself prints that TF32 is available.
"""

import lightning
import torch
from common import report, start

CAUSE = "FP32 products without TF32"
STEPS, WARM_UP = 20, 3


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True)
        self.network = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.started = 0.0

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        if number == WARM_UP:
            self.started = start()
        return self.network(batch).square().mean()

    def on_train_end(self) -> None:  # before the model is moved to the host
        report(CAUSE, STEPS, self.started)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


batches = [torch.randn(32, 512, 1024, device="cuda")] * (STEPS + WARM_UP)
quiet = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
trainer = lightning.Trainer(max_epochs=1, accelerator="gpu", devices=1, **quiet)
trainer.fit(Module(), torch.utils.data.DataLoader(batches, batch_size=None))
