// Durations and sizes that are measured while programs run. torch::lazy's metrics store and print
// them. Thread-safe.
#pragma once

#include <torch/csrc/lazy/core/metrics.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ftm {

// The unit of a metric: nanoseconds or bytes.
enum class Measure { time, bytes };

// Returns the names of the metrics that have samples.
std::vector<std::string> metric_names();

// Number of samples, their sum, and the most recent samples as (time in seconds, value).
using MetricSamples = std::tuple<size_t, double, std::vector<std::pair<double, double>>>;
// Returns a metric's samples, or nullopt if it has none.
std::optional<MetricSamples> metric_samples(const std::string& name);

// Formats the named metrics as torch::lazy's report, in the given order.
std::string metric_report(const std::vector<std::string>& names);

// Adds one sample; the first one creates the metric with this unit.
void add_sample(const std::string& name, Measure measure, double value);
// Drops all samples of all metrics.
void reset_metrics();

} // namespace ftm
