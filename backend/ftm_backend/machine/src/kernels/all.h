// Collects all inner loops for the instruction set FTM_ISA in a table.
#pragma once

#include "kernels/convert.h"
#include "kernels/few_rows.h"
#include "kernels/layout.h"
#include "kernels/math.h"
#include "kernels/matrix.h"
#include "kernels/reduce.h"

namespace ftm {
namespace FTM_ISA {

const KernelTable& table();
const KernelTable& table() {
  static const KernelTable filled = [] {
    KernelTable t = {};
    t.name = FTM_ISA_NAME;
    put_arithmetic(t);
    put_math(t);
    put_conversions(t);
    put_reductions(t);
    put_matrix(t);
    put_few_rows(t);
    put_layout(t);
    return t;
  }();
  return filled;
}

} // namespace FTM_ISA
} // namespace ftm
