#include "capture/capture.h"

#include "graph/view_spec.h"
#include "support/capture_mode.h"
#include "tensor/captured_variables.h"
#include "tensor/tensor_access.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace ftm {
namespace {

int64_t extent_of(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) {
      return 0;
    }
    extent += (sizes[i] - 1) * strides[i];
  }
  return extent;
}

// Returns sizes with which these elements are row-major in memory: the sizes in order of decreasing
// stride, or one dimension if there are gaps.
c10::DimVector memory_sizes(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  c10::SmallVector<size_t, 8> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (!is_row_major(sizes, strides)) {
    std::stable_sort(
        order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  }
  c10::DimVector sorted_sizes, sorted_strides;
  for (const size_t dimension : order) {
    sorted_sizes.push_back(sizes[dimension]);
    sorted_strides.push_back(strides[dimension]);
  }
  return is_row_major(sorted_sizes, sorted_strides) ? sorted_sizes
                                                    : c10::DimVector{extent_of(sizes, strides)};
}

// Returns the buffer of a value in memory; null for a pending one.
const Buffer* buffer_of(const Value& value) {
  const auto& node = trace_node(value);
  return node.is_data ? static_cast<const DataNode&>(node).buffer().get() : nullptr;
}

bool is_same(const Value& a, const Value& b) {
  return a.node == b.node && a.index == b.index;
}

} // namespace

Capture::Capture() {
  TORCH_CHECK(!capturing, "a capture is on in this thread already: captures do not nest");
  draws_.emplace();
  capturing = true;
}

Capture::~Capture() {
  end();
}

void Capture::end() {
  if (draws_) {
    draws_.reset();
    capturing = false;
    captured_variables.clear();
  }
}

at::Tensor Capture::placeholder(
    c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype) {
  TORCH_CHECK_VALUE(sizes.size() == strides.size(), "there is a stride for each size");
  const int64_t extent = extent_of(sizes, strides);
  const auto nbytes = extent * static_cast<int64_t>(c10::elementSize(dtype));
  Variable* variable = nullptr;
  auto pointer = make_data_ptr(nbytes, &variable);
  c10::Storage storage(
      c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), nbytes, std::move(pointer),
          c10::GetAllocator(c10::kPrivateUse1),
          /*resizable=*/false));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  const ValueType type{dtype, memory_sizes(sizes, strides)};
  auto buffer = std::make_shared<Buffer>(dtype, type.sizes);
  auto failure = std::make_shared<Failure>(Failure::Type::not_implemented, kNoContent);
  failure->seen = true; // it is raised where the value is read, and only there
  buffer->set_failed(std::move(failure));
  placeholders_.push_back(tensor);
  contents_.push_back(buffer);
  const RecorderLock lock(recorder_mutex());
  variable->set_value(data_value(std::move(buffer), type));
  return tensor;
}

std::shared_ptr<CapturedProgram> Capture::finish(
    const std::vector<at::Tensor>& outputs, const std::vector<bool>& on_cpu) const {
  TORCH_CHECK(draws_, "the capture has ended");
  TORCH_CHECK_VALUE(outputs.size() == on_cpu.size(), "there is one on_cpu for each output");
  return std::make_shared<CapturedProgram>(*this, outputs, on_cpu);
}

