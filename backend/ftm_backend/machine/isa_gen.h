// Generated from backend/ftm_backend/target/instruction_table.py by
// `python -m ftm_backend.assembler.isa_header --write`; do not edit.
// Opcodes, types and the layout of a program image (assembler/image_layout.py).
// clang-format off
#pragma once
#include <cstdint>

namespace ftm::isa {

constexpr uint64_t kMagic = 0x4547414d494d5446ull;
constexpr uint32_t kVersion = 5;
constexpr uint64_t kFingerprint = 0x33035bce0927cd82ull;
constexpr int kScalarRegisters = 64;
constexpr int kSlotAlignment = 64;

enum Opcode : uint16_t {
  FTM_OP_SMOV = 0,  // d = a
  FTM_OP_SADD = 1,  // d = a + b
  FTM_OP_SSUB = 2,  // d = a - b
  FTM_OP_SMUL = 3,  // d = a * b
  FTM_OP_SDIV = 4,  // d = floor(a / b)
  FTM_OP_SREM = 5,  // d = a - b * floor(a / b)
  FTM_OP_SMIN = 6,  // d = min(a, b)
  FTM_OP_SMAX = 7,  // d = max(a, b)
  FTM_OP_SLT = 8,  // d = a < b
  FTM_OP_SEQ = 9,  // d = a == b
  FTM_OP_SNE = 10,  // d = a != b
  FTM_OP_SCID = 11,  // d = core
  FTM_OP_SNC = 12,  // d = cores
  FTM_OP_SLDI = 13,  // d = a
  FTM_OP_SBR = 14,  // next = label
  FTM_OP_CALL = 15,  // bind arguments; run f
  FTM_OP_RET = 16,  // return
  FTM_OP_BARRIER = 17,  // for all cores: DWAITALL; wait
  FTM_OP_MAP = 18,  // for i in 0..R-1, j in 0..C-1: inputs; body; outputs
  FTM_OP_DLD = 19,  // X[i][j] = a[sum(row index * stride) + sum(column index * stride)], i and j row-major over their extents
  FTM_OP_DLB = 20,  // X[i][j] = 0 in the padding, else a without it, at sum(row index * stride) + sum(column index * stride)
  FTM_OP_DST = 21,  // a[sum(row index * stride) + sum(column index * stride)] = X[i][j], in row-major order
  FTM_OP_DGA = 22,  // X[i][j] = a[I[i] * stride + sum(column index * column stride)]
  FTM_OP_DSC = 23,  // a[I[i] * stride + sum(column index * column stride)] (op)= X[i][j]
  FTM_OP_DCP = 24,  // Y = X
  FTM_OP_DCW = 25,  // Y[i][j] = X[sum(row index * stride) + sum(column index * stride)]
  FTM_OP_DWAIT = 26,  // wait for X
  FTM_OP_DWAITALL = 27,  // wait for all slots
  FTM_OP_MM = 28,  // C[m][n] (+)= sum over k of A[m][k] * B[k][n]
  FTM_OP_MMW = 29,  // C[m][n] (+)= sum over k of A[sum(row index * stride) + sum(column index * stride)] * B[k][n]
  FTM_OP_TRANS = 30,  // Y[j][i] = X[i][j]
  FTM_OP_FOLD = 31,  // Y[c][n, window * stride + tap * distance - before] += X[c, tap][n, window]
  FTM_OP_SCAN = 32,  // C[i] = Y[i][j] = C[i] (+) X[i][j], j ascending
  FTM_OP_SORT = 33,  // Y[i] = the smallest elements of X[i], ascending
  FTM_OP_MERGE = 34,  // Y[i] = the elements of A[i] and B[i], ascending
  FTM_OP_CSTART = 35,  // start: y[0..n-1] = x[0..m-1] of all processes, combined, gathered or exchanged
  FTM_OP_CWAIT = 36,  // wait for collective c
  FTM_OP_VMOV = 37,  // d = a
  FTM_OP_VADD = 38,  // d = a + b
  FTM_OP_VSUB = 39,  // d = a - b
  FTM_OP_VMUL = 40,  // d = a * b
  FTM_OP_VFMA = 41,  // d = a * b + c
  FTM_OP_VDIV = 42,  // d = a / b, for integers trunc(a / b)
  FTM_OP_VREM = 43,  // d = a - b * trunc(a / b)
  FTM_OP_VNEG = 44,  // d = -a
  FTM_OP_VABS = 45,  // d = |a|
  FTM_OP_VMIN = 46,  // d = min(a, b)
  FTM_OP_VMAX = 47,  // d = max(a, b)
  FTM_OP_VMINN = 48,  // d = b if a is NaN, a if b is NaN, else min(a, b)
  FTM_OP_VMAXN = 49,  // d = b if a is NaN, a if b is NaN, else max(a, b)
  FTM_OP_VCOPYSIGN = 50,  // d = |a| * sign(b)
  FTM_OP_VAND = 51,  // d = a & b
  FTM_OP_VOR = 52,  // d = a | b
  FTM_OP_VXOR = 53,  // d = a ^ b
  FTM_OP_VNOT = 54,  // d = ~a
  FTM_OP_VSHL = 55,  // d = a << b
  FTM_OP_VSHR = 56,  // d = a >> b
  FTM_OP_VSHRU = 57,  // d = a >>> b
  FTM_OP_VCMPEQ = 58,  // d = a == b
  FTM_OP_VCMPNE = 59,  // d = a != b
  FTM_OP_VCMPLT = 60,  // d = a < b
  FTM_OP_VCMPLE = 61,  // d = a <= b
  FTM_OP_VCMPGT = 62,  // d = a > b
  FTM_OP_VCMPGE = 63,  // d = a >= b
  FTM_OP_VSEL = 64,  // d = a if m else b
  FTM_OP_VEXP = 65,  // d = e^a
  FTM_OP_VEXP2 = 66,  // d = 2^a
  FTM_OP_VEXPM1 = 67,  // d = e^a - 1
  FTM_OP_VLOG = 68,  // d = ln(a)
  FTM_OP_VLOG1P = 69,  // d = ln(1 + a)
  FTM_OP_VLOG2 = 70,  // d = log2(a)
  FTM_OP_VLOG10 = 71,  // d = log10(a)
  FTM_OP_VSQRT = 72,  // d = sqrt(a)
  FTM_OP_VRSQRT = 73,  // d = 1 / sqrt(a)
  FTM_OP_VRCP = 74,  // d = 1 / a
  FTM_OP_VCBRT = 75,  // d = a^(1/3)
  FTM_OP_VSIN = 76,  // d = sin(a)
  FTM_OP_VCOS = 77,  // d = cos(a)
  FTM_OP_VTAN = 78,  // d = tan(a)
  FTM_OP_VASIN = 79,  // d = asin(a)
  FTM_OP_VACOS = 80,  // d = acos(a)
  FTM_OP_VATAN = 81,  // d = atan(a)
  FTM_OP_VATAN2 = 82,  // d = atan2(a, b)
  FTM_OP_VSINH = 83,  // d = sinh(a)
  FTM_OP_VCOSH = 84,  // d = cosh(a)
  FTM_OP_VTANH = 85,  // d = tanh(a)
  FTM_OP_VASINH = 86,  // d = asinh(a)
  FTM_OP_VACOSH = 87,  // d = acosh(a)
  FTM_OP_VATANH = 88,  // d = atanh(a)
  FTM_OP_VERF = 89,  // d = 2/sqrt(pi) * integral of e^(-t^2) over t = 0..a
  FTM_OP_VERFC = 90,  // d = 1 - erf(a)
  FTM_OP_VPOW = 91,  // d = a^b
  FTM_OP_VFLOOR = 92,  // d = floor(a)
  FTM_OP_VCEIL = 93,  // d = ceil(a)
  FTM_OP_VROUND = 94,  // d = round(a)
  FTM_OP_VTRUNC = 95,  // d = trunc(a)
  FTM_OP_VCVT = 96,  // d = to(a)
  FTM_OP_VBITC = 97,  // bits of d = bits of a
  FTM_OP_VIDX = 98,  // d = b + i * r + j * c, for element (i, j) of the map
  FTM_OP_VPHILOX = 99,  // d = philox4x32_10(counter = (i >> 2, o), key = s)[i & 3]
  FTM_OP_VGA = 100,  // d = a[i]
  FTM_OP_COUNT = 101,
};

constexpr const char* kOpcodeNames[] = {
  "SMOV",
  "SADD",
  "SSUB",
  "SMUL",
  "SDIV",
  "SREM",
  "SMIN",
  "SMAX",
  "SLT",
  "SEQ",
  "SNE",
  "SCID",
  "SNC",
  "SLDI",
  "SBR",
  "@call",
  "@ret",
  "BARRIER",
  "@map",
  "DLD",
  "DLB",
  "DST",
  "DGA",
  "DSC",
  "DCP",
  "DCW",
  "DWAIT",
  "DWAITALL",
  "MM",
  "MMW",
  "TRANS",
  "FOLD",
  "SCAN",
  "SORT",
  "MERGE",
  "CSTART",
  "CWAIT",
  "VMOV",
  "VADD",
  "VSUB",
  "VMUL",
  "VFMA",
  "VDIV",
  "VREM",
  "VNEG",
  "VABS",
  "VMIN",
  "VMAX",
  "VMINN",
  "VMAXN",
  "VCOPYSIGN",
  "VAND",
  "VOR",
  "VXOR",
  "VNOT",
  "VSHL",
  "VSHR",
  "VSHRU",
  "VCMPEQ",
  "VCMPNE",
  "VCMPLT",
  "VCMPLE",
  "VCMPGT",
  "VCMPGE",
  "VSEL",
  "VEXP",
  "VEXP2",
  "VEXPM1",
  "VLOG",
  "VLOG1P",
  "VLOG2",
  "VLOG10",
  "VSQRT",
  "VRSQRT",
  "VRCP",
  "VCBRT",
  "VSIN",
  "VCOS",
  "VTAN",
  "VASIN",
  "VACOS",
  "VATAN",
  "VATAN2",
  "VSINH",
  "VCOSH",
  "VTANH",
  "VASINH",
  "VACOSH",
  "VATANH",
  "VERF",
  "VERFC",
  "VPOW",
  "VFLOOR",
  "VCEIL",
  "VROUND",
  "VTRUNC",
  "VCVT",
  "VBITC",
  "VIDX",
  "VPHILOX",
  "VGA",
};

enum class Strip : uint8_t {
  Mov = 0,  // VMOV
  Add = 1,  // VADD
  Sub = 2,  // VSUB
  Mul = 3,  // VMUL
  Fma = 4,  // VFMA
  Div = 5,  // VDIV
  Rem = 6,  // VREM
  Neg = 7,  // VNEG
  Abs = 8,  // VABS
  Min = 9,  // VMIN
  Max = 10,  // VMAX
  Minn = 11,  // VMINN
  Maxn = 12,  // VMAXN
  Copysign = 13,  // VCOPYSIGN
  And = 14,  // VAND
  Or = 15,  // VOR
  Xor = 16,  // VXOR
  Not = 17,  // VNOT
  Shl = 18,  // VSHL
  Shr = 19,  // VSHR
  Shru = 20,  // VSHRU
  Cmpeq = 21,  // VCMPEQ
  Cmpne = 22,  // VCMPNE
  Cmplt = 23,  // VCMPLT
  Cmple = 24,  // VCMPLE
  Cmpgt = 25,  // VCMPGT
  Cmpge = 26,  // VCMPGE
  Sel = 27,  // VSEL
  Exp = 28,  // VEXP
  Exp2 = 29,  // VEXP2
  Expm1 = 30,  // VEXPM1
  Log = 31,  // VLOG
  Log1p = 32,  // VLOG1P
  Log2 = 33,  // VLOG2
  Log10 = 34,  // VLOG10
  Sqrt = 35,  // VSQRT
  Rsqrt = 36,  // VRSQRT
  Rcp = 37,  // VRCP
  Cbrt = 38,  // VCBRT
  Sin = 39,  // VSIN
  Cos = 40,  // VCOS
  Tan = 41,  // VTAN
  Asin = 42,  // VASIN
  Acos = 43,  // VACOS
  Atan = 44,  // VATAN
  Atan2 = 45,  // VATAN2
  Sinh = 46,  // VSINH
  Cosh = 47,  // VCOSH
  Tanh = 48,  // VTANH
  Asinh = 49,  // VASINH
  Acosh = 50,  // VACOSH
  Atanh = 51,  // VATANH
  Erf = 52,  // VERF
  Erfc = 53,  // VERFC
  Pow = 54,  // VPOW
  Floor = 55,  // VFLOOR
  Ceil = 56,  // VCEIL
  Round = 57,  // VROUND
  Trunc = 58,  // VTRUNC
  Count = 59,
};

// operands: number of sources.  choosing: the first one is a mask.  mask: the result is.
// exact: results of halves need no rounding.  kernel: operation whose kernel computes
// it; if that is another one, the two operands are swapped.
struct StripFacts {
  uint8_t operands;
  bool choosing, mask, exact;
  Strip kernel;
};
constexpr StripFacts kStrips[] = {
  {1, false, false, false, Strip::Mov},
  {2, false, false, false, Strip::Add},
  {2, false, false, false, Strip::Sub},
  {2, false, false, false, Strip::Mul},
  {3, false, false, false, Strip::Fma},
  {2, false, false, false, Strip::Div},
  {2, false, false, true, Strip::Rem},
  {1, false, false, true, Strip::Neg},
  {1, false, false, true, Strip::Abs},
  {2, false, false, true, Strip::Min},
  {2, false, false, true, Strip::Max},
  {2, false, false, true, Strip::Minn},
  {2, false, false, true, Strip::Maxn},
  {2, false, false, true, Strip::Copysign},
  {2, false, false, false, Strip::And},
  {2, false, false, false, Strip::Or},
  {2, false, false, false, Strip::Xor},
  {1, false, false, false, Strip::Not},
  {2, false, false, false, Strip::Shl},
  {2, false, false, false, Strip::Shr},
  {2, false, false, false, Strip::Shru},
  {2, false, true, true, Strip::Cmpeq},
  {2, false, true, true, Strip::Cmpne},
  {2, false, true, true, Strip::Cmplt},
  {2, false, true, true, Strip::Cmple},
  {2, false, true, true, Strip::Cmplt},
  {2, false, true, true, Strip::Cmple},
  {3, true, false, true, Strip::Sel},
  {1, false, false, false, Strip::Exp},
  {1, false, false, false, Strip::Exp2},
  {1, false, false, false, Strip::Expm1},
  {1, false, false, false, Strip::Log},
  {1, false, false, false, Strip::Log1p},
  {1, false, false, false, Strip::Log2},
  {1, false, false, false, Strip::Log10},
  {1, false, false, false, Strip::Sqrt},
  {1, false, false, false, Strip::Rsqrt},
  {1, false, false, false, Strip::Rcp},
  {1, false, false, false, Strip::Cbrt},
  {1, false, false, false, Strip::Sin},
  {1, false, false, false, Strip::Cos},
  {1, false, false, false, Strip::Tan},
  {1, false, false, false, Strip::Asin},
  {1, false, false, false, Strip::Acos},
  {1, false, false, false, Strip::Atan},
  {2, false, false, false, Strip::Atan2},
  {1, false, false, false, Strip::Sinh},
  {1, false, false, false, Strip::Cosh},
  {1, false, false, false, Strip::Tanh},
  {1, false, false, false, Strip::Asinh},
  {1, false, false, false, Strip::Acosh},
  {1, false, false, false, Strip::Atanh},
  {1, false, false, false, Strip::Erf},
  {1, false, false, false, Strip::Erfc},
  {2, false, false, false, Strip::Pow},
  {1, false, false, true, Strip::Floor},
  {1, false, false, true, Strip::Ceil},
  {1, false, false, true, Strip::Round},
  {1, false, false, true, Strip::Trunc},
};
constexpr Strip kStripOf[] = {  // by opcode; Count: none
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Mov,
  Strip::Add,
  Strip::Sub,
  Strip::Mul,
  Strip::Fma,
  Strip::Div,
  Strip::Rem,
  Strip::Neg,
  Strip::Abs,
  Strip::Min,
  Strip::Max,
  Strip::Minn,
  Strip::Maxn,
  Strip::Copysign,
  Strip::And,
  Strip::Or,
  Strip::Xor,
  Strip::Not,
  Strip::Shl,
  Strip::Shr,
  Strip::Shru,
  Strip::Cmpeq,
  Strip::Cmpne,
  Strip::Cmplt,
  Strip::Cmple,
  Strip::Cmpgt,
  Strip::Cmpge,
  Strip::Sel,
  Strip::Exp,
  Strip::Exp2,
  Strip::Expm1,
  Strip::Log,
  Strip::Log1p,
  Strip::Log2,
  Strip::Log10,
  Strip::Sqrt,
  Strip::Rsqrt,
  Strip::Rcp,
  Strip::Cbrt,
  Strip::Sin,
  Strip::Cos,
  Strip::Tan,
  Strip::Asin,
  Strip::Acos,
  Strip::Atan,
  Strip::Atan2,
  Strip::Sinh,
  Strip::Cosh,
  Strip::Tanh,
  Strip::Asinh,
  Strip::Acosh,
  Strip::Atanh,
  Strip::Erf,
  Strip::Erfc,
  Strip::Pow,
  Strip::Floor,
  Strip::Ceil,
  Strip::Round,
  Strip::Trunc,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
  Strip::Count,
};

enum class Type : uint8_t {
  F64 = 0,  // f64, 8 bytes
  F32 = 1,  // f32, 4 bytes
  F16 = 2,  // f16, 2 bytes
  BF16 = 3,  // bf16, 2 bytes
  I64 = 4,  // i64, 8 bytes
  I32 = 5,  // i32, 4 bytes
  I16 = 6,  // i16, 2 bytes
  I8 = 7,  // i8, 1 bytes
  U8 = 8,  // u8, 1 bytes
  B1 = 9,  // i1, 1 bytes
};

constexpr int kTypes = 10;
constexpr int kTypeBytes[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};
constexpr const char* kTypeNames[] = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "i1"};
// Type of the matrix unit's sums of products of a type; -1: not supported.
constexpr int kAccumulators[] = {0, 1, 1, 1, 4, 5, -1, 5, -1, -1};

