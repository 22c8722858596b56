"""FSD rules about single settings of `fsdp_config`: values that are refused, and settings that do not arrive."""

from collections.abc import Sequence

from ..flow.arguments import TRUE
from ..flow.launch import Launch
from ..knowledge import accelerate as knowledge
from ..model import Applicability, Severity
from .registry import Hit, Hits, Operation, Repair, rule
from .rewriting import as_written, rewriting
from .suggest import listing, shown
from .values import key_of, meaning, unread_hits, value_hits

# What FSDP2's `reshard_after_forward` makes of an FSDP1 strategy (commands/to_fsdp2.py).
RESHARD = {"FULL_SHARD": True, "SHARD_GRAD_OP": False}
STRATEGY = {"TRUE": "FULL_SHARD", "FALSE": "SHARD_GRAD_OP"}
NUMBERS = ("1", "2", "3", "4", "5")  # of the strategies, in their order
OWN_RULES = ("fsdp_reshard_after_forward", "fsdp_sharding_strategy")


def version_of(launch: Launch) -> int | None:
	"""1 or 2, the version of FSDP that the workers use; another number where one is given; None if it is none."""
	if launch.before("1.6.0"):
		return 1
	value = meaning(launch, "fsdp_version")
	return value if isinstance(value, int) else None


@rule("FSD001", error="*")
def fsdp_value(fsdp: Launch) -> Hits:
	"""A value in `fsdp_config` that is refused or taken for something else.

	The launcher turns every value into text and exports it; the plugin in the workers reads the text as a truth word
	(`true`, `yes`, `on`, `1` and their opposites), an integer or one of a few names. An empty value becomes the text
	`None`, `1e8` stays a text in YAML, and what is read as what differs between releases: `fsdp_sharding_strategy`
	is a number up to 0.25, a name in upper case up to 0.33, and a name in any case since 0.34. Source: 1.15.0 and
	older, utils/launch.py, `prepare_multi_gpu_env`, and utils/dataclasses.py, `FullyShardedDataParallelPlugin`.
	"""
	yield from value_hits(fsdp, ("fsdp_",))


@rule("FSD002", warning="*")
def fsdp_setting_unread(fsdp: Launch) -> Hits:
	"""A setting of `fsdp_config` that is passed on, and that nothing looks at in this file.

	FSDP2 has no `fsdp_forward_prefetch`, `fsdp_use_orig_params`, `fsdp_sync_module_states` and
	`fsdp_backward_prefetch`; `fsdp_min_num_params` and `fsdp_transformer_layer_cls_to_wrap` each belong to one
	`fsdp_auto_wrap_policy`. Source: 1.15.0, utils/dataclasses.py, `FullyShardedDataParallelPlugin.__post_init__`.
	"""
	refused = ("fsdp_sync_module_states",) if sync_is_refused(fsdp) else ()
	yield from unread_hits(fsdp, ("fsdp_",), skip=(*OWN_RULES, *refused))


@rule("FSD003", warning="1.6.0..")
def reshard_under_fsdp1(fsdp: Launch) -> Hits:
	"""`fsdp_reshard_after_forward` with FSDP1, which reads `fsdp_sharding_strategy` only.

	`accelerate config` itself has written this key for FSDP1 since 1.6.0. The sharding strategy is FULL_SHARD by
	default and always wins, so SHARD_GRAD_OP, HYBRID_SHARD or NO_SHARD here never take effect. Source: 1.15.0,
	utils/dataclasses.py, `FullyShardedDataParallelPlugin.__post_init__`.
	"""
	if version_of(fsdp) != 1 or not fsdp.given("fsdp_reshard_after_forward"):
		return
	value, strategy = fsdp.value("fsdp_reshard_after_forward"), meaning(fsdp, "fsdp_sharding_strategy")
	wish = STRATEGY.get(str(value).upper(), str(value).upper())
	severity = Severity.INFO if wish == strategy or value is None else None
	text = f"FSDP1 does not read fsdp_reshard_after_forward: fsdp_sharding_strategy decides{and_it_is(strategy)}"
	valid = wish in strategies(fsdp)
	repair = None
	if valid and severity is None and not fsdp.given("fsdp_sharding_strategy"):
		text += f"; write fsdp_sharding_strategy: {wish}"
		repair = renamed(fsdp, "fsdp_reshard_after_forward", "fsdp_sharding_strategy", wish)
	yield Hit(fsdp.at("fsdp_reshard_after_forward", "key"), text, repair, severity)


