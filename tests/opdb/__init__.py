"""PyTorch's databases of ops, modules and optimizers, run on ftm and compared with the CPU.

    python tests/opdb/run.py --help

| file | purpose | |---|---| | run.py | the command: selection, progress, summary, exit code | |
schedule.py | the parent process: workers, time limits, crashes, the file of results | | worker.py |
a process that runs units and reports each check | | engine.py | runs the cases of one check on both
devices and reports differences | | compare.py | equality of results: tolerances, random and
undetermined values | | place.py | moves the arguments of a case to a device | | op_checks.py,
module_checks.py, optim_checks.py | the cases of each database's entries | | compiled_checks.py |
op_db again, each sample under `torch.compile` | | databases.py | one interface to the databases | |
report.py, families.py | the summary of a run | | support.py, support.json | what is native and
correct, from the last full run | | table.py | generates the tables of docs/ops.md from it | |
known.py | known gaps, each with its reason |
"""