enum Space : uint8_t {
  FTM_SPACE_DDR = 0,
  FTM_SPACE_AM = 1,
  FTM_SPACE_SM = 2,
  FTM_SPACE_GSM = 3,
};

enum Access : uint8_t {
  FTM_ACCESS_FULL = 0,
  FTM_ACCESS_ROW = 1,
  FTM_ACCESS_COL = 2,
  FTM_ACCESS_ONE = 3,
};

enum Scope : uint8_t {
  FTM_SCOPE_FULL = 0,  // every element
  FTM_SCOPE_R = 1,  // Rx1
  FTM_SCOPE_C = 2,  // 1xC
  FTM_SCOPE_A = 3,  // 1x1
};

enum Reduce : uint8_t {
  FTM_REDUCE_NONE = 0,
  FTM_REDUCE_SUM = 1,
  FTM_REDUCE_PROD = 2,
  FTM_REDUCE_MIN = 3,
  FTM_REDUCE_MAX = 4,
  FTM_REDUCE_AND = 5,
  FTM_REDUCE_OR = 6,
};

enum OperandKind : uint8_t {
  FTM_OPERAND_NONE = 0,
  FTM_OPERAND_RESULT = 1,
  FTM_OPERAND_INPUT = 2,
  FTM_OPERAND_IMMEDIATE = 3,
  FTM_OPERAND_SCALAR = 4,
  FTM_OPERAND_REGISTER = 5,
};

