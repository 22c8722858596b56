"""PRC rules about `torch.compile`: the `dynamo_config` block."""

from ..flow.launch import OLD_BACKEND, Launch
from .registry import Hit, Hits, rule
from .rewriting import rewriting
from .suggest import closest, did_you_mean, listing, shown
from .values import meaning, value_hits

PREFIX = "dynamo_"
BACKEND = "dynamo_backend"
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
ALL_MODES = (*MODES, "lite")


def compiles(launch: Launch) -> bool:
	return launch.route not in ("deepspeed", "tpu") and meaning(launch, BACKEND) not in (None, "NO")


@rule("PRC030", error="*")
def dynamo_value(launch: Launch) -> Hits:
	"""A value of `dynamo_config` that is refused.

	`dynamo_backend` is one of the release's backends, in any case; an unquoted `no` is a boolean for YAML and ends
	in `AttributeError: 'bool' object has no attribute 'upper'`. The `dynamo_use_*` keys are truth words, and
	`dynamo_mode` has to be a text where one process is started directly. With DeepSpeed the launcher reads none of
	them. Source: 1.15.0, utils/launch.py, `prepare_multi_gpu_env`; utils/dataclasses.py,
	`TorchDynamoPlugin.__post_init__`.
	"""
	yield from value_hits(launch, (PREFIX,))


@rule("PRC031", warning="*")
def dynamo_mode_unknown(launch: Launch) -> Hits:
	"""`dynamo_mode` is none of the modes of `torch.compile`.

	The launcher passes any text on. With the inductor backend `torch.compile` refuses it when the model is prepared;
	the other backends never look. Source: 1.15.0, utils/launch.py, `prepare_multi_gpu_env`; torch 2.13.0,
	_inductor/__init__.py, `list_mode_options`.
	"""
	mode = launch.value("dynamo_mode")
	if compiles(launch) and meaning(launch, BACKEND) == "INDUCTOR" and isinstance(mode, str) and mode not in ALL_MODES:
		near = closest(mode, MODES)
		text = f"torch.compile has no mode {shown(mode)}; it has {listing(MODES)}{did_you_mean(near)}"
		at = launch.at("dynamo_mode")
		yield Hit(at, text, rewriting(at, near) if near else None)


@rule("PRC032", info="*")
def dynamo_settings_without_backend(launch: Launch) -> Hits:
	"""`dynamo_config` sets how to compile, and no backend that would.

	Without `dynamo_backend`, or with NO, nothing is compiled unless the script asks for it. Source: 1.15.0,
	utils/dataclasses.py, `TorchDynamoPlugin.__post_init__`.
	"""
	if launch.route in ("deepspeed", "tpu") or compiles(launch):
		return
	given = [name for name in launch.arguments if name.startswith(PREFIX) and name != BACKEND and launch.given(name)]
	if given:
		text = "nothing is compiled without a dynamo_backend such as INDUCTOR, unless the script asks for it"
		yield Hit(launch.at(given[0], "key"), text)


@rule("PRC033", info="*")
def dynamo_static_shapes(launch: Launch) -> Hits:
	"""A compiling backend without `dynamo_use_dynamic`: shapes are static.

	The launcher exports false where nothing is said, so `torch.compile(dynamic=False)` is called, while PyTorch's
	own default is None: it compiles anew with dynamic shapes when a shape changes. With batches of different lengths
	every length is compiled by itself. Source: 1.15.0, utils/launch.py, `prepare_multi_gpu_env`.
	"""
	if compiles(launch) and not launch.given("dynamo_use_dynamic"):
		text = "shapes are taken as static: the launcher exports dynamic=False where dynamo_use_dynamic is not given"
		yield Hit(launch.at(BACKEND, "key"), text)


@rule("PRC034", warning="*")
def dynamo_config_replaced(launch: Launch) -> Hits:
	"""`dynamo_config` beside `dynamo_backend` at the top.

	The old spelling is converted into a `dynamo_config` that takes the place of the block, so nothing in the block
	counts. Move the backend into the block. Source: 1.15.0, commands/config/config_args.py,
	`BaseConfig.process_config`.
	"""
	if OLD_BACKEND in launch.document.data and launch.document.get("dynamo_config"):
		text = "dynamo_config is replaced by what dynamo_backend at the top says; move dynamo_backend into the block"
		yield Hit(launch.document.key("dynamo_config"), text, related=(launch.document.key(OLD_BACKEND),))
