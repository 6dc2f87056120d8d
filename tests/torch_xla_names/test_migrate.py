"""``ftm-migrate`` rewrites and leaves the right code, and a second run changes nothing."""

from __future__ import annotations

import pytest

from ftm_lazy.migrate import migrate
from python_process import run_python

XM = "import torch\nimport torch_xla.core.xla_model as xm\n"
XLA = "import torch\nimport torch_xla\n"

REWRITES = [
    ("d = torch_xla.device()\n", 'd = torch.device("ftm")\n'),
    ("d = xm.xla_device(n=0)\n", 'd = torch.device("ftm")\n'),
    (
        "x = torch.ones(2, device='xla').to(\"xla:0\")\n",
        "x = torch.ones(2, device='ftm').to(\"ftm:0\")\n",
    ),
    ("s = 'xla'\n", "s = 'xla'\n"),
    ("if x.device.type == 'xla':\n    pass\n", "if x.device.type == 'ftm':\n    pass\n"),
    (
        "with torch.autocast('xla', dtype=d):\n    pass\n",
        "with torch.autocast('ftm', dtype=d):\n    pass\n",
    ),
    (
        "for i in x:\n    f(i)\n    # the step ends\n    xm.mark_step()\n",
        "for i in x:\n    f(i)\n    # the step ends\n",
    ),
    ("for i in x:\n    xm.mark_step()\n", "for i in x:\n    pass\n"),
    ("f(); xm.mark_step()\n", "f()\n"),
    (
        "xm.mark_step(wait=True)\ntorch_xla.sync(True)\n",
        "torch.ftm.synchronize()\ntorch.ftm.synchronize()\n",
    ),
    ("with torch_xla.step():\n    # a\n    f()\n\n    g()\nh()\n", "# a\nf()\n\ng()\nh()\n"),
    ("with torch_xla.step(), lock:\n    f()\n", "with lock:\n    f()\n"),
    ("@torch_xla.compile(full_graph=True)\ndef f(): pass\n", "def f(): pass\n"),
    ("f = torch_xla.compile(f, full_graph=True)\n", "f = f\n"),
    ("r = xm.optimizer_step(o, barrier=True)\n", "r = o.step()\n"),
    ("xm.optimizer_step(o, optimizer_args={'closure': c})\n", "o.step(**{'closure': c})\n"),
    ("xm.add_step_closure(print, args=(a, b))\n", "print(a, b)\n"),
    ("xm.add_step_closure(lambda a: a, (a,), run_async=True)\n", "(lambda a: a)(a)\n"),
    (
        "xm.add_step_closure(lambda args: print(f'{args}'), args=((1, ),))\n",
        "(lambda args: print(f'{args}'))((1, ))\n",
    ),
    ("xm.add_step_closure(lambda: print(f'{args}'))\n", "(lambda: print(f'{args}'))()\n"),
    ("xmp.spawn(main, args=(1, 2), nprocs=1)\n", "main(0, 1, 2)\n"),
    (
        "with xp.StepTrace('train', step_num=i), xp.Trace('a'):\n    f()\n",
        "with torch.profiler.record_function('train'), torch.profiler.record_function('a'):\n    f()\n",
    ),
    ("xm.wait_device_ops()\n", "torch.ftm.synchronize()\n"),
    ("torch_xla.manual_seed(3)\n", "torch.ftm.manual_seed(3)\n"),
]


def migrated(text: str) -> str:
    result = migrate(text.encode()).code
    assert migrate(result).code == result
    return result.decode()


@pytest.mark.parametrize(
    ("before", "after"), REWRITES, ids=[before.split("\n")[0] for before, _ in REWRITES]
)
def test_rewrites(before, after):
    imports = (
        "import torch\nimport torch_xla\nimport torch_xla.core.xla_model as xm\nimport torch_xla.debug.profiler as xp\n"
        "import torch_xla.distributed.xla_multiprocessing as xmp\n"
    )
    assert migrated(imports + before) == "import torch\n" + after


