"""PyTorch's own databases of ops, modules and optimizers, run on ftm and compared with the CPU.

    python tests/opdb/run.py --help

| file | what it is for |
|---|---|
| run.py | the command: what to run, progress, summary, exit code |
| schedule.py | the parent's side: workers, time limits, crashes, the file of results |
| worker.py | one process that runs units and reports each check |
| engine.py | runs the cases of one check on both devices and says what differs |
| compare.py | when two results are the same: tolerances, random and undetermined values |
| place.py | moves the arguments of a case to a device |
| op_checks.py, module_checks.py, optim_checks.py | the cases: what is run for an entry of each database |
| compiled_checks.py | op_db again, each sample under `torch.compile` |
| databases.py | the databases behind one interface |
| report.py, symbolic/shape_relations.py | the summary of a run |
| support.py, support.json | what is native and right, as the last full run found it |
| table.py | the tables of docs/ops.md, made of it |
| codegen/function_cache.py | gaps that are known, each with its reason |
"""
