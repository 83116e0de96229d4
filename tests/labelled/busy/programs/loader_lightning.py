"""Train with Lightning and a DataLoader whose two workers decode slowly.

Lost time: the training thread waits for the workers, which need 32 ms a batch for steps of 4 ms.
"""

import time
import warnings

import lightning
import torch
import torch.utils.data
from common import report, start
from lightning.pytorch.plugins.environments import LightningEnvironment

STEPS = 40
warnings.filterwarnings("ignore")


class Recordings(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 16 * (STEPS + 4)

    def __getitem__(self, number: int) -> torch.Tensor:
        time.sleep(4e-3)  # a slow decoder
        return torch.full((64, 1024), number / 1000)


class Network(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layers = [torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU()) for _ in range(8)]
        self.layers = torch.nn.Sequential(*layers)

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        if number == 4:  # the workers have started
            self.began = start()
        return self.layers(batch.repeat(4, 1, 1)).square().mean()

    def on_train_end(self) -> None:
        report("waiting for a slow DataLoader with workers", STEPS, self.began)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Recordings(), batch_size=16, num_workers=2)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        accelerator="gpu",
        devices=1,
        max_epochs=1,
        plugins=[LightningEnvironment()],
        enable_model_summary=False,
        **quiet,
    )
    trainer.fit(Network(), loader)
