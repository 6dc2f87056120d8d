#include "partition/view_symbols.h"

#include <c10/util/strides.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace ftm {
namespace {

// Returns the dimensions of a view, the smallest stride first.
std::vector<size_t> by_stride(const CallSpec& view) {
  std::vector<size_t> order(view.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return view.strides[a] < view.strides[b];
  });
  return order;
}

// Returns the memory over whose dimensions a view's strides step, if it was recorded as one
// dimension: a dimension varies if the view omits a part of it. Has no dimensions if the strides
// are not those of row-major memory.
ViewedMemory memory_below(const CallSpec& view) {
  ViewedMemory memory;
  const auto order = by_stride(view);
  int64_t outer = 0;
  for (size_t k = order.size(); k-- > 0;) {
    const int64_t size = view.sizes[order[k]], stride = view.strides[order[k]];
    if (size == 1) {
      continue;
    }
    if (stride == 0 || outer % stride != 0) {
      return {};
    }
    const int64_t extent = outer == 0 ? size : outer / stride;
    memory.varies |= uint64_t{size != extent} << memory.sizes.size();
    memory.sizes.push_back(extent);
    outer = stride;
  }
  memory.sizes.push_back(std::max<int64_t>(outer, 1)); // elements between those of the view
  return memory;
}

bool overlaps(const CallSpec& view) {
  int64_t last = 0; // offset of the last element, in the dimensions so far
  for (const size_t d : by_stride(view)) {
    if (view.sizes[d] > 1 && view.strides[d] != 0 && view.strides[d] <= last) {
      return true;
    }
    last += (view.sizes[d] - 1) * view.strides[d];
  }
  return false;
}

class ViewWriter {
 public:
  ViewWriter(
      const CallSpec& view, ViewedMemory memory, int64_t grown, int64_t smallest,
      const NewSymbol& symbol)
      : view_(view),
        memory_(std::move(memory)),
        grown_(grown),
        smallest_(smallest),
        symbol_(symbol),
        steps_(c10::contiguous_strides(memory_.sizes)),
        sizes_(view.sizes.size()),
        strides_(view.sizes.size()) {
    for (size_t k = 0; k < memory_.sizes.size() && k < 64; ++k) {
      memory_.varies &= ~(uint64_t{memory_.sizes[k] == 1} << k);
    }
    if (const int64_t dim = grown < 0 ? -1 : dim_of(view.strides[grown]); dim >= 0) {
      memory_.varies |= uint64_t{1} << dim;
    }
  }

  ViewPolynomials write() {
    if (memory_.varies == 0 || overlaps(view_)) {
      return {std::move(sizes_), std::move(strides_), ""};
    }
    for (const size_t d : by_stride(view_)) {
      if (view_.strides[d] != 0) {
        write_stride(d);
        write_size(d);
      }
    }
    auto text = extent();
    return {std::move(sizes_), std::move(strides_), std::move(text)};
  }

 private:
  struct Stride {
    int64_t value, dim; // in the memory
    std::string text;
  };

  // Returns the dimension along which a step of this stride moves; -1: beyond the first.
  int64_t dim_of(int64_t stride) const {
    for (size_t k = steps_.size(); k-- > 0;) {
      if (steps_[k] <= stride && stride < steps_[k] * memory_.sizes[k]) {
        return static_cast<int64_t>(k);
      }
    }
    return -1;
  }
  bool varies(int64_t dim) const { return dim >= 0 && (memory_.varies >> dim & 1) != 0; }
  // Whether a dimension in (first, last] varies.
  bool varies_behind(int64_t first, int64_t last) const {
    while (last > first && !varies(last)) {
      --last;
    }
    return last > first;
  }

  void write_stride(size_t d) {
    const int64_t stride = view_.strides[d], dim = dim_of(stride);
    if (next_ && next_->value == stride) {
      strides_[d] = next_->text;
    } else if (last_ && last_->value == stride) {
      strides_[d] = last_->text;
    } else if (last_ && stride % last_->value == 0 && !varies_behind(dim, last_->dim)) {
      strides_[d] = std::to_string(stride / last_->value) + "*" + last_->text;
    } else if (varies_behind(dim, static_cast<int64_t>(steps_.size()) - 1)) {
      strides_[d] = symbol_(/*is_stride=*/true, stride);
    }
    if (!strides_[d].empty()) {
      last_ = Stride{stride, dim, "(" + strides_[d] + ")"};
    }
  }

  void write_size(size_t d) {
    const int64_t size = view_.sizes[d], stride = view_.strides[d], dim = dim_of(stride);
    const bool is_grown = static_cast<int64_t>(d) == grown_;
    if (!varies(dim) || (counted_ >> dim & 1) != 0 || (size < smallest_ && !is_grown)) {
      return;
    }
    counted_ |= uint64_t{1} << dim;
    sizes_[d] = symbol_(/*is_stride=*/false, size);
    const int64_t next = size * stride;
    const auto& strides = view_.strides;
    const bool is_next_stride = std::find(strides.begin(), strides.end(), next) != strides.end();
    if ((size == memory_.sizes[dim] || is_next_stride) && !is_grown) {
      next_ = Stride{next, dim, "(" + stride_text(d) + "*" + sizes_[d] + ")"};
    }
  }

  std::string stride_text(size_t d) const {
    return strides_[d].empty() ? std::to_string(view_.strides[d]) : "(" + strides_[d] + ")";
  }

  std::string extent() const {
    int64_t constant = 1;
    std::string text;
    for (size_t d = 0; d < sizes_.size(); ++d) {
      const int64_t steps = view_.sizes[d] - 1;
      if (sizes_[d].empty() && (strides_[d].empty() || steps == 0)) {
        constant += steps * view_.strides[d];
      } else {
        text += sizes_[d].empty() ? std::to_string(steps) : "(" + sizes_[d] + "-1)";
        text += "*" + stride_text(d) + "+";
      }
    }
    return text.empty() ? "" : text + std::to_string(constant);
  }

  const CallSpec& view_;
  ViewedMemory memory_;
  const int64_t grown_, smallest_;
  const NewSymbol& symbol_;
  const c10::DimVector steps_; // strides of the memory
  std::vector<std::string> sizes_, strides_;
  uint64_t counted_ = 0; // dimensions of the memory whose steps are counted
  std::optional<Stride> last_; // the last symbolic stride
  std::optional<Stride> next_; // that of the dimension before the last symbolic size
};

} // namespace

ViewPolynomials view_polynomials(
    const CallSpec& view, ViewedMemory memory, int64_t grown, int64_t smallest,
    const NewSymbol& symbol) {
  if (memory.varies != 0 && memory.sizes.size() == 1) {
    memory = memory_below(view);
  }
  return ViewWriter(view, std::move(memory), grown, smallest, symbol).write();
}

} // namespace ftm
