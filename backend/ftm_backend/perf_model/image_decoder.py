"""An image as the cycle model reads it: records, costs of maps, and steady loops."""

from __future__ import annotations

from ftm_backend.assembler.image_layout import BUFFER_KINDS, HEADER
from ftm_backend.assembler.image_writer import read_sections
from ftm_backend.perf_model.loop_extrapolation import is_steady
from ftm_backend.perf_model.map_costs import map_cost
from ftm_backend.target.element_types import BY_NUMBER, SPACES
from ftm_backend.target.presets import MachineParameters

_GSM, _INPUT = (BUFFER_KINDS.index(kind) for kind in ("GSM", "INPUT"))


class DecodedImage:
    """The data that the walks of all cores share: records and costs of maps."""

    def __init__(self, image: bytes, machine: MachineParameters, extrapolate: bool = True) -> None:
        self.extrapolate = extrapolate
        self.sections = read_sections(image)
        self.machine = machine
        header = HEADER.struct.unpack_from(image)
        self.main = header[7]
        self.functions = self.sections["functions"]
        self.names = [self.string(f[0]) for f in self.functions]
        self.code = self.sections["instructions"]
        self.maps = [map_cost(machine, record, self.sections) for record in self.sections["maps"]]
        self.in_gsm = [tile[2] == SPACES["gsm"] for tile in self.sections["tiles"]]
        self.buffer_in_gsm = [buffer[1] == _GSM for buffer in self.sections["buffers"]]
        self.float_inputs = {
            number: buffer[7]
            for number, buffer in enumerate(self.sections["buffers"])
            if buffer[1] == _INPUT and BY_NUMBER[buffer[2]].kind == "float"
        }
        """Number of a float input of the program -> its bytes."""
        self.bounds = {label[1]: label[3] for label in self.sections["labels"]}
        self._steady: dict[int, bool] = {}

    def string(self, offset: int) -> str:
        """Return a string of the image."""
        blob = self.sections["strings"]
        return blob[offset : blob.index(b"\0", offset)].decode()

    def steady(self, first: int, branch: int) -> bool:
        """Whether the loop from instruction ``first`` to ``branch`` may be extrapolated."""
        steady = self._steady.get(branch)
        if steady is None:
            steady = self._steady[branch] = self.extrapolate and is_steady(self.code[first:branch])
        return steady
