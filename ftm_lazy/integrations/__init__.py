"""Hooks into other libraries: Hugging Face, Lightning, multiprocessing."""
