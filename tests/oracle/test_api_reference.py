"""The tables of references/api-reference.md against the real Accelerate: parameters, defaults, variables."""

from typing import Any

import pytest
from tests import gated
from tests.oracle.client import Answer, Oracle
from tests.oracle.environment import PINS

from distributed_training_backends.knowledge import accelerate, accelerate_api

pytestmark = gated.oracle
RELEASE = PINS["accelerate"]
OWNERS = sorted(accelerate_api.owners(RELEASE))
# Where the classes are that `accelerate` and `accelerate.utils` do not export.
ELSEWHERE = {
	"AcceleratorState": "accelerate.state",
	"LocalSGD": "accelerate.local_sgd",
	"TensorInformation": "accelerate.utils.dataclasses",
	"TorchTensorParallelPlugin": "accelerate.utils.dataclasses",
	"HfDeepSpeedConfig": "accelerate.utils",
}
FIND = """
import importlib, inspect
def find(owner):
    name, _, method = owner.partition(".")
    for module in (ELSEWHERE.get(name), "accelerate", "accelerate.utils", "accelerate.utils.dataclasses"):
        if module and hasattr(importlib.import_module(module), name):
            found = getattr(importlib.import_module(module), name)
            return getattr(found, method) if method else found
    raise LookupError(owner)
"""
PARAMETERS = """
stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
found = {}
for name, item in inspect.signature(find(OWNER)).parameters.items():
    if name != "self":
        required = item.default is inspect.Parameter.empty and item.kind not in stars
        found[stars.get(item.kind, "") + name] = "required" if required else "optional"
wrong = {key: (found.get(key), WANTED.get(key)) for key in found | WANTED if found.get(key) != WANTED.get(key)}
assert not wrong, wrong
for name, default in DEFAULTS.items():
    item = inspect.signature(find(OWNER)).parameters[name]
    assert str(getattr(item.default, "value", item.default)) == default, (name, item.default, default)
"""
# A field takes what the variable says, and without it what the reference says.
VARIABLES = """
import os, warnings
warnings.simplefilter("ignore")
def shown(value):
    value = getattr(value, "name", None) or getattr(value, "offload_params", value)
    return str(value).lower()
for variable in VARIABLES.values():
    os.environ.pop(variable, None)
plain = find(OWNER)()
wrong = {name: (shown(getattr(plain, name)), value) for name, value in OTHERWISE.items()
         if shown(getattr(plain, name)) != str(value).lower()}
assert not wrong, wrong
for name, variable in VARIABLES.items():
    os.environ[variable] = SAMPLES[name]
    changed = find(OWNER)()
    del os.environ[variable]
    assert shown(getattr(changed, name)) != shown(getattr(plain, name)), (name, variable)
"""
# Values that a variable may hold where it is no number and no truth word, by field.
SPECIAL = {
	"amax_compute_algo": "max",
	"backend": "eager",
	"cp_comm_strategy": "alltoall",
	"dynamic": "true",
	"fp8_format": "E4M3",
	"hf_ds_config": "",
	"mode": "max-autotune",
	"opt_level": "O1",
	"msamp_opt_level": "O2",
	"recompute_granularity": "selective",
	"recompute_method": "block",
	"reshard_after_forward": "SHARD_GRAD_OP",
	"sharding_strategy": "SHARD_GRAD_OP",
	"state_dict_type": "SHARDED_STATE_DICT",
	"backward_prefetch": "BACKWARD_PRE",
	"enable_msamp": "MSAMP",
	"offload_optimizer_device": "cpu",
	"offload_param_device": "cpu",
	"sp_attn_implementation": "flash_attention_2",
}
# Fields whose variable is looked at only beside other settings, or where other values are refused.
LEFT_OUT = {
	"DeepSpeedPlugin": {"hf_ds_config", "zero3_init_flag", "transformer_moe_cls_names", "enable_msamp"},
	"FullyShardedDataParallelPlugin": {
		*("fsdp_version", "auto_wrap_policy", "transformer_cls_names_to_wrap", "min_num_params"),
		*("reshard_after_forward", "activation_checkpointing_offload", "cpu_ram_efficient_loading"),
	},
	"ParallelismConfig": {"cp_backend", "sp_backend"},
	"DeepSpeedSequenceParallelConfig": {"sp_seq_length_is_variable", "sp_seq_length"},
}
NEEDS_PACKAGE = {"TERecipeKwargs", "FP8RecipeKwargs"}  # TransformerEngine
WITH_VARIABLES = [
	owner
	for owner in OWNERS
	if accelerate_api.sources(owner, RELEASE)
	and owner not in NEEDS_PACKAGE
	and not owner.startswith(("Accelerator", "PartialState"))
]


