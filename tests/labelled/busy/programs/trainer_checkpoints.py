"""Train GPT-2 with the Trainer of transformers, which evaluates and writes a checkpoint every tenth step.

Lost time: the checkpoints of 0.5 GB. The steps between them keep the GPU busy.
"""

import os
import tempfile
import warnings

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # else the Trainer takes all GPUs

import torch
import torch.utils.data
from common import report, start
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

STEPS = 40
warnings.filterwarnings("ignore")
torch.set_float32_matmul_precision("high")


class Tokens(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8 * STEPS + 32

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(512) * (number + 1)) % 8192
        return {"input_ids": tokens, "labels": tokens}


class Clock(TrainerCallback):
    began = 0.0

    def on_step_begin(self, _args: object, state: object, *_: object, **__: object) -> None:
        if state.global_step == 1:
            self.began = start()

    def on_train_end(self, *_: object, **__: object) -> None:
        report("spikes: a checkpoint and an evaluation every tenth step", STEPS - 1, self.began)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        options = {"max_steps": STEPS, "save_steps": 10, "eval_steps": 10, "eval_strategy": "steps"}
        options["prediction_loss_only"] = True
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=8, report_to="none", disable_tqdm=True, bf16=True, **options
        )
        config = GPT2Config(vocab_size=8192, n_layer=6, n_embd=768, n_head=12, bos_token_id=0, eos_token_id=0)
        model = GPT2LMHeadModel(config)
        few = torch.utils.data.Subset(Tokens(), range(16))
        Trainer(model, arguments, train_dataset=Tokens(), eval_dataset=few, callbacks=[Clock()]).train()
