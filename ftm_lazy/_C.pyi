"""The recorder: functions of `csrc/torch/module.cpp` and `csrc/capture/bindings.cpp`, which say what each takes."""

from typing import Any

def __getattr__(name: str) -> Any: ...
