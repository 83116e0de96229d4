"""Fine-tune BERT with the Trainer, then evaluate.

What repeats: 24 training steps, then 40 evaluation batches.
"""

import tempfile
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from truth import begin, end, tell, timed

STEPS = 24
EVALUATED = 40
BATCH = 64
LENGTH = 256


class Clock(TrainerCallback):
    def on_train_begin(self, *_: object, **__: Any) -> None:
        begin("training steps")

    def on_train_end(self, *_: object, **__: Any) -> None:
        end("training steps", STEPS)


def rows(count: int) -> list[dict[str, torch.Tensor]]:
    ids, labels = torch.randint(0, 8000, (count, LENGTH)), torch.randint(0, 2, (count,))
    return [{"input_ids": row, "labels": label} for row, label in zip(ids, labels, strict=True)]


torch.set_float32_matmul_precision("high")
config = BertConfig(vocab_size=8000, hidden_size=512, num_hidden_layers=4, num_attention_heads=8)
config.intermediate_size = 2048
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=arguments,
        train_dataset=rows(STEPS * BATCH),
        eval_dataset=rows(EVALUATED * BATCH),
        callbacks=[Clock()],
    )
    trainer.train()
    with timed("evaluation batches", EVALUATED):
        trainer.evaluate()
tell("training steps")
