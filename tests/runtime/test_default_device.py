"""What libraries choose by themselves: ftm only if the user has made it the default."""

from __future__ import annotations

from pathlib import Path

import pytest

from python_process import Program

CHOICES = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
{prologue}
import accelerate, lightning
from transformers import GPT2Config, GPT2LMHeadModel
print(accelerate.Accelerator().device.type)
trainer = lightning.Trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False)
print(trainer.strategy.root_device.type)
config = GPT2Config(vocab_size=8, n_positions=4, n_embd=4, n_layer=1, n_head=1)
config.bos_token_id = config.eos_token_id = 0
with torch.device("cpu"):
    GPT2LMHeadModel(config).save_pretrained(sys.argv[1])
print(GPT2LMHeadModel.from_pretrained(sys.argv[1], device_map="auto").device.type)
print(torch.accelerator.current_accelerator().type)
"""


def choices(folder: Path, prologue: str = "", **environment: str) -> list[str]:
    code = CHOICES.format(prologue=prologue)
    done = Program(code, (str(folder),), library="lightning", environment=environment).wait(300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_an_installation_changes_no_choice(tmp_path: Path) -> None:
    assert choices(tmp_path) == ["cpu", "cpu", "cpu", "ftm"]


@pytest.mark.parametrize(
    ("prologue", "environment"),
    [("", {"FTM_DEFAULT": "1"}), ("torch.set_default_device('ftm')", {})],
)
def test_the_default_device_is_chosen(
    prologue: str, environment: dict[str, str], tmp_path: Path
) -> None:
    assert choices(tmp_path, prologue, **environment) == ["ftm"] * 4
