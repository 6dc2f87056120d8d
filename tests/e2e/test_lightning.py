"""Lightning's Trainer and Fabric with ``accelerator="ftm"``: losses as on the CPU, mixed precision,
checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from python_process import run_python

TRAINER = """
import json, sys, warnings, torch
from torch import nn
import lightning as L
from lightning.pytorch.callbacks import DeviceStatsMonitor, ModelCheckpoint

class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.losses = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), []
    def training_step(self, batch, number):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        self.losses.append(loss.detach())
        return loss
    def validation_step(self, batch, number):
        self.log("right", (self.net(batch[0]).argmax(1) == batch[1]).float().mean())
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-2)

device, precision, folder = sys.argv[1:]
L.seed_everything(0)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(32, 16), torch.randint(0, 4, (32,))), batch_size=8)
def trainer(epochs):
    return L.Trainer(accelerator=device, precision=precision, max_epochs=epochs, gradient_clip_val=1.0, enable_progress_bar=False,
                     default_root_dir=folder, logger=L.pytorch.loggers.CSVLogger(folder), log_every_n_steps=1,
                     callbacks=[ModelCheckpoint(folder, "last", save_last=False), DeviceStatsMonitor()] if device != "cpu" else None)
module = Module()
first = trainer(2)
first.fit(module, data, data)
where = str(module.losses[0].device), first.strategy.root_device.type, type(first.accelerator).__name__
scaler = getattr(first.precision_plugin, "scaler", None) is not None
losses = [float(loss) for loss in module.losses]
if device != "cpu":
    again = Module()
    trainer(3).fit(again, data, data, ckpt_path=folder + "/last.ckpt")
    assert len(again.losses) == 4, len(again.losses)
print(json.dumps([where, scaler, losses]))
"""

FABRIC = """
import json, sys, torch
from torch import nn
import lightning as L
L.seed_everything(0)
fabric = L.Fabric(accelerator=sys.argv[1], precision=sys.argv[2])
fabric.launch()
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
net, optimizer = fabric.setup(net, torch.optim.AdamW(net.parameters(), 1e-2))
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(32, 16), torch.randint(0, 4, (32,))), batch_size=8)
losses = []
for x, y in fabric.setup_dataloaders(data):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
    losses.append(loss.item())
print(json.dumps([[str(x.device), fabric.device.type, type(fabric.accelerator).__name__], hasattr(fabric._precision, "scaler"), losses]))
"""


def run(program: str, *arguments: str) -> list:
    """What the program prints last."""
    made = run_python(program, *arguments, timeout=300, library="lightning")
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout.splitlines()[-1])


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
def test_trainer(precision: str, tmp_path: Path) -> None:
    where, scaler, losses = run(TRAINER, "ftm", precision, str(tmp_path))
    assert (where, scaler) == (["ftm:0", "ftm", "FTMAccelerator"], precision == "16-mixed")
    *_, expected = run(TRAINER, "cpu", "32-true", str(tmp_path))
    assert losses == pytest.approx(expected, rel=1e-5 if precision == "32-true" else 2e-2)


def test_fabric() -> None:
    where, _, losses = run(FABRIC, "ftm", "16-mixed")
    assert where == ["ftm:0", "ftm", "FTMAccelerator"]
    *_, expected = run(FABRIC, "cpu", "32-true")
    assert losses == pytest.approx(expected, rel=2e-2)


SEVERAL = """
import lightning as L, torch
trainer = L.Trainer(accelerator="ftm", devices=2, logger=False, enable_checkpointing=False)
print(trainer.num_devices, type(trainer.strategy).__name__, torch.ftm.device_count())
"""


def test_several_devices_are_several_processes() -> None:
    made = run_python(SEVERAL, library="lightning")
    assert made.stdout == "2 DDPStrategy 2\n", made.stderr
