"""What the numbers of an out-of-memory message say: who holds the memory, and whether it is only in pieces."""

import re
from collections.abc import Iterable
from typing import NamedTuple

_POWERS = {"": -30, "K": -20, "M": -10, "G": 0, "T": 10}
_SIZE = r"([0-9]{1,9}(?:\.[0-9]{1,4})?) ?([KMGT]?)i?B"
_PARTS = {
	"asked": (rf"[Tt]ried to allocate {_SIZE}",),
	"capacity": (rf"total capacity of {_SIZE}", rf"{_SIZE} total capacity"),
	"free": (rf"of which {_SIZE} is free", rf"{_SIZE} free"),
	"allocated": (rf"{_SIZE} is allocated by PyTorch", rf"{_SIZE} already allocated"),
	"idle": (rf"{_SIZE} is reserved by PyTorch but unallocated",),
	"reserved": (rf"{_SIZE} reserved in total by PyTorch",),
}
FRAGMENTED = 0.1  # of the capacity, lying idle although more than what was asked for
FOREIGN = 0.1  # of the capacity, held by somebody else
OVERHEAD = 2.0  # GiB that the CUDA context and NCCL take outside PyTorch's allocator


class Memory(NamedTuple):
	"""The numbers of one message, in GiB."""

	asked: float
	capacity: float
	free: float
	allocated: float
	idle: float

	@property
	def others(self) -> float:
		return self.capacity - self.free - self.allocated - self.idle

	@property
	def in_pieces(self) -> bool:
		return self.idle > 0 and self.idle + self.free >= self.asked

	@property
	def kind(self) -> str:
		if self.in_pieces and self.idle > FRAGMENTED * self.capacity:
			return "fragmented"
		return "foreign" if self.others > max(FOREIGN * self.capacity, OVERHEAD) else "full"

	@property
	def said(self) -> str:
		line = (
			f"{self.asked:.2f} GiB asked of {self.capacity:.2f} GiB: {self.allocated:.2f} allocated, "
			f"{self.idle:.2f} reserved and idle, {self.free:.2f} free, {max(self.others, 0.0):.2f} held outside PyTorch"
		)
		pieces = self.kind == "full" and self.in_pieces
		return f"{line}; {_MEANING['pieces' if pieces else self.kind]}"


_MEANING = {
	"fragmented": "the idle part would do if it were in one piece: fragmentation",
	"foreign": "another process, or another rank on this GPU, holds part of it",
	"full": "the memory is really full",
	"pieces": "the memory is full but for pieces that are soon used up",
}


def read_memory(texts: Iterable[str]) -> Memory | None:
	for text in texts:
		found = {name: _gib(patterns, text) for name, patterns in _PARTS.items()}
		asked, capacity, allocated, idle = map(found.get, ("asked", "capacity", "allocated", "idle"))
		if asked is not None and capacity and allocated is not None:
			if idle is None:
				idle = max((found["reserved"] or allocated) - allocated, 0.0)
			return Memory(asked, capacity, found["free"] or 0.0, allocated, idle)
	return None


def _gib(patterns: tuple[str, ...], text: str) -> float | None:
	found = next((match for pattern in patterns if (match := re.search(pattern, text))), None)
	return float(found.group(1)) * 2.0 ** _POWERS[found.group(2)] if found else None
