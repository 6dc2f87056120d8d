// Generated from backend/ftm_backend/dtypes.py by `python csrc/generate_dtypes.py`; do not edit.
// clang-format off
#pragma once

namespace ftm {

// Properties of a dtype.
struct DtypeInfo {
  const char* token; // name in traces; null if traces do not support it
  int element_type; // enum ftm_dtype of its elements in memory; for complex numbers, of their parts
  int integer_bits; // all integers of this many bits, without the sign, are exact
  bool in_most_ops; // most ops compute with it; otherwise most can only copy and convert it
};

constexpr DtypeInfo kDtypes[] = { // by at::ScalarType
    {"u8", 8, 8, true},
    {"i8", 7, 7, true},
    {"i16", 6, 15, true},
    {"i32", 5, 31, true},
    {"i64", 4, 63, true},
    {"f16", 2, 11, true},
    {"f32", 1, 24, true},
    {"f64", 0, 53, true},
    {"c32", 2, 11, false},
    {"c64", 1, 24, false},
    {"c128", 0, 53, false},
    {"i1", 9, 1, true},
    {},
    {},
    {},
    {"bf16", 3, 8, true},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {"f8e5m2", 8, 3, false},
    {"f8e4m3fn", 8, 4, false},
    {"f8e5m2fnuz", 8, 3, false},
    {"f8e4m3fnuz", 8, 4, false},
    {"u16", 6, 16, false},
    {"u32", 5, 32, false},
    {"u64", 4, 64, false},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {},
    {"f8e8m0fnu", 8, 1, false},
};

} // namespace ftm
