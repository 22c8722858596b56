"""FSD rules about what FSDP makes of a file as a whole: wrapping, strategies, releases."""

from ..flow.launch import Launch
from ..knowledge import accelerate as knowledge
from ..model import Severity, Targets
from ..versions import parse
from .fsdp_settings import version_of
from .registry import Hit, Hits, rule
from .rewriting import rewriting
from .suggest import shown
from .values import defect_hits, meaning


@rule("FSD020", info="*")
def no_wrap_policy(fsdp: Launch) -> Hits:
	"""No `fsdp_auto_wrap_policy`: the whole model is one unit.

	Parameters are still sharded between steps, but every forward and backward pass gathers all of them at once, so
	the peak needs room for the full model. TRANSFORMER_BASED_WRAP gathers layer by layer and takes the model's own
	`_no_split_modules` where no class is named. The Trainer may set a policy of its own. Source: 1.15.0,
	utils/dataclasses.py, `FullyShardedDataParallelPlugin.__post_init__`.
	"""
	if fsdp.value("fsdp_auto_wrap_policy") is None:
		text = "no fsdp_auto_wrap_policy: the whole model is one unit and is gathered at once"
		yield Hit(fsdp.at("distributed_type"), f"{text}; write fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP")


@rule("FSD021", warning="*")
def wrap_class_names(fsdp: Launch) -> Hits:
	"""`fsdp_transformer_layer_cls_to_wrap` is no plain text of class names with commas between them.

	The text is split at each comma, and each part has to be the name of a class in the model, letter by letter. A
	YAML list becomes the text `['LlamaDecoderLayer']`, and a space after a comma stays in the name, so `prepare()`
	fails with "Could not find the transformer layer class". Source: 1.15.0, utils/dataclasses.py,
	`set_auto_wrap_policy`.
	"""
	option = "fsdp_transformer_layer_cls_to_wrap"
	value = fsdp.value(option)
	if meaning(fsdp, "fsdp_auto_wrap_policy") != "TRANSFORMER_BASED_WRAP" or value is None or are_names(str(value)):
		return
	names = [str(name).strip() for name in value] if isinstance(value, list) else str(value).split(",")
	better = ",".join(name.strip() for name in names if name.strip())
	sound = are_names(better)
	text = f"prepare() splits {shown(str(value))} at commas and finds no such classes; write names with commas only"
	repair = rewriting(fsdp.at(option), better) if fsdp.given(option) and sound else None
	yield Hit(fsdp.at(option), text + (f": {better}" if sound else ""), repair)


def are_names(text: str) -> bool:
	return all(part.isidentifier() for part in text.split(","))


@rule("FSD022", info="*")
def hybrid_on_one_machine(fsdp: Launch) -> Hits:
	"""HYBRID_SHARD on a single machine.

	It shards within a machine and replicates between machines, so on one machine it comes to FULL_SHARD (and
	HYBRID_SHARD_ZERO2 to SHARD_GRAD_OP). Source: torch 2.13.0, distributed/fsdp/_init_utils.py,
	`_init_process_group_state_for_hybrid_shard`.
	"""
	strategy = meaning(fsdp, "fsdp_sharding_strategy") if version_of(fsdp) == 1 else None
	if str(strategy).startswith("HYBRID_SHARD") and fsdp.value("num_machines") in (None, 1):
		same = "SHARD_GRAD_OP" if str(strategy).endswith("ZERO2") else "FULL_SHARD"
		yield Hit(fsdp.at("fsdp_sharding_strategy"), f"on one machine {strategy} comes to {same}")


@rule("FSD023", info="*")
def no_shard(fsdp: Launch) -> Hits:
	"""NO_SHARD: FSDP that shards nothing.

	PyTorch calls the strategy deprecated and recommends DDP instead. Source: torch 2.13.0,
	distributed/fsdp/_init_utils.py, `_init_core_state`.
	"""
	if version_of(fsdp) == 1 and meaning(fsdp, "fsdp_sharding_strategy") in ("NO_SHARD", 3):
		text = "NO_SHARD is deprecated in PyTorch and shards nothing; write distributed_type: MULTI_GPU"
		yield Hit(fsdp.at("fsdp_sharding_strategy"), text)