CapturedProgram::CapturedProgram(
    const Capture& capture, const std::vector<at::Tensor>& outputs,
    const std::vector<bool>& on_cpu) {
  const RecorderLock lock(recorder_mutex());
  std::vector<Value> results;
  for (size_t i = 0; i < capture.placeholders_.size(); ++i) {
    const auto& tensor = capture.placeholders_[i];
    const auto extent = extent_of(tensor.sizes(), tensor.strides());
    placeholders_.push_back(
        {tensor.scalar_type(), c10::DimVector(tensor.sizes()), c10::DimVector(tensor.strides()),
         extent});
    const Value& value = variable_of(*tensor.unsafeGetTensorImpl()).value();
    if (extent != 0 && buffer_of(value) != capture.contents_[i].get()) {
      results.push_back(value); // one result per placeholder, even if two get the same value
      replaces_.push_back(static_cast<int32_t>(i));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    add_output(capture, outputs[i], on_cpu[i], results);
  }
  read_graph(capture, collect_graph(results));
}

void CapturedProgram::add_output(
    const Capture& capture, const at::Tensor& tensor, bool on_cpu, std::vector<Value>& results) {
  TORCH_CHECK_VALUE(
      tensor.device().is_privateuseone(), "a captured program returns ftm tensors, not one on ",
      tensor.device());
  TORCH_CHECK_NOT_IMPLEMENTED(
      tensor.layout() == c10::kStrided && !tensor.is_quantized() && tensor.has_storage(),
      "a program takes and gives tensors with their elements in memory, no ",
      tensor.is_quantized() ? "quantized" : "sparse", " one");
  Output output;
  output.on_cpu = on_cpu;
  output.dtype = tensor.scalar_type();
  output.sizes = tensor.sizes();
  output.strides = tensor.strides();
  output.offset = tensor.storage_offset();
  if (tensor.numel() != 0) {
    const Region region = region_of(*tensor.unsafeGetTensorImpl());
    TORCH_CHECK_NOT_IMPLEMENTED(
        region.is_whole,
        "a captured program returns no slice of a storage that begins or ends within an element");
    output.offset = region.offset;
    Variable& variable = region.variable;
    for (size_t k = 0; k < capture.placeholders_.size() && output.input < 0; ++k) {
      if (capture.placeholders_[k].numel() != 0 &&
          &variable_of(*capture.placeholders_[k].unsafeGetTensorImpl()) == &variable) {
        output.input = static_cast<int32_t>(k);
      }
    }
    const Value value = whole_value(
        variable, variable.value().node ? type_of(variable.value()).dtype : output.dtype);
    const Buffer* buffer = buffer_of(value);
    const auto& contents = capture.contents_;
    const bool is_content = std::any_of(
        contents.begin(), contents.end(),
        [&](const BufferPtr& content) { return content.get() == buffer; });
    if (output.input < 0 && buffer != nullptr && !is_content) {
      output.constant = static_cast<const DataNode&>(trace_node(value)).buffer();
    } else if (output.input < 0) {
      size_t i = 0;
      while (i < results.size() && (replaces_[i] >= 0 || !is_same(results[i], value))) {
        ++i;
      }
      output.result = static_cast<int32_t>(i);
      if (i == results.size()) {
        results.push_back(value);
        replaces_.push_back(-1);
      }
    }
  }
  outputs_.push_back(std::move(output));
}

void CapturedProgram::read_graph(const Capture& capture, const Graph& graph) {
  std::unordered_map<const Buffer*, int32_t> number;
  for (size_t i = 0; i < capture.contents_.size(); ++i) {
    number.emplace(capture.contents_[i].get(), static_cast<int32_t>(i));
  }
  for (const auto* parameter : graph.parameters) {
    const auto found = number.find(parameter->buffer().get());
    const bool is_placeholder = found != number.end();
    TORCH_CHECK(
        is_placeholder || parameter->buffer()->state() != Buffer::State::failed,
        "the program reads a placeholder that is not among its inputs");
    parameters_.push_back(
        {is_placeholder ? found->second : -1, is_placeholder ? nullptr : parameter->buffer(),
         parameter->type(0), parameter->offset()});
  }
  program_ = find_program(graph.hash, graph);
  trace_ = make_trace(graph);
  for (const auto* call : graph.calls) {
    calls_.push_back({call->op(), call->origin != nullptr});
    may_fail_ = may_fail_ || calls_.back().may_fail;
  }
  hash_ = graph.hash;
  scalars_ = graph.scalars;
  int64_t position = 0;
  int64_t seed = -1;
  for (const auto& call : trace_.calls) {
    for (const auto& slot : call.spec->slots) {
      if (slot.kind == OperandSlot::Kind::value) {
        continue;
      }
      if (slot.argument < 0 && seed < 0) {
        seed = position;
      } else if (slot.argument < 0) {
        draws_.push_back({seed, position, scalars_[position]});
        seed = -1;
      }
      ++position;
    }
  }
  draws_made_ = default_generator().get_offset();
}

std::vector<c10::Scalar> CapturedProgram::scalars() const {
  std::vector<c10::Scalar> values;
  for (const auto& call : trace_.calls) {
    for (const auto& slot : call.spec->slots) {
      if (slot.kind == OperandSlot::Kind::scalar_float) {
        values.emplace_back(std::bit_cast<double>(scalars_[values.size()]));
      } else if (slot.kind == OperandSlot::Kind::scalar_int) {
        values.emplace_back(static_cast<int64_t>(scalars_[values.size()]));
      }
    }
  }
  return values;
}

} // namespace ftm
