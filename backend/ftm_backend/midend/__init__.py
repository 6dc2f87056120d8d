"""The midend: linalg on tensors to kernels on tiles. `pipeline` lists the passes."""