enum BufferKind : uint8_t {
  FTM_BUFFER_INPUT = 0,
  FTM_BUFFER_OUTPUT = 1,
  FTM_BUFFER_CONST = 2,
  FTM_BUFFER_ARENA = 3,
  FTM_BUFFER_GSM = 4,
  FTM_BUFFER_PARAMETER = 5,
};

enum Flag : uint16_t {
  FTM_FLAG_TA = 1,
  FTM_FLAG_TB = 2,
  FTM_FLAG_ACC = 4,
  FTM_FLAG_ADD = 8,
  FTM_FLAG_MUL = 16,
  FTM_FLAG_MIN = 32,
  FTM_FLAG_MAX = 64,
  FTM_FLAG_LSE = 128,
  FTM_FLAG_DOWN = 256,
  FTM_FLAG_AVG = 512,
};

constexpr int kCollectiveBit = 10;

// A scalar operand: immediate + R[reg], or only the immediate if reg is -1; if scalar is not -1, + the program's i64 scalar of that number.
struct Value {
  int64_t immediate;
  int32_t reg;
  int32_t scalar;
};
static_assert(sizeof(Value) == 16, "image layout");

// A source of a map operation or output.
struct Operand {
  uint8_t kind;  // FTM_OPERAND_*
  uint8_t type;  // type that the operation reads or writes; SCALAR and REGISTER convert to it
  uint16_t index;  // by kind: operation of the map before this one, input of the map, immediate, scalar, register
};
static_assert(sizeof(Operand) == 4, "image layout");