@rule("FSD024", warning="*")
def fsdp_on_one_process(fsdp: Launch) -> Hits:
	"""FSDP with a single process has nobody to shard with.

	FSDP1 warns and switches to NO_SHARD; FSDP2 shards over one rank, which changes nothing either. Offloading and
	activation checkpointing still work. Source: torch 2.13.0, distributed/fsdp/_init_utils.py, `_init_core_state`.
	"""
	strategy = meaning(fsdp, "fsdp_sharding_strategy")
	if fsdp.world == 1 and (version_of(fsdp) == 2 or strategy not in ("NO_SHARD", 3)):
		text = "one process has nobody to shard with: nothing is sharded; raise num_processes"
		severity = Severity.INFO if version_of(fsdp) == 2 or not fsdp.given("num_processes") else None
		yield Hit(fsdp.at("num_processes"), text, severity=severity)


@rule("FSD025", error="*")
def torch_too_old_for_fsdp(fsdp: Launch, targets: Targets) -> Hits:
	"""The PyTorch release is older than what this Accelerate release asks for.

	FSDP needs PyTorch 1.12 (Accelerate up to 0.20), 2.0.1 (0.21), 2.1.0 (since 0.25); FSDP2 needs 2.5.1 in Accelerate
	1.6.0 and 2.6.0 since 1.7.0. Source: 1.15.0, accelerator.py, `Accelerator.__init__`, and utils/constants.py.
	"""
	what = "FSDP2" if version_of(fsdp) == 2 else "FSDP"
	needed = knowledge.for_release(fsdp.release).constant(f"{what}_PYTORCH_VERSION") or "1.12.0"
	needed = needed.partition(".a0")[0]
	if parse(targets.torch) < parse(needed):
		at = fsdp.at("fsdp_version" if what == "FSDP2" else "distributed_type")
		yield Hit(at, f"{what} in accelerate {fsdp.release} needs torch {needed} or newer, not {targets.torch}")


@rule("FSD026", warning="*")
def release_with_fsdp_defect(fsdp: Launch) -> Hits:
	"""This release of Accelerate is known to misbehave with these FSDP settings.

	Weights that are saved flattened (0.34), an upcast to fp32 that does nothing (1.13.0), a device error with CPU
	offload (1.6.0 to 1.12.0). Source: the releases' own code, see the message.
	"""
	yield from defect_hits(fsdp, ("fsdp",))


@rule("FSD027", warning="*")
def compile_with_flat_parameters(fsdp: Launch) -> Hits:
	"""`torch.compile` together with `fsdp_use_orig_params: false`.

	Dynamo does not trace FSDP1 modules whose parameters are flattened: "Dynamo only supports FSDP with
	use_orig_params=True". Source: torch 2.13.0, _dynamo/variables/builder.py.
	"""
	compiled = str(fsdp.value("dynamo_backend")).lower() not in ("no", "none", "false")
	if compiled and version_of(fsdp) == 1 and meaning(fsdp, "fsdp_use_orig_params") is False:
		text = "torch.compile needs fsdp_use_orig_params: true, which is "
		text += "false here" if fsdp.given("fsdp_use_orig_params") else f"false by default in {fsdp.release}"
		yield Hit(fsdp.at("fsdp_use_orig_params"), text)


@rule("FSD029", warning="1.10.0..")
def ignored_modules_need_torch(fsdp: Launch, targets: Targets) -> Hits:
	"""`fsdp_ignored_modules` with FSDP2 and a PyTorch before 2.7.

	`fully_shard` has no `ignored_params` there. Accelerate warns and sets the modules to None since 1.11.0; 1.10
	passes them on and `prepare()` fails. Source: 1.15.0, utils/dataclasses.py,
	`FullyShardedDataParallelPlugin.__post_init__`.
	"""
	given = fsdp.given("fsdp_ignored_modules") and fsdp.value("fsdp_ignored_modules") is not None
	if given and version_of(fsdp) == 2 and parse(targets.torch) < parse("2.7.0"):
		effect = "are ignored" if fsdp.since("1.11.0") else "make prepare() fail"
		text = f"fsdp_ignored_modules {effect} with FSDP2 and torch {targets.torch}; they need torch 2.7.0"
		yield Hit(fsdp.at("fsdp_ignored_modules"), text)


@rule("FSD028", info="*")
def gradients_in_low_precision(fsdp: Launch) -> Hits:
	"""With mixed precision FSDP also sums up gradients in bf16 or fp16.

	`mixed_precision` sets the type of parameters and of the reduction alike (fp8 counts as bf16). A script may pass
	its own `mixed_precision_policy`. Source: 1.15.0, utils/dataclasses.py,
	`FullyShardedDataParallelPlugin.set_mixed_precision`.
	"""
	precision = str(fsdp.value("mixed_precision")).lower()
	if precision in ("bf16", "fp16", "fp8"):
		kind = "fp16" if precision == "fp16" else "bf16"
		yield Hit(fsdp.at("mixed_precision"), f"FSDP reduces gradients in {kind} with mixed_precision {precision}")
