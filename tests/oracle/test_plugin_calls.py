"""The real constructors say of every call of tests/cases/plugin_calls.txt.gz what is written there, and the launcher
decides what `test_rules_python.BESIDE` says that it decides."""

import pytest
from tests import gated
from tests.oracle import environment
from tests.oracle.client import Answer, Oracle
from tests.test_rules_python import ALONE, DDP, DEEPSPEED, EIGHT, FSDP1, FSDP2, HEAD, OFFLOAD, RELEASES, SIZES, TABLE

pytestmark = gated.oracle
TOLD = "\nraise KeyError(f'{a.distributed_type.value} {a.mixed_precision} {a.gradient_accumulation_steps}')"
# what wins over what: the backend, the precision and the accumulation that `Accelerator` ends up with
WINNERS = [
	("a = Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin())", DEEPSPEED, "DEEPSPEED bf16 1"),
	("a = Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin())", "distributed_type: 'NO'\n", "NO no 1"),
	("a = Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin())", DDP, "FSDP bf16 1"),
	("a = Accelerator(deepspeed_plugin=DeepSpeedPlugin(zero_stage=3))", FSDP2, "DEEPSPEED no 1"),
	("a = Accelerator(mixed_precision='fp16')", DDP, "MULTI_GPU fp16 1"),
	("a = Accelerator(gradient_accumulation_steps=4)", DDP, "MULTI_GPU bf16 4"),
	("a = Accelerator(gradient_accumulation_steps=4)", EIGHT, "DEEPSPEED bf16 8"),
]
REFUSED = [
	(OFFLOAD, FSDP1, True),
	(OFFLOAD, FSDP2, False),
	(ALONE, FSDP2, True),
	(ALONE, FSDP1, False),
	(SIZES, DDP, True),
]


def asked(oracle: Oracle, code: str, config: str = "") -> Answer:
	case = {"mode": "python", "name": "s", "code": HEAD + code, "processes": 8}
	files = {"config.yaml": config} if config else {}
	return oracle.ask({**case, "config": "config.yaml" if config else "", "files": files})


@pytest.mark.parametrize("release", RELEASES)
def test_the_table_says_what_the_library_does(release: str) -> None:
	place, wrong = RELEASES.index(release), []
	with Oracle(environment.default(), "snippets", release) as oracle:
		for line in TABLE[1:]:
			verdict, call = line[place], line.partition(" ")[2]
			answer = asked(oracle, call)["verdict"] if verdict != "-" else "-"
			wrong += [f"{answer}: {line}"] if answer[0] != verdict else []
	assert wrong == []


@pytest.mark.parametrize("release", ["1.6.0", "1.15.0"])
def test_who_wins(release: str) -> None:
	with Oracle(environment.default(), "snippets", release) as oracle:
		for code, config, told in WINNERS:
			assert asked(oracle, code + TOLD, config)["error"]["message"] == repr(told), code


def test_the_launcher_decides_what_is_left_out() -> None:
	with Oracle(environment.default(), "snippets", "1.15.0") as oracle:
		for code, config, refused in REFUSED:
			assert (asked(oracle, code, config)["verdict"] == "rejected") is refused, code