// A buffer: an input, output, constant or arena region in DDR, a region of GSM, or a parameter of a function.
struct Buffer {
  uint32_t name;  // string
  uint8_t kind;  // FTM_BUFFER_*
  uint8_t type;
  uint16_t ndim;
  uint32_t first_dim;  // into shapes
  int32_t alias;  // outputs: buffer index of the input whose storage may be passed, or -1
  uint64_t elements;
  uint64_t bytes;
  uint64_t offset;  // arena, gsm: byte offset; const: byte offset in const_data; input, output: argument position; parameter: whether its function writes it
};
static_assert(sizeof(Buffer) == 40, "image layout");

// A runtime scalar argument of the program, 8 bytes each, or a scalar parameter of a function.
struct Scalar {
  uint32_t name;  // string
  uint32_t type;  // Type F64 or I64
};
static_assert(sizeof(Scalar) == 8, "image layout");

// A ring of tiles in scratchpad.
struct Tile {
  uint32_t name;  // string
  uint32_t function;
  uint8_t space;
  uint8_t type;
  uint16_t depth;
  uint32_t rows;  // maximal
  uint32_t columns;  // maximal, and the leading dimension
  uint32_t reserved;
  uint64_t offset;  // bytes, in the space
  uint64_t slot_bytes;  // distance of slots
};
static_assert(sizeof(Tile) == 40, "image layout");