def test_several_processes():
    """A file that knows of them reduces its gradients as before; one that does not steps, and is
    told."""
    text = migrated(
        XLA
        + XM
        + "def main(i):\n    xm.optimizer_step(o, optimizer_args={'closure': c})\ntorch_xla.launch(main)\n"
    )
    assert (
        "    step_together(o, **{'closure': c})\n" in text
        and 'main(int(os.environ.get("LOCAL_RANK", 0)))\n' in text
    )
    assert (
        text.count("import os\n")
        == text.count("def step_together(")
        == text.count("def reduce_in_place(")
        == 1
    )
    text = migrated(
        XM
        + "from torch_xla.distributed.xla_multiprocessing import spawn\nspawn(f, (xm.all_reduce(xm.REDUCE_MAX, x),), n)\n"
    )
    assert 'spawn_processes(f, (reduce_over_processes("max", x, 1.0),), n)' in text
    text = migrated(XM + "xm.all_reduce('sum', x, groups=[[0], [1]])\n")
    assert (
        text
        == "import torch\nimport ftm_lazy.torch_xla.core.xla_model as xm\nxm.all_reduce('sum', x, groups=[[0], [1]])\n"
    )
    assert (
        migrate((XM + "xm.optimizer_step(o)\n").encode())
        .left[0][1]
        .endswith("wrap the model in DistributedDataParallel")
    )


def test_what_is_left_is_imported_and_reported():
    result = migrate((XM + "t = xm.RateTracker()\nxm.mark_step()\n").encode())
    assert (
        result.code.decode()
        == "import torch\nimport ftm_lazy.torch_xla.core.xla_model as xm\nt = xm.RateTracker()\n"
    )
    assert result.left == [
        (3, "torch_xla.core.xla_model.RateTracker: stays, from ftm_lazy.torch_xla")
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import torch_xla\nf(torch_xla.real_devices())\n",
            "import ftm_lazy.torch_xla as torch_xla\nf(torch_xla.real_devices())\n",
        ),
        (
            "from torch_xla import runtime as xr, amp\nxr.use_spmd()\n",
            "from ftm_lazy.torch_xla import runtime as xr\nxr.use_spmd()\n",
        ),
        ("import os, torch_xla\nos.x\n", "import os\nos.x\n"),
        (
            "import torch_xla.utils.utils\ntorch_xla.utils.utils.eprint()\n",
            "import ftm_lazy.torch_xla as torch_xla\nimport ftm_lazy.torch_xla.utils.utils\ntorch_xla.utils.utils.eprint()\n",
        ),
        (
            "try:\n    import torch_xla\nexcept ImportError:\n    pass\n",
            "try:\n    pass\nexcept ImportError:\n    pass\n",
        ),
        (
            '"""Doc."""\n# licence\nimport torch_xla\nx = torch_xla.device()\n',
            '"""Doc."""\nimport torch\n# licence\nx = torch.device("ftm")\n',
        ),
    ],
)
def test_imports(before, after):
    assert migrated(before) == after


def test_helpers_are_defined_once_and_run():
    source = (
        XM
        + "\nprint(xm.xrt_world_size(), xm.mesh_reduce('t', 3, lambda each: sum(each)))\nxm.master_print('x')\n"
    )
    text = migrated(source)
    assert (
        text.count("def process_count")
        == text.count("def gather_all")
        == text.count("def process_rank")
        == 1
    )
    done = run_python(text)
    assert done.stdout == "1 3\nx\n", done.stderr


@pytest.mark.parametrize(
    "source",
    [
        b"x = 1\r\n\tif 0: pass",
        b"# nothing of xla\r\nx  =  { 1:2 }\t# odd\r\n",
        b"# -*- coding: latin-1 -*-\ns = '\xe9 xla'\n",
        b"",
    ],
)
def test_other_bytes_stay(source):
    from ftm_lazy.migrate.rewrite import MigrateError

    try:
        assert migrate(source).code == source
    except MigrateError:
        assert source.startswith(b"x = 1")
    odd = b"import torch_xla\r\nx  =  { 1:2 }\t# odd\r\nif x :\r\n\ttorch_xla.sync()\r\n\ty=1 ;z=2\r\n"
    assert migrate(odd).code == b"x  =  { 1:2 }\t# odd\r\nif x :\r\n\ty=1 ;z=2\r\n"


COMMAND = "import runpy; runpy.run_module('ftm_lazy.migrate', run_name='__main__')"


def test_command(tmp_path):
    file = tmp_path / "a.py"
    file.write_text(XLA + "torch_xla.sync()\nprint(torch_xla.real_devices())\n")

    def command(*options):
        return run_python(COMMAND, *options, str(tmp_path), library="libcst")

    shown = command()
    assert (
        shown.returncode == 0
        and "-torch_xla.sync()" in shown.stdout
        and "a.py:4: torch_xla.real_devices" in shown.stderr
    )
    assert command("--check").returncode == 1 and "torch_xla.sync()" in file.read_text()
    assert command("--write").returncode == 0 and "sync" not in file.read_text()
    assert command("--check").returncode == 0
    file.write_text("def (:xla\n")
    broken = command()
    assert broken.returncode == 2 and "not Python" in broken.stderr
