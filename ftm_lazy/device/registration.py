"""Registration of the device with PyTorch, and its initialization at the first use.

`import torch` calls the entry point ``ftm_autoload`` of the group ``torch.backends``, which imports
``ftm_lazy``, which calls `register`. Programs that disable this
(``TORCH_DEVICE_BACKEND_AUTOLOAD=0``) import ``ftm_lazy`` themselves. `register` is part of every
`import torch`, so it only loads the recorder and sets the device's name and module. PyTorch calls
`initialize` (as ``torch.ftm._lazy_init``) before it makes the first tensor on the device.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import shlex
import sys
import threading
import warnings
from importlib import import_module, metadata
from typing import Any

import torch
import typing_extensions

from ftm_lazy.torch_version import supported

_REINSTALL = "run `pip install --no-build-isolation --force-reinstall --no-deps .` in ftm's sources"

_EXIT_PATIENCE = 60.0
"""Seconds for which the end of a process waits for its collectives in flight."""

_registered = False
_initialized = False
_of_thread = threading.local()
_step_holds = 0  # see hold_steps
_initializing = threading.RLock()


def register() -> None:
    """Register the device ``ftm`` (or FTM_DEVICE_NAME) with PyTorch, once.

    Raises:
        ImportError: The recorder is not built, is built for another version of PyTorch, or does not
            load. The message has the command that helps.
    """
    global _registered
    if _registered:
        return
    reason = supported.mismatch(torch.__version__)
    if reason is not None:
        raise ImportError(reason)
    from ftm_lazy.device.device_name import NAME, add_methods

    torch.utils.rename_privateuse1_backend(NAME)
    try:
        # registers the kernels; `from ftm_lazy import _C` raises the same error for a missing and
        # for a broken module
        import_module("ftm_lazy._C")
    except ModuleNotFoundError as error:
        raise ImportError(
            "ftm_lazy._C, the recorder, is not built:"
            " run `make build`, or install the package with pip"
        ) from error
    except ImportError as error:
        # another PyTorch of the same version, another C library, a damaged file
        raise ImportError(
            f"ftm_lazy._C, the recorder, does not load ({error}): {_REINSTALL}"
        ) from error
    from ftm_lazy import inductor
    from ftm_lazy.device import device_choice_patches, device_index, dlpack, torch_ftm
    from ftm_lazy.integrations import (
        data_parallel,
        flex_attention,
        hugging_face,
        lightning,
        multiprocessing,
        safetensors,
    )
    from ftm_lazy.legacy_storages import legacy_storages

    device_index.set_requested_count()
    torch._register_device_module(NAME, torch_ftm)
    torch.ftm = torch_ftm  # whatever the device's name
    for name in ("amp", "memory", "nvtx", "streams"):  # for `import torch.ftm.amp`
        for package in dict.fromkeys((f"torch.{NAME}", "torch.ftm")):
            sys.modules[f"{package}.{name}"] = getattr(torch_ftm, name)
    for storage in legacy_storages(f"torch.{NAME}"):
        setattr(torch_ftm, storage.__name__, storage)
    add_methods()
    _register_process_groups(NAME)
    _print_from_the_cpu()
    dlpack.install()
    flex_attention.install()
    safetensors.install()
    multiprocessing.install()
    hugging_face.install()
    lightning.install()
    device_choice_patches.install()
    _record_backward_on_this_thread()
    inductor.install()
    data_parallel.install()
    # registered early, so it runs after nearly all other exit handlers, which may use the device
    atexit.register(_shut_down)
    _registered = True


def _record_backward_on_this_thread() -> None:
    """Let ``backward()`` and ``torch.autograd.grad`` record on the thread that calls them.

    The function has no Python frame of its own, which Dynamo would try to compile.
    """
    from ftm_lazy import _C

    run = torch.autograd.graph._engine_run_backward
    for module in (torch.autograd, torch.autograd.graph):
        vars(module)["_engine_run_backward"] = functools.partial(_C._run_backward, run)


def _register_process_groups(device: str) -> None:
    """Register ``ftm`` as torch.distributed's backend for tensors on the device."""
    if not torch.distributed.is_available():
        return

    def create(*args: Any) -> object:
        from ftm_lazy.distributed import process_group

        return process_group.create(*args)

    for name in dict.fromkeys(("ftm", device)):
        torch.distributed.Backend.register_backend(name, create, devices=[device, "cpu"])


def _print_from_the_cpu() -> None:
    """Let `repr` of a tensor copy it to the CPU first.

    PyTorch selects and measures the elements to print with operations on the tensor's device. Here
    each of them would be compiled as a separate program. PyTorch copies tensors of its own lazy
    devices (XLA, Lazy) to the CPU first, but not those of PrivateUse1.
    """
    from torch import _tensor_str

    from ftm_lazy.device.device_name import NAME

    format_elements = _tensor_str._tensor_str

    def format_from_the_cpu(tensor: torch.Tensor, indent: int) -> str:
        return format_elements(tensor.cpu() if tensor.device.type == NAME else tensor, indent)

    _tensor_str._tensor_str = format_from_the_cpu


