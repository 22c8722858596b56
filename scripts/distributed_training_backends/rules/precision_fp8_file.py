"""PRC rules about a lone file of FP8 settings, as it would stand in `fp8_config`."""

from ..flow.arguments import Arg, defaults
from ..flow.launch import Launch
from ..model import Context, Targets
from ..sources.document import Document
from .precision_fp8 import PREFIX, option_of, refused_values, unknown_key
from .registry import Hit, Hits, rule
from .values import rows_of, table, unread_hits


def as_launch(document: Document, targets: Targets, context: Context) -> Launch:
	"""The settings as they would arrive in the workers of a run on several GPUs."""
	arguments = {**defaults(targets.accelerate), "mixed_precision": Arg("fp8")}
	for key, value in document.mapping.items():
		arguments[option_of(key)] = Arg(value, (key,))
	if arguments["fp8_backend"].value is None:
		arguments["fp8_backend"] = Arg(backend_of(arguments))
	return Launch(document, targets.accelerate, "multi_device", "MULTI_GPU", arguments, context)


def backend_of(arguments: dict[str, Arg]) -> str | None:
	given = [name for name, argument in arguments.items() if argument.pointer is not None]
	readers = [
		row.when["fp8_backend"]["in"][0] for name in given for row in table().get(name, ()) if "fp8_backend" in row.when
	]
	return max(readers, key=readers.count) if readers else None


@rule("PRC020", error="1.9.0..")
def fp8_file_refused(fp8_file: Document, targets: Targets, context: Context) -> Hits:
	"""A lone file of FP8 settings with a value that is refused.

	It is judged as the `fp8_config` of a run on several GPUs (see PRC010); without a `backend`, for the backend that
	reads most of its keys. Source: 1.15.0, utils/dataclasses.py, `TERecipeKwargs.__post_init__`.
	"""
	yield from refused_values(as_launch(fp8_file, targets, context))


@rule("PRC021", warning="1.9.0..")
def fp8_file_key_unread(fp8_file: Document, targets: Targets, context: Context) -> Hits:
	"""A key in a lone file of FP8 settings that nothing reads.

	See PRC015: keys of another backend, slips, and the names that `accelerate config` writes wrongly. Source:
	1.15.0, utils/launch.py, `setup_fp8_env`.
	"""
	launch = as_launch(fp8_file, targets, context)
	yield from unread_hits(launch, (PREFIX,))
	for key in fp8_file.mapping:
		if not rows_of(option_of(key), launch.release):
			yield unknown_key(fp8_file, (key,), launch.release)


@rule("PRC022", warning="..1.8.1")
def fp8_file_too_new(fp8_file: Document, targets: Targets) -> Hits:
	"""A lone file of FP8 settings for a release that makes no recipe of `fp8_config`.

	The key does not exist before 0.34.0, and up to 1.8.1 nothing becomes of the block (see PRC015). Source: 1.8.1,
	accelerator.py, `Accelerator.__init__`.
	"""
	text = f"accelerate {targets.accelerate} makes nothing of fp8_config; use 1.9.0 or newer, or pass a recipe in code"
	yield Hit(fp8_file.value(), text)
