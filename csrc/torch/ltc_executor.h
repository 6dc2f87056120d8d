// torch::lazy's executor: its entry points lead to our cuts.
#pragma once

namespace ftm {

void register_lazy_executor();

} // namespace ftm
