"""``ftm conformance``: the emulator passes; another machine's faults are found and can be
expected."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from frontends import conformance_models
from ftm_backend.conformance import checks
from ftm_backend.machine.build import LIBRARY
from ftm_backend.tools import ftm_conformance


def test_the_models_are_what_is_recorded() -> None:
    assert checks.models() == {
        name: conformance_models.text_of(name) for name in conformance_models.MODELS
    }


def test_the_emulator_is_compatible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its preset and as a library, with a report in both forms."""
    assert ftm_conformance.main(["host", "-o", str(tmp_path / "report.json")]) == 0
    text = capsys.readouterr().out
    assert text.endswith("compatible\n") and "mlp-step" in text
    found = json.loads((tmp_path / "report.json").read_text())["checks"]
    kinds = {check["name"].split()[0] for check in found}
    assert kinds == {"instruction", "op", "model"} and all(check["passed"] for check in found)
    assert ftm_conformance.main([str(LIBRARY), "--only", "op mm"]) == 0


_SHIM = r"""
#include <ftm_machine.h>
#include <dlfcn.h>
#include <string.h>
/* The emulator, but the first byte of each output is wrong. */
static void *real(const char *name) {
    static void *library;
    if (!library) library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return dlsym(library, name);
}
#define FORWARD(type, name, parameters, arguments) type name parameters { return ((type(*) parameters)real(#name)) arguments; }
FORWARD(int, ftm_abi_version, (void), ())
FORWARD(const char *, ftm_description, (void), ())
FORWARD(ftm_machine *, ftm_open, (const ftm_config *c, char *e, size_t n), (c, e, n))
FORWARD(void, ftm_close, (ftm_machine *m), (m))
FORWARD(int32_t, ftm_cores, (const ftm_machine *m), (m))
FORWARD(ftm_program *, ftm_load, (ftm_machine *m, const void *i, size_t s, char *e, size_t n), (m, i, s, e, n))
FORWARD(void, ftm_unload, (ftm_machine *m, ftm_program *p), (m, p))
FORWARD(int32_t, ftm_input_count, (const ftm_program *p), (p))
FORWARD(int32_t, ftm_scalar_count, (const ftm_program *p), (p))
FORWARD(int32_t, ftm_output_count, (const ftm_program *p), (p))
FORWARD(int, ftm_input_info, (const ftm_program *p, int32_t i, ftm_tensor_info *t), (p, i, t))
FORWARD(int, ftm_scalar_info, (const ftm_program *p, int32_t i, ftm_tensor_info *t), (p, i, t))
FORWARD(int, ftm_output_info, (const ftm_program *p, int32_t i, ftm_tensor_info *t), (p, i, t))
FORWARD(uint64_t, ftm_arena_bytes, (const ftm_program *p), (p))
FORWARD(int, ftm_poll, (const ftm_job *j, uint32_t t), (j, t))
FORWARD(void, ftm_interrupt, (ftm_job *j), (j))
FORWARD(void, ftm_release, (ftm_job *j), (j))
FORWARD(void, ftm_stats, (const ftm_machine *m, ftm_stats_data *s), (m, s))
static unsigned char *last;
ftm_job *ftm_submit(ftm_machine *m, ftm_program *p, void *const *in, void *const *out, const void *s, void *a, ftm_done d, void *u, char *e, size_t n) {
    last = ftm_output_count(p) ? out[0] : 0;
    return ((ftm_job *(*)(ftm_machine *, ftm_program *, void *const *, void *const *, const void *, void *, ftm_done, void *, char *, size_t))
        real("ftm_submit"))(m, p, in, out, s, a, d, u, e, n);
}
int ftm_wait(ftm_job *j, char *e, size_t n) {
    int status = ((int (*)(ftm_job *, char *, size_t))real("ftm_wait"))(j, e, n);
    if (last) last[3] ^= 0x40;
    return status;
}
"""


def test_a_machine_that_computes_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, library = tmp_path / "shim.c", tmp_path / "libshim.so"
    source.write_text(_SHIM)
    include = LIBRARY.parent / "include"
    subprocess.run(
        [
            "cc",
            "-shared",
            "-fPIC",
            f"-I{include}",
            f'-DLIBRARY="{LIBRARY}"',
            str(source),
            "-o",
            str(library),
            "-ldl",
        ],
        check=True,
    )
    assert ftm_conformance.main([str(library), "--only", "op mm f32"]) == 1
    assert "FAILED op mm f32: DIFFERS in 1 of" in capsys.readouterr().out
    expected = tmp_path / "expected.json"
    expected.write_text(json.dumps({"op mm f32": "the first product is late"}))
    assert (
        ftm_conformance.main([str(library), "--only", "op mm f32", "--expected", str(expected)])
        == 0
    )
    assert ftm_conformance.main(["host", "--only", "op mm f32", "--expected", str(expected)]) == 1
    assert "take it off the list" in capsys.readouterr().out


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ftm_conformance.main(["/nowhere/libmachine.so"]) == 2
    assert "neither a file nor a preset" in capsys.readouterr().err
    assert ftm_conformance.main(["host", "--only", "no such check"]) == 2
    (tmp_path / "bad.json").write_text("[1]")
    assert ftm_conformance.main(["host", "--expected", str(tmp_path / "bad.json")]) == 2
