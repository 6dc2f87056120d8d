"""Train, save and resume with libraries that have XLA code paths; print the losses as JSON.

    python libraries.py DIRECTORY xla|cpu

For each library: where it trained, the losses of a whole run, and those after its middle of one
that was resumed there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def data() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    return TensorDataset(
        torch.randn(48, 16, generator=generator), torch.randint(0, 4, (48,), generator=generator)
    )


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def by_transformers(directory: Path, cpu: bool):
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
    from transformers.utils import is_torch_xla_available

    def trained(resume: str | None) -> tuple[list[float], Trainer]:
        set_seed(0)
        config = GPT2Config(
            vocab_size=64,
            n_positions=16,
            n_embd=32,
            n_layer=1,
            n_head=2,
            resid_pdrop=0,
            embd_pdrop=0,
            attn_pdrop=0,
            bos_token_id=0,
            eos_token_id=0,
        )
        tokens = torch.randint(0, 64, (16, 16), generator=torch.Generator().manual_seed(0))
        arguments = TrainingArguments(
            str(directory),
            per_device_train_batch_size=4,
            max_steps=6,
            logging_steps=1,
            save_steps=3,
            report_to=[],
            disable_tqdm=True,
            learning_rate=1e-2,
            use_cpu=cpu,
        )
        trainer = Trainer(
            GPT2LMHeadModel(config),
            arguments,
            train_dataset=[{"input_ids": row, "labels": row} for row in tokens],
        )
        trainer.train(resume_from_checkpoint=resume)
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], trainer

    whole, trainer = trained(None)
    assert is_torch_xla_available() is not cpu
    return str(trainer.args.device), whole, trained(f"{directory}/checkpoint-3")[0][3:]


def by_accelerate(directory: Path, cpu: bool):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=cpu)
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, DataLoader(data(), batch_size=8)
    )

    def epoch() -> list[float]:
        losses = []
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(accelerator.gather(loss).mean().item())
        return losses

    whole = epoch()
    accelerator.save_state(str(directory))
    whole += epoch()
    accelerator.load_state(str(directory))
    assert str(accelerator.distributed_type) == (
        "DistributedType.NO" if cpu else "DistributedType.XLA"
    )
    return str(accelerator.device), whole, epoch()


def by_lightning(directory: Path, cpu: bool):
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.losses = net(), []

        def training_step(self, batch, index):
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-2)

    def trained(resume: str | None) -> tuple[list[float], lightning.Trainer]:
        module = Module()
        trainer = lightning.Trainer(
            accelerator="cpu" if cpu else "tpu",
            devices=1,
            max_epochs=2,
            default_root_dir=directory,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[ModelCheckpoint(directory, filename="{epoch}", save_top_k=-1)],
        )
        trainer.fit(module, DataLoader(data(), batch_size=8), ckpt_path=resume)
        return [loss.item() for loss in module.losses], trainer

    whole, trainer = trained(None)
    return str(trainer.strategy.root_device), whole, trained(f"{directory}/epoch=0.ckpt")[0]


LIBRARIES = {
    "transformers": by_transformers,
    "accelerate": by_accelerate,
    "lightning": by_lightning,
}

if __name__ == "__main__":
    print(
        json.dumps(
            {
                name: train(Path(sys.argv[1], name), sys.argv[2] == "cpu")
                for name, train in LIBRARIES.items()
            }
        )
    )
