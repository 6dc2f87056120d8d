"""torch_xla.debug.metrics_compare_utils: parse metrics reports, and compare one with others."""

from __future__ import annotations

import re
import statistics
from typing import Any

__all__ = ["compare_metrics", "get_data_points_from_metrics_reports", "parse_metrics_report"]

_UNITS = {
    "sec": {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6},
    "mb": {"PB": 1e9, "TB": 1e6, "GB": 1e3, "MB": 1.0, "KB": 1e-3, "B": 1e-6},
}
_PERCENTILES = ("1", "5", "10", "20", "50", "80", "90", "95", "99")


def _number(text: str) -> tuple[float, str]:
    """Parse a value and its unit: "" for a number, "sec" for a time, "mb" for a size.

    Raises:
        ValueError: The text has another form.
    """
    try:
        return float(text), ""
    except ValueError:
        pass
    parts = re.findall(r"([\d.]+)([A-Za-z]+)", text)
    if "".join(number + unit for number, unit in parts) == text:
        for name, units in _UNITS.items():
            if parts and all(unit in units for _, unit in parts):
                return sum(float(number) * units[unit] for number, unit in parts), name
    raise ValueError(f"Unknown metric_str format: {text}")


def parse_metrics_report(report: str, dehumanize: bool = True) -> dict[str, Any]:
    """Return the values of a report.

    Args:
        report: A result of `metrics.metrics_report`.
        dehumanize: Return numbers, in seconds or MB; otherwise pairs (number, text).

    Returns:
        For example ``{"CompileTime__Accumulator_sec": 1.5, "CompileTime__TotalSamples": 2.0,
        "MarkStep__Value": 7}``.
    """
    values: dict[str, object] = {}

    def add(metric: str, key: str, text: str) -> None:
        number, unit = _number(text)
        values[f"{metric}__{key}{'_' if unit else ''}{unit}"] = (
            number if dehumanize else (number, text)
        )

    name = ""
    for line in report.splitlines():
        key, _, text = line.strip().partition(": ")
        if key in ("Metric", "Counter"):
            name = text
        elif key in ("TotalSamples", "Accumulator"):
            add(name, key, text)
        elif key == "Percentiles":
            for each in text.split("; "):
                percent, _, value = each.partition("%=")
                if percent in _PERCENTILES:
                    add(name, f"Percentile_{percent}", value)
        elif key == "Value":
            values[f"{name}__Value"] = int(text)
    return values


def get_data_points_from_metrics_reports(
    metrics_reports: list[str],
) -> dict[str, list[float | None]]:
    """Return each value's numbers in a list of reports; None in a report that lacks it."""
    parsed = [parse_metrics_report(report) for report in metrics_reports]
    names = dict.fromkeys(name for values in parsed for name in values)
    return {name: [values.get(name) for values in parsed] for name in names}


def compare_metrics(
    data_points: dict[str, list[float | None]],
    metrics_report: str,
    config: dict[str, str] = {"base_expression": "v <= v_mean + (v_stddev * 2.0)"},  # noqa: B006
) -> str:
    """Return a line for each value of a report that deviates from earlier reports.

    Args:
        data_points: A result of `get_data_points_from_metrics_reports`.
        metrics_report: The report to check.
        config: Python expressions of ``v``, ``v_mean`` and ``v_stddev`` that must be true:
            ``NAME_expression`` for one value, ``base_expression`` for all others.
    """
    lines = []
    for name, value in sorted(parse_metrics_report(metrics_report).items()):
        earlier = [number for number in data_points.get(name, []) if number is not None]
        if not earlier:
            if name.startswith("aten::"):
                lines.append(f"Found new aten counter: {name}: {value}\n")
            continue
        mean, deviation = statistics.fmean(earlier), statistics.pstdev(earlier)
        expression = config.get(f"{name}_expression") or config["base_expression"]
        if not eval(expression, None, {"v": value, "v_mean": mean, "v_stddev": deviation}):  # noqa: S307  (the user's)
            lines.append(
                f"{name} failed its expression check. Expression: {expression}.  Mean: {mean}.  "
                f"Stddev: {deviation}.  Actual Value: {value}\n"
            )
    return "".join(lines)
