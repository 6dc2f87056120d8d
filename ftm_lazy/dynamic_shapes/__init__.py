"""Which sizes of a trace are symbols, and the dynamic-shape programs that serve many sizes."""
