"""What macros consist of: for each macro of the instruction table the primitive operations that it
stands for.

A machine of this family loads and stores vectors, multiplies and adds, compares, moves under a
predicate, shuffles lanes and transfers from one place to another. Everything else in the table is a
*macro*: its row names a function of this package, which says in those operations what it does.
Tests run expansions against their macros, the cycle model charges them, and ``docs/expansions.md``
shows them.

``body`` records what a macro inside ``@map`` does to an element; ``unit`` executes and counts what
one outside does to vectors.
"""
