"""The verifier of ftm operations: each rule refuses what breaks it, and shows the operation."""

import pytest
from ftm_backend.codegen.verify import VerifyError, verify
from ftm_backend.mlir import ir

TILE = '%t = "ftm.tile"() {depth = 1 : i64} : () -> memref<4x8xf32, 1>'
BUFFER = '%b = "ftm.buffer"() {symbol = "b0"} : () -> memref<64xf32>'
INDEX = "%c = arith.constant 0 : index"
LOAD = ('"ftm.load"(%b, %c, %t, %c) {{extents = array<i64: {0}>, strides = array<i64: {1}>, row_dims = {2} : i64, '
        'operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}} : (memref<64xf32>, index, memref<4x8xf32, 1>, index) -> ()')
MAP = ('"ftm.map"(%c, %c, %t, %c, %t, %c) ({{ ^bb0(%x: {0}): "ftm.yield"({1}) : ({2}) -> () }}) '
       '{{access = ["{3}"], results_ = ["{4}"], operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>}} : '
       "(index, index, memref<4x8xf32, 1>, index, memref<4x8xf32, 1>, index) -> ()")
VIEW = '%v = "ftm.view"(%arg0) {{offset = {0} : i64, strides = array<i64: {1}>}} : (tensor<4x8xf32>) -> tensor<{2}xf32>'


def module(*lines):
    body = "\n".join(lines)
    return ir.Module.parse(f"func.func @f(%arg0: tensor<4x8xf32>) {{\n{body}\nreturn\n}}")


SCAN = '%r = "ftm.scan"(%arg0) {{kind = "{0}"}} : (tensor<{1}>) -> tensor<{2}>'
SORT = '%r = "ftm.sort"(%arg0) : (tensor<{0}>) -> tensor<{1}>'
LONGS = '%u = "ftm.tile"() {depth = 1 : i64} : () -> memref<4x8xi64, 1>'
SCAN_TILE = ('"ftm.scan_tile"(%t, %c, %{0}, %c, %t, %c) {{kind = "{1}", down = 0 : i1}} : '
             "(memref<4x8xf32, 1>, index, memref<4x8x{2}, 1>, index, memref<4x8xf32, 1>, index) -> ()")
MERGE_TILE = ('"ftm.merge_tile"(%u, %c, %u, %c, %{0}, %c) : '
              "(memref<4x8xi64, 1>, index, memref<4x8xi64, 1>, index, memref<4x8x{1}, 1>, index) -> ()")

VALID = [
    (BUFFER, TILE, INDEX, LOAD.format("4, 8", "8, 1", 1)),
    (BUFFER, TILE, INDEX, LOAD.format("2, 2, 2, 4", "32, 16, 8, 0", 2)),
    (TILE, INDEX, MAP.format("f32", "%x", "f32", "full", "full")),
    (TILE, INDEX, MAP.format("f32", "%x", "f32", "row", "rsum.acc")),
    (VIEW.format(3, "1, 8", "8x4").replace("offset = 3", "offset = 0"),),
    (VIEW.format(0, "99, 1", "0x4"),),
    (VIEW.format(31, "-8, -1", "4x8"),),
    (LONGS, INDEX, MERGE_TILE.format("u", "i64")),
]
INVALID = [
    ((SCAN.format("mean", "4x8xf32", "4x8xf32"),), "OxNxI"),
    ((SORT.format("4x8xf32", "4x8xf32"),), "of i64"),
    ((TILE, LONGS, INDEX, SCAN_TILE.format("u", "add", "i64")), "with a carry of i64"),
    ((TILE, INDEX, SCAN_TILE.format("t", "mean", "f32")), "with a carry of f32"),
    ((TILE, LONGS, INDEX, MERGE_TILE.format("t", "f32")), "takes tiles of i64"),
    (("%v = \"ftm.nonsuch\"() : () -> index",), "unknown operation 'ftm.nonsuch'"),
    (("\"other.thing\"() : () -> ()",), "unknown operation 'other.thing'"),
    (('"ftm.barrier"() ({}) : () -> ()',), "has 0 regions"),
    (('%t = "ftm.tile"() : () -> memref<4x8xf32, 1>',), "needs the attribute 'depth'"),
    (('%t = "ftm.tile"() {depth = 1 : i64} : () -> memref<4x8xf32>',), "is no tile"),
    (('%t = "ftm.tile"() {depth = 0 : i64} : () -> memref<4x8xf32, 1>',), "at least one slot"),
    ((INDEX, '"ftm.barrier"(%c) : (index) -> ()'), "takes 0 operands, not 1"),
    ((BUFFER, TILE, INDEX, LOAD.format("5, 8", "8, 1", 1)), "5 rows do not fit into a tile of 4"),
    ((BUFFER, TILE, INDEX, LOAD.format("4, 3, 3", "8, 1, 1", 1)), "9 columns do not fit"),
    ((BUFFER, TILE, INDEX, LOAD.format("4, 8", "8", 1)), "2 extents, but 1 strides"),
    ((BUFFER, TILE, INDEX, LOAD.format("4, 8", "8, 1", 2)), "at least one dimension"),
    ((BUFFER, TILE, INDEX, LOAD.format("-1, 8", "8, 1", 1)), "0 dynamic extents for 1 places"),
    ((TILE, INDEX, MAP.format("f64", "%x", "f64", "full", "full")), "must be elements of `ins`"),
    ((TILE, INDEX, MAP.format("f32", "%c", "index", "full", "full")), "must yield elements of `outs`"),
    ((TILE, INDEX, MAP.format("f32", "%x", "f32", "diagonal", "full")), "unknown access"),
    ((TILE, INDEX, MAP.format("f32", "%x", "f32", "full", "rmean")), "unknown result 'rmean'"),
    ((VIEW.format(1, "8, 1", "4x8"),), "reaches elements 1 to 32 of a base that has 32"),
    ((VIEW.format(0, "8, -1", "4x8"),), "reaches elements -7"),
    ((VIEW.format(0, "8", "4x8"),), "2 dimensions, but 1 strides"),
]


@pytest.mark.parametrize("lines", VALID)
def test_what_is_valid_passes(lines):
    verify(module(*lines))


@pytest.mark.parametrize(("lines", "message"), INVALID)
def test_what_breaks_a_rule_is_shown(lines, message):
    with pytest.raises(VerifyError) as failure:
        verify(module(*lines))
    assert message in str(failure.value) and "\nin: " in str(failure.value)


def test_matrix_products_have_fixed_types(lab):
    def build(b):
        a, c = b.tile("f16", 4, 4), b.tile("f16", 4, 4)
        b.mm(a, 0, a, 0, c, 0)

    with pytest.raises(VerifyError, match="no matrix product takes f16 and f16 to f16"):
        lab.module(build)
