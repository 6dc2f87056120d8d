"""torch_xla._internal.decomp_registration: empty, but importable.

torch_xla registers decompositions of ops that XLA lacks when it is imported; ftm compiles them.
"""
