"""The instructions, one file for each family; ``target.instruction_table`` joins them."""
