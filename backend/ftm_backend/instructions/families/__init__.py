"""The instructions, one file for each family; ``instructions.table`` joins them."""
