"""Train ResNet-18 with Lightning.

What repeats: 60 training steps in 3 epochs, each with 6 validation steps.
"""

import lightning
import torch
import torchvision
from torch.utils.data import DataLoader, TensorDataset
from truth import begin, end, tell

EPOCHS = 3
BATCH = 256
TRAIN, VALIDATE = 20, 6


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = torchvision.models.resnet18(weights=None, num_classes=10)

    def on_train_start(self) -> None:
        begin("training steps")

    def on_train_end(self) -> None:
        end("training steps", EPOCHS * TRAIN)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        images, classes = batch
        return torch.nn.functional.cross_entropy(self.network(images), classes)

    def on_validation_start(self) -> None:
        begin("validation steps", wait=False)

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        images, classes = batch
        accuracy = (self.network(images).argmax(1) == classes).float().mean()
        self.log("accuracy", accuracy)

    def on_validation_end(self) -> None:
        end("validation steps", EPOCHS * VALIDATE, wait=False)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def loader(batches: int) -> DataLoader:
    images = torch.rand(batches * BATCH, 3, 64, 64)
    return DataLoader(TensorDataset(images, torch.randint(0, 10, (batches * BATCH,))), batch_size=BATCH)


trainer = lightning.Trainer(
    max_epochs=EPOCHS,
    accelerator="auto",
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    num_sanity_val_steps=0,
)
trainer.fit(Classifier(), loader(TRAIN), loader(VALIDATE))
tell("training steps")
