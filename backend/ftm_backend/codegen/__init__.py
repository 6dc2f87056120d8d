"""Code generation: tile-level ``ftm`` operations in, assembly text out.

`builder.py` is what the midend writes the operations with.  Then, in order: `verify.py` checks them; `reader.py`
turns each function into a tree (`tree.py`, `index.py`; map bodies by `elements.py` and `element_rules.py`);
`multibuffer.py` overlaps transfers with computing; `scratchpad.py` lays the tiles out; `sync.py` inserts waits;
`registers.py` writes the lines; `emit.py` puts the program together.
"""
