"""PRC rules about the value of `mixed_precision` and the devices that it needs."""

from ..flow.launch import Launch, precision_pointer
from ..knowledge import accelerate as knowledge
from ..model import Applicability, Context, Pointer, Severity, Targets
from ..sources.document import Document
from ..versions import in_span
from .registry import Hit, Hits, rule
from .rewriting import as_written, rewriting
from .suggest import closest, did_you_mean, listing, shown

# What other tools call the same thing. YAML's own words for false are there because they are what `no` becomes.
MEANT = {
	**dict.fromkeys(("fp32", "float32", "32", "none", "false", "off"), "no"),
	**dict.fromkeys(("float16", "half", "16", "16-mixed"), "fp16"),
	**dict.fromkeys(("bfloat16", "bf16-mixed"), "bf16"),
	"float8": "fp8",
}
TPU_TYPES = ("XLA", "TPU")


@rule("PRC001", error="*")
def invalid_mixed_precision(accelerate: Document, targets: Targets, context: Context) -> Hits:
	"""`mixed_precision` is not no, fp8, fp16 or bf16.

	The launcher puts the value into lower case and looks it up: another word is refused with "Unknown
	mixed_precision mode", and anything but a text ends in `AttributeError: … has no attribute 'lower'`. An unquoted
	`no` is the boolean false for YAML: up to 0.33 a YAML file with it was taken for "no", since 0.34.0 it is refused
	like the others. Write `mixed_precision: 'no'`. In a block that is copied whole, such as `deepspeed_config`, the key
	beats the one at the top. Source: 1.15.0, utils/launch.py,
	`prepare_simple_launcher_cmd_env` and its siblings; 0.33.0, commands/config/config_args.py, `from_yaml_file`.
	"""
	pointer = precision_pointer(accelerate, targets.accelerate)
	value = accelerate.get(*pointer)
	if value is None or context.mixed_precision or accelerate.get("distributed_type") in TPU_TYPES:
		return
	values = [str(item) for item in knowledge.for_release(targets.accelerate).enum("PrecisionType").values()]
	if (isinstance(value, str) and value.lower() in values) or is_coerced(accelerate, pointer, targets):
		return
	meant = MEANT.get(str(value).lower())
	near = meant or (closest(value, values) if isinstance(value, str) else None)
	at, sure = accelerate.value(*pointer), Applicability.SAFE if meant else Applicability.UNSAFE
	text = f"mixed_precision {shown(value)} is none of {listing(values)}{did_you_mean(near and as_written(at, near))}"
	if value is False:
		text = f"mixed_precision is a boolean (YAML reads an unquoted no as false); write {as_written(at, 'no')}"
	fix = rewriting(at, near, sure) if near else None
	yield Hit(at, f"accelerate {targets.accelerate} refuses this: {text}", fix)


def is_coerced(document: Document, pointer: Pointer, targets: Targets) -> bool:
	old = in_span(targets.accelerate, None, "0.33.0") and document.syntax == "yaml"
	return old and len(pointer) == 1 and document.get(*pointer) is False


@rule("PRC002", warning="*")
def half_precision_on_cpu(simple: Launch) -> Hits:
	"""`mixed_precision: fp16` for a training on the CPU trains in full precision.

	On a CPU neither autocast nor a gradient scaler is set up for fp16, and nothing is said. Write bf16 or 'no'.
	Source: 1.15.0, accelerator.py, `Accelerator.__init__`.
	"""
	kind = simple.distributed_type
	cpu = kind == "MULTI_CPU" or (kind == "NO" and simple.value("use_cpu") is True)
	if cpu and str(simple.value("mixed_precision")).lower() == "fp16":
		text = "fp16 is not set up for training on a CPU: it runs in full precision without a word; write bf16 or 'no'"
		yield Hit(simple.at("mixed_precision"), text)


@rule("PRC003", info="*")
def precision_needs_device(launch: Launch) -> Hits:
	"""bf16 and fp8 need devices that compute in them.

	bf16 is refused on a GPU without it (NVIDIA before Ampere, unless PyTorch emulates it). fp8 needs an NVIDIA GPU of
	compute capability 8.9 or more (Ada, Hopper and later) and one of the packages torchao, transformer-engine and
	ms-amp on the machine that launches and on every worker: without a package the launch is refused, on an older
	GPU Accelerate trains in fp16 instead and logs a warning. Source: 1.15.0, state.py, `AcceleratorState.__init__`,
	and accelerator.py, `Accelerator.__init__`.
	"""
	mode = str(launch.value("mixed_precision")).lower()
	if not launch.given("mixed_precision") or launch.distributed_type == "MULTI_CPU":
		return
	if mode == "bf16" and launch.route not in ("tpu", "deepspeed", "megatron") and launch.value("use_cpu") is not True:
		yield Hit(launch.at("mixed_precision"), "bf16 needs a device that computes in it (NVIDIA: Ampere or later)")
	if mode == "fp8" and launch.route != "tpu":
		packages = "transformer-engine, ms-amp or torchao" if launch.since("1.4.0") else "transformer-engine or ms-amp"
		packages = packages if launch.since("0.26.0") else "transformer-engine"
		text = f"fp8 needs the package {packages}, and GPUs of compute capability 8.9 or more (else fp16 is used)"
		yield Hit(launch.at("mixed_precision"), text)


@rule("PRC004", info="..1.12.0", warning="1.6.0..1.12.0")
def ipex_settings(launch: Launch) -> Hits:
	"""`ipex_config`: extensions of Intel for CPU and XPU.

	`ipex` is passed on by the launcher for one process or MULTI_CPU, and only where intel_extension_for_pytorch is
	installed; it is deprecated from 1.6.0 and gone in 1.10.0. `use_xpu` is ignored from 1.6.0 on: PyTorch itself
	finds the device. The block is refused from 1.13.0 on. Source: 1.9.0, commands/launch.py, `launch_command`, and
	utils/launch.py, `prepare_simple_launcher_cmd_env`.
	"""
	if launch.given("use_xpu") and launch.since("1.6.0"):
		text = f"accelerate {launch.release} ignores use_xpu: PyTorch finds the device by itself; remove it"
		severity = None if launch.value("use_xpu") is True else Severity.INFO
		yield Hit(launch.at("use_xpu", "key"), text, severity=severity)
	if launch.given("ipex") and launch.before("1.10.0") and launch.route == "simple":
		text = "ipex takes effect only where intel_extension_for_pytorch is installed"
		yield Hit(launch.at("ipex", "key"), text, severity=Severity.INFO)
