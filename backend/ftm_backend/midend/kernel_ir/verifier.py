"""Verifier of kernels on tensors: runs after every pass that builds or changes kernels.

A pass that moves statements between kernels can lose one, duplicate one, or move a reader before
its producer. Code generation would then address a value without memory, far from the fault.
"""

from __future__ import annotations

from ftm_backend.ir.linalg.function import Statement, Update, Value, statements_of
from ftm_backend.midend.analysis.use_def import home_of, makers_of
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.pass_manager import VerifyError

__all__ = ["verify_kernels"]


def verify_kernels(module: KernelModule) -> None:
    """Check that kernels have the function's statements, and store values before reads.

    Raises:
        VerifyError: Names the kernel and the value.
    """
    _check_statements(module)
    stored: dict[Value, Kernel] = {}
    computed: set[Statement] = set()
    for kernel in module.kernels:
        for value in kernel.inputs:
            _check_read(kernel, value, stored, computed)
        for value, result, tie in zip(kernel.outputs, kernel.made, kernel.ties, strict=True):
            if result is not None and tie is None and value in stored:
                raise VerifyError(f"{kernel.name} stores {value}, as {stored[value].name} does")
            stored[value] = kernel
        computed.update(kernel.statements)
    for tensor in module.function.results:
        home = home_of(tensor.value)
        if isinstance(home.producer, Statement) and home not in stored:
            raise VerifyError(f"no kernel stores the result {home}")


def _check_statements(module: KernelModule) -> None:
    """Check that kernels have the function's statements, and no others."""
    held = {statement for kernel in module.kernels for statement in kernel.statements}
    body = dict.fromkeys(statements_of(module.function))
    for statement in body:
        if statement not in held:
            raise VerifyError(f"no kernel computes {_describe(statement)}")
    for kernel in module.kernels:
        for statement in kernel.statements:
            if statement not in body:
                raise VerifyError(
                    f"{kernel.name} computes {_describe(statement)}, which is not in the program"
                )


def _check_read(
    kernel: Kernel, value: Value, stored: dict[Value, Kernel], computed: set[Statement]
) -> None:
    """Check that earlier kernels have stored a value."""
    home = home_of(value)
    if isinstance(home.producer, Statement | Update) and home not in stored:
        raise VerifyError(f"{kernel.name} reads {value}, which no kernel before it stores")
    for maker in makers_of(value):
        if maker not in computed:
            raise VerifyError(f"{kernel.name} reads {value}, which is not complete before it")


def _describe(statement: Statement) -> str:
    return f"{statement.op} over {statement.loops}"
