"""The instructions, one file for each family; ``isa.table`` joins them."""