@rule("FSD004", warning="1.6.0..")
def sharding_strategy_under_fsdp2(fsdp: Launch) -> Hits:
	"""`fsdp_sharding_strategy` with FSDP2, which reads `fsdp_reshard_after_forward` only.

	Nothing says so at run time. FULL_SHARD is what FSDP2 does by default, SHARD_GRAD_OP is
	`fsdp_reshard_after_forward: false`, HYBRID_SHARD is a `parallelism_config` with both data parallel sizes (since
	1.10.0), and NO_SHARD is `distributed_type: MULTI_GPU`. Source: 1.15.0, utils/dataclasses.py,
	`FullyShardedDataParallelPlugin.__post_init__`.
	"""
	if version_of(fsdp) != 2 or not fsdp.given("fsdp_sharding_strategy"):
		return
	value, reshard = fsdp.value("fsdp_sharding_strategy"), meaning(fsdp, "fsdp_reshard_after_forward")
	wish = strategies(fsdp)[int(str(value)) - 1] if str(value) in NUMBERS else str(value).upper()
	severity = Severity.INFO if value is None or (wish in RESHARD and RESHARD[wish] is reshard) else None
	text = f"FSDP2 does not read fsdp_sharding_strategy: fsdp_reshard_after_forward decides{and_it_is(reshard)}"
	repair = None
	if wish in RESHARD and not fsdp.given("fsdp_reshard_after_forward") and severity is None:
		text += f"; write fsdp_reshard_after_forward: {shown(RESHARD[wish])}"
		repair = renamed(fsdp, "fsdp_sharding_strategy", "fsdp_reshard_after_forward", RESHARD[wish])
	elif wish.startswith("HYBRID"):
		text += "; set parallelism_config_dp_replicate_size and parallelism_config_dp_shard_size for a hybrid"
	yield Hit(fsdp.at("fsdp_sharding_strategy", "key"), text, repair, severity)


def and_it_is(meaning: object) -> str:
	return "" if meaning is None else f", and it is {meaning if isinstance(meaning, str) else shown(meaning)}"


def renamed(launch: Launch, option: str, name: str, value: object) -> Repair | None:
	pointer = launch.arguments[option].pointer
	if not pointer:
		return None
	operations = (Operation("rename", pointer, name), Operation("replace", pointer, value=value))
	return Repair(f"write {name}: {as_written(launch.at(option), value)}", operations)


@rule("FSD005", error="0.24.0..")
def ram_efficient_loading_without_sync(fsdp: Launch) -> Hits:
	"""`fsdp_sync_module_states` is off while `fsdp_cpu_ram_efficient_loading` is on, as it is by default.

	Only rank 0 loads the weights then, so they have to be sent to the others. The launcher refuses the pair before
	anything starts, also for FSDP2, where `fsdp_sync_module_states` means nothing otherwise. It asks for Python's
	truth: a quoted "false" counts as on. Source: 1.15.0, utils/launch.py, `prepare_multi_gpu_env`.
	"""
	option = "fsdp_cpu_ram_efficient_loading"
	loading, sync = fsdp.value(option), fsdp.value("fsdp_sync_module_states")
	if not sync_is_refused(fsdp):
		return
	at, repair = fsdp.at("fsdp_sync_module_states"), switched_on(fsdp, "fsdp_sync_module_states")
	text = f"fsdp_sync_module_states {shown(sync)} is refused while {option} is "
	if not fsdp.given(option):
		text += "true, its default; write fsdp_sync_module_states: true, or turn the loading off as well"
	elif isinstance(loading, str) and meaning(fsdp, option) is not True:
		text += f"the text {shown(loading)}, which counts as on; write false without quotation marks"
		repair = rewriting(fsdp.at(option), False, key=option)
	else:
		text += "on; write fsdp_sync_module_states: true, or turn the loading off"
	yield Hit(at, text, repair)


def switched_on(launch: Launch, option: str) -> Repair | None:
	return rewriting(launch.at(option), True) if launch.given(option) else None


def sync_is_refused(launch: Launch) -> bool:
	loading, sync = launch.value("fsdp_cpu_ram_efficient_loading"), launch.value("fsdp_sync_module_states")
	return launch.since("0.24.0") and bool(loading) and not sync


