"""Why a program is compiled, and what is said of it."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

from ftm_backend.ir.trace.trace import Trace
from ftm_lazy.compile.recompile_explainer import CAUSES, CompileHistory, RecompileExplanation, read
from python_process import Program


def trace(
    rows: int = 64, alpha: str = "$0", dtype: str = "f32", extra: str = "", results: str = "%1"
) -> str:
    scalar = "  $0 = scalar f64\n" if alpha == "$0" else ""
    return (
        f"trace\n  %0 = param {dtype}[{rows},10]\n{scalar}"
        f"  %1 = aten::add.Tensor(self=%0, other=%0, alpha={alpha}) : {dtype}[{rows},10]\n{extra}  return {results}\n"
    )


def after(*texts: str) -> CompileHistory:
    history = CompileHistory()
    for text in texts:
        history.add(read(Trace.parse(text)))
    return history


def explained(
    history: CompileHistory, text: str, locations: tuple[str, ...] = ()
) -> RecompileExplanation:
    why = history.explain(read(Trace.parse(text)), locations)
    assert why.cause in CAUSES
    return why


def test_one_thread_explains_while_another_adds():
    history, record, ended = after(trace()), read(Trace.parse(trace(32))), Event()

    def add() -> None:
        while not ended.is_set():
            history.add(record)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            adding = pool.submit(add)
            try:
                for _ in range(300):
                    assert history.explain(record).cause in CAUSES
            finally:
                ended.set()
            adding.result()
    finally:
        sys.setswitchinterval(interval)


def test_the_first_trace_is_no_surprise():
    why = explained(CompileHistory(), trace())
    assert why == RecompileExplanation("first", "") and not why.is_recompile(settled=True)


def test_sizes_dtype_number():
    history = after(trace(64), trace(32))
    why = explained(history, trace(16), ("", "model.py:7"))
    assert why.cause == "new sizes" and why.is_recompile(settled=False)
    assert "program 2 differs from program 0: sizes (2x)" in why.text
    assert "`%0 = param f32[16,10]` was `%0 = param f32[64,10]`" in why.text
    assert explained(after(trace()), trace(dtype="f64")).cause == "new dtype"
    why = explained(after(trace(alpha="1")), trace(alpha="2"), ("model.py:7",))
    assert (
        why.cause == "new number"
        and "number (1x)" in why.text
        and why.text.endswith("(model.py:7)")
    )


def test_operands_and_results():
    extra = "  %2 = aten::mul.Tensor(self=%1, other=%0) : f32[64,10]\n"
    why = explained(after(trace(extra=extra, results="%2")), trace(extra=extra, results="%1, %2"))
    assert (
        why.cause == "new set of results"
        and "`%1 = aten::add.Tensor(" in why.text
        and "is needed now" in why.text
    )
    why = explained(after(trace(extra=extra, results="%1, %2")), trace(extra=extra, results="%2"))
    assert why.cause == "new set of results" and "is not needed now" in why.text
    other = extra.replace("self=%1", "self=%0")
    assert explained(after(trace(extra=extra)), trace(extra=other)).cause == "new operands"


def test_the_nearest_is_named():
    history = after(trace(alpha="1"), trace(32, alpha="2"))
    assert "differs from program 1" in explained(history, trace(32, alpha="3")).text


def test_other_operations_are_a_surprise_once_the_loop_is_settled():
    extra = "  %2 = aten::relu(self=%1) : f32[64,10]\n"
    why = explained(after(trace()), trace(extra=extra))
    assert why.cause == "new op sequence" and "1 more aten::relu, at the end" in why.text
    assert why.is_recompile(settled=True) and not why.is_recompile(settled=False)
    assert "1 fewer aten::relu" in explained(after(trace(extra=extra)), trace()).text
    why = explained(
        after(trace(extra=extra)), trace(extra=extra.replace("relu", "tanh")), ("", "model.py:9")
    )
    assert why.text.endswith("operation 2 is aten::tanh, was aten::relu (model.py:9)")


def test_an_unrelated_program_is_a_first_one():
    other = "trace\n  %0 = param f32[2]\n" + "".join(
        f"  %{i} = aten::neg(self=%{i - 1}) : f32[2]\n" for i in range(1, 20)
    )
    assert explained(after(trace()), other + "  return %19\n").cause == "first"


def test_a_recompile_of_a_step_names_the_users_line(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import torch
model = torch.nn.Linear(4, 4).to("ftm")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def step(n):
    model(torch.ones(n, 4).to("ftm")).sum().backward()
    optimizer.step()  # the line
for n in (3, 5):
    step(n)
""")
    environment = {"FTM_DEBUG": "recompile", "FTM_CACHE_DIR": "off"}
    done = Program(program, environment=environment).wait(120)
    told = [line for line in done.stderr.splitlines() if "RuntimeWarning" in line]
    assert told and all(line.startswith(f"{program}:7: ") for line in told), done.stderr


def test_another_thread_may_add_while_one_explains():
    """A comparison adds a trace here, which stands for a switch to a thread that does."""
    history = after(*(trace(rows) for rows in range(4)))

    class Interrupted(tuple):
        __hash__ = tuple.__hash__

        def __eq__(self, other: object) -> bool:
            history.add(read(Trace.parse(trace(5))))
            return tuple(self) == other

    mine = read(Trace.parse(trace(1000)))
    assert (
        history.explain(replace(mine, operations=Interrupted(mine.operations))).cause == "new sizes"
    )