def run(oracle: Oracle, code: str, **names: Any) -> Answer:
	bound = "".join(f"{name} = {value!r}\n" for name, value in {"ELSEWHERE": ELSEWHERE, **names}.items())
	case = {"mode": "python", "name": "reference", "processes": 2, "config": "", "files": {}}
	return oracle.ask({**case, "code": bound + FIND + code})


def sample(name: str, default: object) -> str:
	if name in SPECIAL:
		return SPECIAL[name]
	if str(default).lower() in ("true", "false"):
		return "false" if str(default).lower() == "true" else "true"
	return "3"


def test_the_release_of_the_page() -> None:
	assert accelerate.RELEASES[-1] == RELEASE


@pytest.mark.parametrize("owner", OWNERS)
def test_parameters_are_those_of_the_class(owner: str, snippets: Oracle) -> None:
	known = accelerate_api.parameters(owner, RELEASE)
	wanted = {name: "required" if item.required else "optional" for name, item in known.items()}
	defaults = {
		name: str(item.default)
		for name, item in known.items()
		if not item.required
		and not name.startswith("*")
		and isinstance(item.default, (bool, int, float, str, type(None)))
	}
	answer = run(snippets, PARAMETERS, OWNER=owner, WANTED=wanted, DEFAULTS=defaults)
	assert answer["verdict"] == "accepted", answer.get("error")


@pytest.mark.parametrize("owner", WITH_VARIABLES)
def test_variables_fill_the_fields(owner: str, snippets: Oracle) -> None:
	sources = accelerate_api.sources(owner, RELEASE)
	checked = {name: item for name, item in sources.items() if name not in LEFT_OUT.get(owner, ())}
	answer = run(
		snippets,
		VARIABLES,
		OWNER=owner,
		VARIABLES={name: item.variables[0] for name, item in checked.items()},
		OTHERWISE={name: item.otherwise for name, item in checked.items() if item.known},
		SAMPLES={name: sample(name, item.otherwise) for name, item in checked.items()},
	)
	assert answer["verdict"] == "accepted", answer.get("error")


def test_what_is_wrong_is_noticed(snippets: Oracle) -> None:
	wanted = {"model": "required", "keep_fp32_wrapper": "optional", "keep_torch_compile": "optional"}
	right = {"OWNER": "Accelerator.unwrap_model", "WANTED": wanted, "DEFAULTS": {"keep_torch_compile": "True"}}
	assert run(snippets, PARAMETERS, **right)["verdict"] == "accepted"
	for change in ({"WANTED": {**wanted, "model": "optional"}}, {"DEFAULTS": {"keep_torch_compile": "False"}}):
		assert run(snippets, PARAMETERS, **{**right, **change})["error"]["type"] == "AssertionError"
	fields = {"OWNER": "MSAMPRecipeKwargs", "SAMPLES": {"opt_level": "O1"}}
	variable = {"VARIABLES": {"opt_level": "ACCELERATE_FP8_OPT_LEVEL"}, "OTHERWISE": {"opt_level": "O2"}}
	assert run(snippets, VARIABLES, **fields, **variable)["verdict"] == "accepted"
	for other in ({"OTHERWISE": {"opt_level": "O1"}}, {"VARIABLES": {"opt_level": "ACCELERATE_FP8_OPT_LEVELS"}}):
		assert run(snippets, VARIABLES, **fields, **{**variable, **other})["error"]["type"] == "AssertionError"
