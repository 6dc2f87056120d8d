// The backend interface of torch::lazy: who uses LTC's own entry points (its metrics, its
// debugging, its mark_step) finds this device behind them.
#pragma once

namespace ftm {

void register_lazy_backend();

} // namespace ftm