// Instructions first .. first + count - 1; the last one is @ret.
struct Function {
  uint32_t name;  // string
  uint32_t first;
  uint32_t count;
  uint32_t line;
  uint32_t first_buffer;  // its buffer parameters, into buffers
  uint32_t buffers;
  uint32_t first_scalar;  // its scalar parameters, into scalars
  uint32_t scalars;
};
static_assert(sizeof(Function) == 32, "image layout");

// What a call binds to a parameter, or the second address of an instruction: an address in a buffer, or, if buffer is -1, a value.
struct Argument {
  int32_t buffer;
  uint32_t reserved;
  Value value;  // element offset in the buffer, or the value; an f64 is the scalar of that number
};
static_assert(sizeof(Argument) == 24, "image layout");

// One dimension of a transfer.
struct Dim {
  Value extent;
  Value stride;
};
static_assert(sizeof(Dim) == 32, "image layout");

// One instruction outside maps; fields that it does not use are 0 or -1.
struct Instruction {
  uint16_t opcode;  // FTM_OP_*
  uint16_t flags;  // FTM_FLAG_*
  int16_t predicate;  // register, or -1
  uint16_t negated;  // run if the register is zero
  uint32_t line;  // line of the text
  int32_t target;  // SBR: instruction; @call: function; @map: map; else -1
  int32_t dst;  // destination register
  int32_t buffer;
  int32_t tile[3];  // in operand order, data before indices: DGA and DSC: X, I; MM and MERGE: A, B, C
  uint32_t first_dim;  // into dims; @call: into arguments; CSTART: the argument that is its source
  uint16_t row_dims;
  uint16_t column_dims;
  uint32_t sides;  // DLB: number of padded dimensions; their records follow the transfer's dims, first those left of the bar, then those right of it
  Value v[4];  // v[k]: slot of tile[k], or the scalar sources, or rows and columns of a map; v[2]: row stride of DGA and DSC; v[3]: element offset in buffer
};
static_assert(sizeof(Instruction) == 112, "image layout");

