"""What counts as a recompile, and what is said of it."""

import time

from ftm_lazy.recompiles import History


def trace(rows: int = 64, alpha: str = "$0", dtype: str = "f32", extra: str = "") -> str:
    scalar = "  $0 = scalar f64\n" if alpha == "$0" else ""
    return (
        f"trace\n  %0 = param {dtype}[{rows},10]\n{scalar}"
        f"  %1 = aten::add.Tensor(self=%0, other=%0, alpha={alpha}) : {dtype}[{rows},10]\n{extra}  return %1\n"
    )


def test_the_first_trace_explains_nothing():
    assert History().add(trace(), settled=True) is None


def test_shape_dtype_constant():
    history = History()
    history.add(trace(64), False)
    text = history.add(trace(32), False)
    assert "program 1 is nearly program 0, but for shape (2x)" in text
    assert "`%0 = param f32[32,10]` was `%0 = param f32[64,10]`" in text
    assert "dtype (2x)" in after(trace()).add(trace(dtype="f64"), False)
    assert "constant (1x)" in after(trace(alpha="1")).add(trace(alpha="2"), False)


def after(*texts: str) -> History:
    history = History()
    for text in texts:
        history.add(text, False)
    return history


def test_the_nearest_is_named():
    history = after(trace(alpha="1"), trace(32, alpha="2"))
    assert "nearly program 1" in history.add(trace(32, alpha="3"), False)


def test_other_operations_count_once_the_loop_is_settled():
    extra = "  %2 = aten::relu(self=%1) : f32[64,10]\n"
    assert after(trace()).add(trace(extra=extra), False) is None
    assert "1 more aten::relu" in after(trace()).add(trace(extra=extra), True)
    assert "1 fewer aten::relu" in after(trace(extra=extra)).add(trace(), True)


def test_an_unrelated_program_does_not_count():
    other = "trace\n  %0 = param f32[2]\n" + "".join(
        f"  %{i} = aten::neg(self=%{i - 1}) : f32[2]\n" for i in range(1, 20)
    )
    assert after(trace()).add(other, True) is None


def test_long_traces_and_long_histories_cost_little():
    lines = "".join(f"  %{i} = aten::add.Scalar(self=%{i - 1}, other=1, alpha=1) : f32[2]\n" for i in range(1, 3000))
    history = History()
    begin = time.perf_counter()
    for size in range(50):
        history.add(f"trace\n  %0 = param f32[{size}]\n{lines}  return %2999\n", True)
    assert time.perf_counter() - begin < 10
