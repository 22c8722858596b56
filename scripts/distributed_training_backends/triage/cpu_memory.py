"""Memory of a node: what is offloaded, what loading the weights takes, and the processes themselves."""

from ..model_triage import Amount
from .coefficients import coefficient
from .estimate import GIB
from .phases import Pieces
from .run import BYTES
from .setup import FSDP


def cpu_of(pieces: Pieces) -> Amount:
	"""The most that a node needs: while weights are loaded, or while it trains.

	Weights are read on every rank unless the loader of FSDP or ZeRO-3 reads them once for all.
	"""
	run = pieces.run
	ranks = min(run.facts.hardware.gpus_per_node or 8, run.setup.world)
	processes = ranks * coefficient("process_gib") * GIB
	once = run.setup.ram_efficient and run.setup.backend in (*FSDP, "zero3")
	copies = 1 if once or ranks == 1 else ranks
	weights = run.shape.params * BYTES[run.facts.weights or "fp32"] * copies
	offloaded = pieces.states.cpu * ranks
	training = offloaded * coefficient("pinned_share") + processes
	point = max(weights + processes, training)
	return Amount(max(processes, offloaded + processes) * 0.8, point, point * 1.3)