// The body of a @map.
struct Map {
  uint32_t first_input;
  uint32_t inputs;
  uint32_t first_output;
  uint32_t outputs;
  uint32_t first_op;
  uint32_t ops;
  uint32_t line;
};
static_assert(sizeof(Map) == 28, "image layout");

// A tile read by a map.
struct MapInput {
  int32_t tile;
  uint8_t access;  // FTM_ACCESS_*
  uint8_t type;
  uint16_t reserved;
  Value slot;
};
static_assert(sizeof(MapInput) == 24, "image layout");

// A tile written by a map; written after all operations of the body and all reads.
struct MapOutput {
  int32_t tile;
  uint8_t scope;  // FTM_SCOPE_*
  uint8_t reduction;  // FTM_REDUCE_*, 0 for full
  uint8_t accumulate;
  uint8_t type;
  Operand source;
  uint32_t reserved;
  Value slot;
};
static_assert(sizeof(MapOutput) == 32, "image layout");

// One operation of a map body.
struct MapOp {
  uint16_t opcode;  // FTM_OP_V*
  uint8_t type;  // Type of the suffix
  uint8_t from_;  // VCVT, VBITC: type of the source
  uint32_t line;
  uint32_t result;  // its Type
  Operand src[3];
  int32_t buffer;  // VGA: buffer, else -1
  uint32_t reserved;
  Value address;  // VGA: element offset in the buffer
};
static_assert(sizeof(MapOp) == 48, "image layout");

