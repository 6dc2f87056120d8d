// Times and sizes that are measured while programs run, kept by torch::lazy's own metrics, which
// also print them.
#pragma once

#include <torch/csrc/lazy/core/metrics.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ftm {

// Times are in nanoseconds.
enum class Measure { time, bytes };

// Names of the metrics that have samples.
std::vector<std::string> metric_names();

// Number of samples, their sum, and the last ones as (time in seconds, value).
using MetricSamples = std::tuple<size_t, double, std::vector<std::pair<double, double>>>;
std::optional<MetricSamples> metric_samples(const std::string& name);

// The metrics as text, in the order given.
std::string metric_report(const std::vector<std::string>& names);

void add_sample(const std::string& name, Measure measure, double value);
void reset_metrics();

} // namespace ftm