@rule("FSD006", warning="0.24.0..")
def sync_module_states_forced(fsdp: Launch) -> Hits:
	"""A quoted "false" for `fsdp_sync_module_states` while `fsdp_cpu_ram_efficient_loading` is on.

	The launcher takes the text for on and lets it pass. Since 0.30.0 the plugin warns and turns it on; before, the
	ranks that loaded nothing keep empty weights. Source: 1.15.0, utils/dataclasses.py,
	`FullyShardedDataParallelPlugin.__post_init__`.
	"""
	option = "fsdp_sync_module_states"
	loading = str(fsdp.value("fsdp_cpu_ram_efficient_loading")).lower() in TRUE
	quoted = isinstance(fsdp.value(option), str) and meaning(fsdp, option) is False
	if version_of(fsdp) == 1 and quoted and loading:
		effect = "accelerate turns it on" if fsdp.since("0.30.0") else "the other ranks keep empty weights"
		text = f"{option} is off while fsdp_cpu_ram_efficient_loading is on: {effect}; write true"
		yield Hit(fsdp.at(option), text, switched_on(fsdp, option))


@rule("FSD007", error="1.6.0..")
def unknown_fsdp_version(fsdp: Launch) -> Hits:
	"""`fsdp_version` is neither 1 nor 2.

	The command line offers 1 and 2, a config file is not checked. With another number the plugin takes parts of
	either version: it fails with a `KeyError` over the sharding strategy or, with mixed precision, with an
	`UnboundLocalError`; what gets past both is FSDP1 with unset switches. Source: 1.15.0, utils/dataclasses.py,
	`FullyShardedDataParallelPlugin`.
	"""
	version = version_of(fsdp)
	if version in (1, 2, None):
		return
	precision = str(fsdp.value("mixed_precision")).lower()
	survives = precision in ("no", "false", "none") and reads_reshard(fsdp)
	text = f"fsdp_version {version} does not exist; write 1 or 2"
	yield Hit(fsdp.at("fsdp_version"), text, severity=Severity.WARNING if survives else None)


def reads_reshard(launch: Launch) -> bool:
	value = str(launch.value("fsdp_reshard_after_forward"))
	return value.upper() in (*strategies(launch), "_HYBRID_SHARD_ZERO2") or value in NUMBERS


def strategies(launch: Launch) -> Sequence[str]:
	return knowledge.for_release(launch.release).constant("FSDP_SHARDING_STRATEGY") or ()


@rule("FSD008", error="1.6.0..")
def state_dict_type_under_fsdp2(fsdp: Launch) -> Hits:
	"""A `fsdp_state_dict_type` that FSDP2 does not support.

	FSDP2 saves SHARDED_STATE_DICT and, since 1.7.0, FULL_STATE_DICT; LOCAL_STATE_DICT is refused. `accelerate
	to-fsdp2` carries the old value over. Source: 1.15.0, utils/dataclasses.py, `set_state_dict_type`.
	"""
	kind = meaning(fsdp, "fsdp_state_dict_type")
	supported = knowledge.for_release(fsdp.release).constant("FSDP2_STATE_DICT_TYPE") or ()
	if version_of(fsdp) == 2 and kind is not None and kind not in supported:
		text = f"FSDP2 does not support {kind} (accelerate {fsdp.release}); write {listing(supported)}"
		pointer = fsdp.arguments["fsdp_state_dict_type"].pointer or ()
		replace = Operation("replace", pointer, value="SHARDED_STATE_DICT")
		repair = Repair("write SHARDED_STATE_DICT", (replace,), Applicability.UNSAFE)
		yield Hit(fsdp.at("fsdp_state_dict_type"), text, repair)


@rule("FSD009", error="1.15.0..")
def activation_offload_without_checkpointing(fsdp: Launch) -> Hits:
	"""`fsdp_activation_checkpointing_offload` without what it builds on.

	It needs `fsdp_activation_checkpointing: true` and `fsdp_version: 2`; the plugin refuses it otherwise. Source:
	1.15.0, utils/dataclasses.py, `FullyShardedDataParallelPlugin.__post_init__`.
	"""
	option = "fsdp_activation_checkpointing_offload"
	missing = [] if meaning(fsdp, "fsdp_activation_checkpointing") else ["fsdp_activation_checkpointing: true"]
	missing += [] if version_of(fsdp) == 2 else ["fsdp_version: 2"]
	if meaning(fsdp, option) is True and missing:
		yield Hit(fsdp.at(option), f"{key_of(fsdp, option)} needs {' and '.join(missing)}")
