"""ACC rules about configs for Amazon SageMaker (`compute_environment: AMAZON_SAGEMAKER`)."""

from ..knowledge import accelerate as knowledge
from ..model import Context, Severity, Targets
from ..sources.document import Document
from .registry import Hit, Hits, rule
from .rewriting import as_written, rewriting
from .suggest import closest, did_you_mean, listing, shown


@rule("ACC050", error="1.10.0..")
def sagemaker_broken(sagemaker: Document, targets: Targets) -> Hits:
	"""No SageMaker config can be launched with this release.

	Since 1.10.0 the launcher asks every config for `parallelism_config`, which a SageMaker config does not have, and
	ends with an `AttributeError`. Launch with 1.9.0, or give a paradigm on the command line. Source: 1.15.0,
	commands/launch.py, `_validate_launch_command`.
	"""
	text = f"accelerate {targets.accelerate} cannot launch SageMaker configs (AttributeError: parallelism_config)"
	yield Hit(sagemaker.value("compute_environment"), f"{text}; use accelerate 1.9.0 or older")


@rule("ACC051", error="*")
def sagemaker_distributed_type(sagemaker: Document, targets: Targets) -> Hits:
	"""`distributed_type` of a SageMaker config is not NO, DATA_PARALLEL or MODEL_PARALLEL.

	An unquoted NO is a boolean for YAML, and fails later when its value is asked for. Source: 1.9.0,
	utils/launch.py, `prepare_sagemager_args_inputs`.
	"""
	if not sagemaker.has("distributed_type"):
		return
	value = sagemaker.get("distributed_type")
	values = list(knowledge.for_release(targets.accelerate).enum("SageMakerDistributedType").values())
	if isinstance(value, str) and value in values:
		return
	near = "NO" if value is False else closest(str(value), values)
	at = sagemaker.value("distributed_type")
	text = f"distributed_type {shown(value)} is none of SageMaker's ({listing(values)})"
	yield Hit(at, text + did_you_mean(near and as_written(at, near)), rewriting(at, near) if near else None)


@rule("ACC052", error="0.29.0..0.30.0,0.34.0..")
def sagemaker_key_added_on_loading(sagemaker: Document, targets: Targets) -> Hits:
	"""The loader adds a key that it then refuses.

	Since 0.34.0 `distributed_type: 'NO'` makes it add `num_processes`, and in 0.29.0 to 0.30.0 it added
	`enable_cpu_affinity` to every file; a SageMaker config knows neither. Source: 0.34.0,
	commands/config/config_args.py, `BaseConfig.process_config`.
	"""
	known = knowledge.for_release(targets.accelerate)
	kind = sagemaker.get("distributed_type")
	for name, fill in known.fills.items():
		if name in known.sagemaker or sagemaker.has(name):
			continue
		if "when" not in fill or kind == "NO":
			text = f"accelerate {targets.accelerate} adds {name} to this file and then refuses it as an unknown key"
			yield Hit(sagemaker.key("distributed_type"), text)


@rule("ACC053", error="*")
def sagemaker_credentials(sagemaker: Document, context: Context) -> Hits:
	"""No AWS profile: the keys have to be given at launch.

	Without `profile` the launcher needs `--aws_access_key_id` and `--aws_secret_access_key`. Source: 1.9.0,
	utils/launch.py, `prepare_sagemager_args_inputs`.
	"""
	if sagemaker.get("profile") is None:
		text = "no profile: pass --aws_access_key_id and --aws_secret_access_key at launch"
		severity = None if context.launched else Severity.INFO
		yield Hit(sagemaker.value("compute_environment"), text, severity=severity)


@rule("ACC054", error="*")
def sagemaker_gpu_ids(sagemaker: Document) -> Hits:
	"""`gpu_ids` of a SageMaker config is no text.

	The launcher splits it at commas whatever is launched. Source: 1.9.0, commands/launch.py,
	`_validate_launch_command`.
	"""
	value = sagemaker.get("gpu_ids")
	if value is not None and not isinstance(value, str):
		yield Hit(sagemaker.value("gpu_ids"), f"gpu_ids {shown(value)} is no text, and the launcher fails; quote it")


@rule("ACC055", error="..1.9.0")
def sagemaker_not_text(sagemaker: Document) -> Hits:
	"""`region` or `profile` of a SageMaker config is no text.

	The launcher puts both into its environment, which takes texts only; an empty `region` is refused as well, while
	one that is left out is us-east-1. Source: 1.9.0, utils/launch.py, `prepare_sagemager_args_inputs`.
	"""
	for key in ("region", "profile"):
		value = sagemaker.get(key)
		empty = value is None and (key == "profile" or not sagemaker.has(key))
		if not empty and not isinstance(value, str):
			yield Hit(sagemaker.value(key), f"{key} {shown(value)} is no text, and the launcher fails; write its name")
