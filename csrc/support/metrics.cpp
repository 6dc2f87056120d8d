#include "support/metrics.h"

#include "support/runtime.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

namespace ftm {

namespace lazy = torch::lazy;

namespace {

struct MetricTable {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<lazy::Metric>> metrics;
};

} // namespace

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  lazy::MetricsArena::Get()->ForEachMetric([&](const std::string& name, lazy::MetricData* data) {
    if (data->IsValid()) {
      names.push_back(name);
    }
  });
  return names;
}

std::optional<MetricSamples> metric_samples(const std::string& name) {
  auto* data = lazy::MetricsArena::Get()->GetMetric(name);
  if (data == nullptr || !data->IsValid()) {
    return std::nullopt;
  }
  MetricSamples result;
  auto& [count, sum, samples] = result;
  for (const auto& sample : data->Samples(&sum, &count)) {
    samples.emplace_back(static_cast<double>(sample.timestamp_ns) * 1e-9, sample.value);
  }
  return result;
}

std::string metric_report(const std::vector<std::string>& names) {
  if (names.empty()) {
    return {};
  }
  const std::vector<std::string> no_counters{""}; // an empty list would report all counters
  return lazy::CreateMetricReport(no_counters, names);
}

void add_sample(const std::string& name, Measure measure, double value) {
  auto& table = part<MetricTable>();
  const std::lock_guard<std::mutex> guard(table.mutex);
  auto& metric = table.metrics[name];
  if (!metric) {
    metric = std::make_unique<lazy::Metric>(
        name, measure == Measure::time ? lazy::MetricFnTime : lazy::MetricFnBytes);
  }
  metric->AddSample(value);
}

void reset_metrics() {
  lazy::MetricsArena::Get()->ResetMetrics();
}

} // namespace ftm
