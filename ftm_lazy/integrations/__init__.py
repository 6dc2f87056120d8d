"""Patches of other libraries: Hugging Face, Lightning, safetensors, multiprocessing, torch.nn."""
