"""The instructions, one module per family; ``target.instruction_table`` joins them."""
