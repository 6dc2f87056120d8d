"""Accelerate and Transformers with mixed precision, as their users write it: losses as on the CPU,
scaled gradients with fp16."""

from __future__ import annotations

import json

import pytest

from python_process import run_python

ACCELERATE = """
import json, sys, torch
from accelerate import Accelerator
from torch import nn
torch.manual_seed(0)
accelerator = Accelerator(mixed_precision=sys.argv[1])
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
data = torch.utils.data.TensorDataset(torch.randn(32, 16), torch.randint(0, 4, (32,)))
model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=8))
losses = []
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
with accelerator.autocast():
    inside = str((x @ x.t()).dtype)
print(json.dumps([accelerator.device.type, inside, losses, accelerator.scaler is not None, accelerator.mixed_precision]))
"""

TRAINER = """
import json, sys, torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
set_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
tokens = torch.randint(0, 64, (16, 16), generator=torch.Generator().manual_seed(0))
arguments = TrainingArguments(sys.argv[2], per_device_train_batch_size=4, max_steps=3, logging_steps=1, report_to=[], save_strategy="no",
                              disable_tqdm=True, seed=0, **{sys.argv[1]: True})
trainer = Trainer(model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in tokens])
trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
print(json.dumps([arguments.device.type, losses, trainer.accelerator.scaler is not None]))
"""


def run(program: str, device: str, *arguments: str) -> list:
    """What the program prints last, run with Accelerate's own choice of a device."""
    made = run_python(
        program,
        *arguments,
        timeout=300,
        library="transformers.trainer",
        ACCELERATE_TORCH_DEVICE=device,
    )
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout.splitlines()[-1])


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_accelerate(precision: str) -> None:
    device, inside, losses, scales, precision_ = run(ACCELERATE, "ftm", precision)
    assert (device, precision_, scales) == ("ftm", precision, precision == "fp16")
    assert inside == {"fp16": "torch.float16", "bf16": "torch.bfloat16"}[precision]
    *_, expected, _, _ = run(ACCELERATE, "cpu", precision)
    assert losses == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_trainer(precision: str, tmp_path) -> None:
    device, losses, scales = run(TRAINER, "ftm", precision, str(tmp_path))
    assert (device, scales) == ("ftm", precision == "fp16")
    _, expected, _ = run(TRAINER, "cpu", "use_cpu", str(tmp_path))
    assert losses == pytest.approx(expected, rel=2e-3)