def is_initialized() -> bool:
    """Return whether `initialize` has run: a tensor or a query of the device starts it."""
    return _initialized


def note_device_choice() -> None:
    """Note that this thread's current device was set, by ``set_device``."""
    _of_thread.has_chosen = True


def was_used() -> bool:
    """Return whether this process has made a tensor on the device, or this thread has chosen it.

    Queries do not count. Nor does a choice of another thread: that in which a ``DataLoader`` pins
    memory makes one in every program.
    """
    from ftm_lazy import _C

    return getattr(_of_thread, "has_chosen", False) or _C._device_was_used()


def initialize() -> None:
    """Read the settings and start the machine and the compiler, once.

    Raises:
        SettingsError: An environment variable has an invalid value.
        ImportError: A package is missing. The message has the command that helps.
    """
    global _initialized
    if _initialized:
        return
    with _initializing:
        if _initialized:
            return
        try:
            _initialize()
        except ModuleNotFoundError as error:
            raise ImportError(_missing(error.name or str(error))) from error
        _initialized = True


def _missing(module: str) -> str:
    """Return the message for a missing module: how to install the version that ftm requires."""
    package = module.partition(".")[0]
    try:
        requirements = metadata.requires("torch-ftm") or []
    except metadata.PackageNotFoundError:
        requirements = []
    for requirement in requirements:
        name = itertools.takewhile(lambda c: c.isalnum() or c in "._-", requirement)
        if "".join(name).replace("-", "_") == package:
            command = f"pip install {shlex.quote(requirement)}"
            return f"ftm needs the package {package}, which is not installed: run `{command}`"
    return f"the module {module}, which ftm needs, is not installed: {_REINSTALL}"


def _initialize() -> None:
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    from ftm_backend.frontend.ops import native_ops, trait_table
    from ftm_lazy import _C, settings
    from ftm_lazy.compile import compile_client

    values = settings.current()
    library = values.machine_library
    if not library.is_file():
        raise ImportError(
            f"the machine library {library} is not built:"
            " run `make build`, or install the package with pip"
        )
    client = compile_client.client()
    operations = {name: list(dtypes) for name, dtypes in native_ops().items()}
    _C._set_recording(trait_table())
    _C._init(
        operations,
        str(library),
        values.cores,
        values.checked,
        values.instruction_limit,
        client.get_or_compile,
    )
    _C._in_bad_fork()  # makes the run queue, so that a forked child finds that it is one
    _C._set_compile_threads(client.threads)
    _C._set_strict(values.strict)
    _C._set_trace_limit(values.trace_limit)
    _C._set_loop_length(values.loop_length)
    _C._set_program_limit(values.program_limit, values.instance_memory)
    _C._set_debug_locations(not values.debug.isdisjoint({"locations", "recompile"}))
    if "locations" in values.debug:
        from ftm_lazy.profiler import module_hooks

        module_hooks.install()
    folders = (torch.__path__[0], os.path.dirname(os.path.dirname(__file__)))
    wrappers = [typing_extensions.__file__, warnings.__file__]  # of PyTorch's deprecated functions
    _C._set_library_folders([*(os.path.join(folder, "") for folder in folders), *wrappers])
    _C._set_executor(values.executor)
    if "recompile" in values.debug:
        _C._set_compile_at_launch(True)  # so that the warning's line is the one that launched
    if values.dump is not None and "data" in values.debug:
        _C._set_observer(client.observe)
    register_optimizer_step_pre_hook(_begin_of_step)
    register_optimizer_step_post_hook(_end_of_step)
    client.prepare()


def _shut_down() -> None:
    from ftm_lazy import _C

    if _initialized and not _C._in_bad_fork():  # a forked child does not own the machine
        # After an error, the other processes may wait for a collective that never comes, and end
        # only when this process does.
        failed = hasattr(sys, "last_value")
        if not failed:
            _C._launch_collectives()  # other processes may wait for them
        _C._shutdown(patience=0.0 if failed else _EXIT_PATIENCE)


def hold_steps(by: int) -> None:
    """Suspend the cuts at the end of optimizer steps (+1), or resume them (-1); calls nest."""
    global _step_holds
    _step_holds += by


def _begin_of_step(
    optimizer: torch.optim.Optimizer, args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    from ftm_lazy import _C

    if not torch.compiler.is_compiling():
        _C._begin_step()


def _end_of_step(
    optimizer: torch.optim.Optimizer, args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    # a compiled step is one program already, and Dynamo must not trace this call
    if not torch.compiler.is_compiling():
        end_step(optimizer)


def end_step(optimizer: object) -> None:
    """Cut the trace at the end of a training step, so that all steps are cut at the same point.

    Args:
        optimizer: The optimizer, or another object whose identity distinguishes the step's kind.
    """
    from ftm_lazy import _C

    if _step_holds == 0:
        _C._end_step(id(optimizer))
