"""Trains for many steps on several processes; the memory of each must not grow.

``python tests/distributed/soak.py --steps 2000 --ranks 4`` prints the growth of each process.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("ftm")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to("ftm")
model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.005)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x, y = torch.randn(16, 32).to("ftm"), torch.randint(0, 10, (16,)).to("ftm")

def megabytes():
    torch.ftm.synchronize()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

steps = int(sys.argv[1])
for step in range(steps):
    if step == steps // 4:
        begin = megabytes()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        dist.all_reduce(loss.detach())
print(f"rank {dist.get_rank()} grew by {megabytes() - begin:.2f} MB", flush=True)
dist.destroy_process_group()
"""


def growth(steps: int, ranks: int) -> list[float]:
    """Return by how many megabytes each process has grown after the first quarter of the steps."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(PROGRAM)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(ranks), str(file), str(steps)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "FTM_CORES": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return [float(number) for number in re.findall(r"grew by (-?[\d.]+) MB", done.stdout)]


def main() -> None:
    """Run it, and print the growth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--ranks", type=int, default=4)
    options = parser.parse_args()
    print("growth in MB:", *growth(options.steps, options.ranks))


if __name__ == "__main__":
    main()
