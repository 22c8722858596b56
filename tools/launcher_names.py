"""What `accelerate launch` calls a setting: from a variable to the option, its flag and the key of a config file."""

from functools import cache
from typing import NamedTuple

from distributed_training_backends.flow.placement import block_of
from distributed_training_backends.knowledge import accelerate
from reference_tables import code, value


class Rule(NamedTuple):
	"""How the key of a config file and the variable are called that a flag of a section stands for."""

	flag: str
	key: str
	variable: str = ""  # none where there is no telling

	def told(self) -> str:
		variable = f" and the variable `{self.variable}X`" if self.variable else ""
		return f"A flag `--{self.flag}x` is the key `{self.key}x`{variable} too; `--…` ends in the field's name."


FP8 = Rule("fp8_", "fp8_config.fp8_", "ACCELERATE_FP8_")
MESH = Rule("parallelism_config_", "parallelism_config.parallelism_config_", "PARALLELISM_CONFIG_")
RULES = {
	"FullyShardedDataParallelPlugin": Rule("fsdp_", "fsdp_config.fsdp_", "FSDP_"),
	"DeepSpeedPlugin": Rule("", "deepspeed_config."),
	"MegatronLMPlugin": Rule("megatron_lm_", "megatron_lm_config.megatron_lm_", "MEGATRON_LM_"),
	"TorchDynamoPlugin": Rule("dynamo_", "dynamo_config.dynamo_", "ACCELERATE_DYNAMO_"),
	**dict.fromkeys(("ParallelismConfig", "TorchContextParallelConfig", "DeepSpeedSequenceParallelConfig"), MESH),
	**dict.fromkeys(("AORecipeKwargs", "TERecipeKwargs", "MSAMPRecipeKwargs", "FP8RecipeKwargs"), FP8),
}


def launcher(owner: str, field: str, variables: tuple[str, ...], release: str) -> str:
	"""The variables of a field with the keys and flags that they carry, without what the rule of the section gives."""
	dests = [dest for variable in variables for dest in carried(variable, release)]
	keys = [*dict.fromkeys(key for dest in dests if (key := key_of(dest, release)))]
	flags = [*dict.fromkeys(flag for dest in dests if (flag := flag_of(dest, release)))]
	rule = RULES.get(owner)
	if rule and len(flags) == 1:
		name = flags[0].split("`")[1].removeprefix(f"--{rule.flag}")
		keys = [] if keys == [rule.key + name] else keys
		variables = () if variables == (f"{rule.variable}{name.upper()}",) else variables
		flags = [flags[0].replace(f"`--{rule.flag}{field}`", "`--…`")]
	return ", ".join([*map(code, (*variables, *keys)), *flags])


@cache
def carried_by(release: str) -> dict[str, tuple[str, ...]]:
	found: dict[str, tuple[str, ...]] = {}
	for dest, names in accelerate.for_release(release).exports.items():
		for name in names if dest != accelerate.NO_OPTION else ():
			found[name] = (*found.get(name, ()), dest)
	return found


def carried(variable: str, release: str) -> tuple[str, ...]:
	"""The launch options that a variable carries, and keys that are passed on without being options (`fp8_*`)."""
	known = accelerate.for_release(release)
	dest = variable.removeprefix("ACCELERATE_").lower()
	loose = (dest,) if variable in known.exported_as("setup_fp8_env", dest) else ()
	return carried_by(release).get(variable) or loose


def key_of(dest: str, release: str) -> str | None:
	"""Where a config file gives an option: at the top, or in a block."""
	known = accelerate.for_release(release)
	if dest in known.cluster:
		return dest
	block = "fp8_config" if dest.startswith("fp8_") else block_of(dest, release)
	return f"{block}.{dest}" if block and known.merges(block) else None


def flag_of(dest: str, release: str) -> str | None:
	option = accelerate.for_release(release).options.get(dest)
	if option is None or not option.flags:
		return None
	return f"{code(option.flags[0])}{'' if option.default is None else f' ({value(option.default)})'}"
