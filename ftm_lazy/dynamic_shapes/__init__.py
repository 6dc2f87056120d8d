"""Dynamic shapes: choosing the sizes that become symbols, and specializing programs to sizes."""
