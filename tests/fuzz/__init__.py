"""A fuzzer of what the machine loads and the cache reads (images, assembly texts, files of the
cache), and of what it does with several cores.

``python tests/fuzz/run.py --seconds 60`` runs it under sanitizers; see there.
"""