// A label, for listings and the cycle model.
struct Label {
  uint32_t name;  // string
  uint32_t instruction;
  int64_t minimum;  // trip count bounds, or -1
  int64_t maximum;
};
static_assert(sizeof(Label) == 24, "image layout");

// Where a section lies.
struct Section {
  uint64_t offset;  // bytes from the start of the image
  uint64_t count;  // records (bytes for blobs)
};
static_assert(sizeof(Section) == 16, "image layout");

// The start of an image; FTM_SECTIONS Section records follow it.
struct Header {
  uint64_t magic;
  uint32_t version;
  uint32_t sections;
  uint64_t fingerprint;  // of the table
  uint64_t bytes;  // of the whole image
  uint32_t name;  // string
  uint32_t machine;  // string
  uint32_t main;  // function index
  uint32_t inputs;  // count
  uint32_t outputs;  // count
  uint32_t scalars;  // count
  uint64_t arena_bytes;
};
static_assert(sizeof(Header) == 64, "image layout");

enum SectionIndex {
  FTM_SECTION_BUFFERS = 0,  // array of Buffer
  FTM_SECTION_SCALARS = 1,  // array of Scalar
  FTM_SECTION_SHAPES = 2,  // array of int64_t
  FTM_SECTION_TILES = 3,  // array of Tile
  FTM_SECTION_FUNCTIONS = 4,  // array of Function
  FTM_SECTION_INSTRUCTIONS = 5,  // array of Instruction
  FTM_SECTION_ARGUMENTS = 6,  // array of Argument
  FTM_SECTION_DIMS = 7,  // array of Dim
  FTM_SECTION_MAPS = 8,  // array of Map
  FTM_SECTION_MAP_INPUTS = 9,  // array of MapInput
  FTM_SECTION_MAP_OUTPUTS = 10,  // array of MapOutput
  FTM_SECTION_MAP_OPS = 11,  // array of MapOp
  FTM_SECTION_IMMEDIATES = 12,  // array of uint64_t
  FTM_SECTION_LABELS = 13,  // array of Label
  FTM_SECTION_STRINGS = 14,  // array of uint8_t
  FTM_SECTION_CONST_DATA = 15,  // array of uint8_t
  FTM_SECTION_TEXT = 16,  // array of uint8_t
  FTM_SECTION_CALL_OPS = 17,  // array of int64_t
  FTM_SECTIONS = 18,
};

}  // namespace ftm::isa
