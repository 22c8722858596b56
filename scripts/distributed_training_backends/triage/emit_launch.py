"""The commands that start a setup: on one machine, on several, under Slurm."""

from collections.abc import Iterator

from .emit_accelerate import HOSTFILE, machines
from .facts import Facts
from .setup import Setup

CONFIG = "accelerate.yaml"
SCRIPT = "train.py"
START = f"accelerate launch --config_file {CONFIG}"
ADDRESS = '--main_process_ip "$MAIN_ADDRESS"'


def launch_script(facts: Facts, setup: Setup) -> str:
	return "\n".join(["#!/bin/sh", *launch_lines(facts, setup)]) + "\n"


def launch_lines(facts: Facts, setup: Setup) -> Iterator[str]:
	alone = f"{START} {SCRIPT}"
	count = machines(facts, setup)
	if setup.backend == "xla" and count > 1:
		yield "# On every host of the slice at once; TPU_NAME and ZONE are those of the slice."
		yield (f'gcloud compute tpus tpu-vm ssh "$TPU_NAME" --zone "$ZONE" --worker all --command "{alone}"')
	elif setup.backend == "cpu":
		yield f"# On the first machine; {HOSTFILE} lists the machines, and mpirun starts the processes on all of them."
		if count > 1:
			yield "# MAIN_ADDRESS is the address of this first machine."
		yield f"{START} {ADDRESS} {SCRIPT}" if count > 1 else alone
	elif count > 1:
		yield f"# On each of the {count} machines: RANK is 0 to {count - 1}, MAIN_ADDRESS is the address of machine 0."
		yield f'{START} --machine_rank "$RANK" {ADDRESS} {SCRIPT}'
	else:
		yield alone


def slurm_script(facts: Facts, setup: Setup) -> str | None:
	"""A batch script: one launcher on each node, which starts the processes there. None where Slurm has no part."""
	if setup.backend in ("xla", "cpu") or facts.hardware.device in ("mps", "cpu"):
		return None
	nodes = machines(facts, setup)
	local = setup.world // nodes
	# the inner shell runs on each node, where SLURM_PROCID is the node's own
	meeting = f' --machine_rank "$SLURM_PROCID" {ADDRESS}' if nodes > 1 else ""
	address = 'MAIN_ADDRESS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nexport MAIN_ADDRESS\n'
	return f"""\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={local}
#SBATCH --exclusive
set -euo pipefail
{address if nodes > 1 else ""}srun bash -c '{START}{meeting} {SCRIPT}'
"""
