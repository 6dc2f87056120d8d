"""The assembler: turns assembly into the binary image that the machine loads."""

from ftm_backend.assembler.image_writer import assemble, verify

__all__ = ["assemble", "verify"]
