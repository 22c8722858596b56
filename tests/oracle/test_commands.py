"""The merge of command line and file against the real launcher, release by release."""

import shlex
from pathlib import Path

import pytest
from tests import gated
from tests.oracle import environment
from tests.oracle.client import Oracle
from tests.oracle.commands import asked, differences, errors, merged

import packed

pytestmark = gated.oracle
RELEASES = ("0.20.3", "0.28.0", "0.34.2", "1.4.0", "1.10.1", "1.15.0")
MULTI = """\
distributed_type: MULTI_GPU
num_processes: 4
num_machines: 1
machine_rank: 0
mixed_precision: bf16
use_cpu: false
"""
FSDP = MULTI.replace("MULTI_GPU", "FSDP") + (
	"fsdp_config: {fsdp_offload_params: true, fsdp_sharding_strategy: 2, fsdp_min_num_params: 5, min_num_params: 7}\n"
)
DEEPSPEED = """\
distributed_type: DEEPSPEED
num_processes: 4
num_machines: 1
use_cpu: false
mixed_precision: 'no'
deepspeed_config: {zero_stage: 3, offload_optimizer_device: cpu, gradient_accumulation_steps: 2}
"""
FILES = {
	"multi": MULTI,
	"scalars": MULTI + "rdzv_backend: c10d\nsame_network: true\ndowncast_bf16: 'no'\nmain_process_port: 1234\n",
	"fsdp": FSDP,
	"deepspeed": DEEPSPEED,
	"override": DEEPSPEED.replace("{zero_stage: 3", "{zero_stage: 3, num_processes: 2, machine_rank: 0"),
	"megatron": MULTI.replace("MULTI_GPU", "MEGATRON_LM") + "megatron_lm_config: {megatron_lm_tp_degree: 2}\n",
	"cpu": MULTI.replace("MULTI_GPU", "'NO'").replace("use_cpu: false", "use_cpu: true"),
	"dynamo": MULTI + "dynamo_config: {dynamo_backend: INDUCTOR, mode: max-autotune}\n",
	"gpus": MULTI + "gpu_ids: '0,1'\nmain_training_function: main\n",
	"parallel": FSDP + "parallelism_config: {parallelism_config_tp_size: 2, parallelism_config_dp_shard_size: 2}\n",
	"debug": MULTI + "debug: true\n",
	"tpu": MULTI.replace("MULTI_GPU", "XLA") + "tpu_use_cluster: true\n",
	"none": None,
}
FLAGS = (
	"",
	"--num_processes 2 --mixed_precision fp16 --main_process_port 29501 train.py --lr 3",
	"--use_fsdp --fsdp_offload_params false --fsdp_min_num_params=9 --fsdp_sharding_strategy 1",
	"--use_deepspeed --zero_stage 2 --gradient_accumulation_steps 8 --offload_optimizer_device none",
	"--zero_stage 1 --machine_rank 0 --num_machines 1",
	"--multi_gpu --num_processes 2 --gpu_ids 2,3 --rdzv_backend static --same_network",
	"--cpu --num_processes 1 --dynamo_backend eager --dynamo_mode default",
	"--use_megatron_lm --megatron_lm_pp_degree 2 --debug",
	"-m -q -t 3 --tpu_use_sudo --env A=1 --env B=2 pkg.main.py --config_file x",
	"--no_tpu_cluster --max_restarts 3 --monitor_interval 2 --downcast_bf16",
)


@pytest.mark.parametrize("release", RELEASES)
def test_file_and_flags_come_to_the_same_arguments(release: str) -> None:
	found, compared = [], 0
	with Oracle(environment.default(), "accelerate", release) as oracle:
		for name, text in FILES.items():
			for flags in FLAGS:
				facts = asked(oracle, text, flags).get("facts", {})
				if arguments := facts.get("launch", facts).get("arguments"):  # else refused before it was merged
					launch = merged(text, flags, release)
					compared += 1
					found += [f"{name} {flags}: {one}" for one in (differences(launch, arguments) if launch else "-")]
	assert not found, (len(found), "\n".join(found[:40]))
	assert compared >= 50


LINES = Path(__file__).parent.parent / "cases" / "commands.txt.gz"


@pytest.mark.parametrize("release", ["0.27.2", "0.34.2", "1.10.1", "1.15.0"])
def test_command_lines_are_refused_as_the_launcher_refuses_them(release: str) -> None:
	"""Without any config, on a machine with eight GPUs; what depends on other packages is left out."""
	lines, different, compared = packed.unpacked(LINES).splitlines(), [], 0
	with Oracle(environment.default(), "accelerate", release) as oracle:
		for line in lines:
			question = {"mode": "launch", "files": {}, "config": "", "flags": [], "gpus": 8}
			answer, found = oracle.ask({**question, "words": shlex.split(line)}), errors(line, release)
			if answer["verdict"] in ("accepted", "rejected"):
				compared += 1
				if (answer["verdict"] == "rejected") != bool(found):
					said = answer.get("error", {}).get("message", "")[-150:]
					different.append(f"{line}: {answer['verdict']} {said!r}, {found}")
	print(release, f"{compared - len(different)} of {compared} agree", *different, sep="\n")
	assert len(lines) >= 150
	assert len(different) <= 0.01 * compared, "\n".join(different)
