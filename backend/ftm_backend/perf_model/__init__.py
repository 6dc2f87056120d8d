"""The performance model: cycles and memory traffic of a program on a machine. Every figure is
modelled, none measured."""
