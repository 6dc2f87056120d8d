"""What is pending when it is saved is computed, and comes back: files of PyTorch, of safetensors,
of a checkpoint."""

from __future__ import annotations

import io
import pickle
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

VALUES = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def pending() -> torch.Tensor:
    """Nobody has computed its value yet."""
    return torch.arange(6.0, device="ftm") * 2


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_save(zipped: bool) -> None:
    x = pending()
    file = io.BytesIO()
    torch.save(
        {"x": x, "row": x.view(2, 3)[1], "own": nn.Parameter(x * 3)},
        file,
        _use_new_zipfile_serialization=zipped,
    )
    file.seek(0)
    here = torch.load(file, map_location="cpu")
    assert here["x"].tolist() == VALUES and here["row"].tolist() == VALUES[3:]
    file.seek(0)
    there = torch.load(file)
    assert {value.device for value in there.values()} == {torch.device("ftm", 0)}
    there["x"].add_(1)
    assert there["row"].tolist() == [7.0, 9.0, 11.0], "they share their storage, as before"
    assert there["own"].tolist() == [3 * value for value in VALUES]


def test_pickle() -> None:
    assert pickle.loads(pickle.dumps(pending())).tolist() == VALUES


def test_safetensors(tmp_path: Path) -> None:
    import safetensors.torch as torch_files

    file = str(tmp_path / "x.safetensors")
    torch_files.save_file({"x": pending()}, file)
    assert torch_files.load_file(file)["x"].tolist() == VALUES
    assert torch_files.load(torch_files.save({"x": pending()}))["x"].tolist() == VALUES
    with pytest.raises(ValueError, match="non contiguous"):
        torch_files.save_file({"x": pending().view(2, 3).t()}, file)
    x = pending()
    with pytest.raises(RuntimeError, match="share memory"):
        torch_files.save_file({"x": x, "part": x[:3]}, file)
    loaded = torch_files.load_file(file, device="ftm")["x"]
    assert loaded.device.type == "ftm" and loaded.tolist() == VALUES
    model = nn.Linear(3, 2).to("ftm")
    nn.init.normal_(model.weight)
    torch_files.save_model(model, file)
    again = nn.Linear(3, 2).to("ftm")
    torch_files.load_model(again, file)
    assert torch.equal(again.weight, model.weight)


def test_distributed_checkpoint_of_one_process(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    def made() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = nn.Linear(3, 2).to("ftm")
        return model, torch.optim.AdamW(model.parameters())

    model, optimizer = made()
    model(torch.ones(1, 3, device="ftm")).sum().backward()
    optimizer.step()
    x = pending()
    again, its_optimizer = made()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is one process
        weights, state = get_state_dict(model, optimizer)
        checkpoint.save(
            {"weights": weights, "state": state, "x": x, "turned": x.view(2, 3).t()},
            checkpoint_id=tmp_path,
        )
        weights, state = get_state_dict(again, its_optimizer)
        found = {
            "weights": weights,
            "state": state,
            "x": torch.zeros(6, device="ftm"),
            "turned": torch.zeros(3, 2, device="ftm"),
        }
        checkpoint.load(found, checkpoint_id=tmp_path)
        set_state_dict(
            again, its_optimizer, model_state_dict=found["weights"], optim_state_dict=found["state"]
        )
    assert found["x"].tolist() == VALUES
    assert found["turned"].t().flatten().tolist() == VALUES
    assert torch.equal(again.weight, model.weight)
    for name in ("exp_avg", "exp_avg_sq"):
        assert torch.equal(
            its_optimizer.state[again.weight][name], optimizer.state[model.weight][name]
        )
