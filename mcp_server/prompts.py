"""Prompts: how to go about a choice and about a failed run, with the tools and pages that are there."""

from collections.abc import Callable, Mapping, Sequence

from .resources import paths_like, uri_of

BACKENDS = (
	*("DDP", "FSDP1", "FSDP2", "DeepSpeed ZeRO-1", "DeepSpeed ZeRO-2", "DeepSpeed ZeRO-3", "Megatron-LM"),
	*("tensor parallelism", "context parallelism", "sequence parallelism", "TPU/XLA", "Gaudi", "multi-CPU"),
)
METHODS = ("full fine-tuning", "LoRA", "QLoRA", "pre-training", "inference")
HARDWARE = ("1x 24 GB", "1x 80 GB", "2x 24 GB", "8x 40 GB", "8x 80 GB", "2 nodes of 8x 80 GB", "TPU v5e-8", "8x Gaudi")
SIZES = ("1B", "3B", "7B", "8B", "13B", "30B", "34B", "70B")
LONGEST = 8_000  # code points of an error or a config that a prompt quotes


def choose_backend(model_size: str = "", hardware: str = "", method: str = "", sequence_length: str = "") -> str:
	"""Choose a training backend for a model and a machine, and write its config."""
	known = {"model": model_size, "hardware": hardware, "method": method, "sequence length": sequence_length}
	return f"""\
Choose a training backend of Hugging Face Accelerate for this run, and write the config.

{facts(known)}

1. Read {uri_of("references/choosing.md")} and {uri_of("references/memory.md")}; if you cannot read resources, ask
   lookup_reference for "which backend" and for what you need to know. Take the simplest backend that fits.
2. Say what decides: the memory for weights, gradients, optimizer and activations per device, and the links.
3. Write the config, for the releases that are installed (`pip list` tells; ask if you cannot run it).
4. Call validate_config with the text of the config and these releases, mend what it finds, and call it again until no
   error and no warning is left.
5. Give the config, the launch command, and what would make you choose otherwise."""


def fix_failed_run(error: str = "", backend: str = "", config: str = "", versions: str = "") -> str:
	"""Find out why a run failed or hangs, and mend it."""
	known = {"backend": backend, "releases": versions, "error": error, "config": config}
	return f"""\
Find out why this training run failed or hangs, and mend it.

{facts(known)}

1. Find the first error of the first process that failed; what other processes say later is often only an echo.
2. Call diagnose_failure with the whole log, or the symptom where it hangs or says nothing, the config, the launch
   command and the releases. What the likeliest cause names as reference is in {uri_of("references/troubleshooting.md")}
   or another page; lookup_reference gives the section alone.
3. Call validate_config with the text of the config and the releases that ran: a setting that is ignored or refused is
   a frequent cause.
4. Name the cause and what shows it. If two causes are possible, say which check tells them apart.
5. Give the change to the config, the launch command or the script, and validate the changed config again."""


PROMPTS: Mapping[str, tuple[str, Callable[..., str]]] = {
	"choose_backend": ("Choose a training backend", choose_backend),
	"fix_failed_run": ("Fix a failed training run", fix_failed_run),
}
COMPLETIONS: Mapping[tuple[str, str], Sequence[str]] = {
	("choose_backend", "model_size"): SIZES,
	("choose_backend", "hardware"): HARDWARE,
	("choose_backend", "method"): METHODS,
	("fix_failed_run", "backend"): BACKENDS,
}


def facts(known: Mapping[str, str]) -> str:
	"""What the user has said, as a list; what is not known is asked for."""
	given = {name: value.strip()[:LONGEST] for name, value in known.items() if value.strip()}
	listed = [f"{name}:\n{fenced(value)}" if "\n" in value else f"- {name}: {value}" for name, value in given.items()]
	missing = [name for name in known if name not in given]
	ask = [f"- not said yet, ask if it matters: {', '.join(missing)}"] if missing else []
	return "\n".join(listed + ask)


def fenced(value: str) -> str:
	"""A longer text as a block that its own backticks cannot end."""
	fence = "```"
	while fence in value:
		fence += "`"
	return f"{fence}text\n{value}\n{fence}"


def completions(reference: str, argument: str, beginning: str) -> list[str]:
	"""What an argument of a prompt, or the path of the resource template, may go on with."""
	if argument == "path" and reference.startswith("skill://"):
		return paths_like(beginning)
	values = COMPLETIONS.get((reference, argument), ())
	lowered = beginning.lower()
	fitting = [value for value in values if lowered in value.lower()]
	return sorted(fitting, key=lambda value: not value.lower().startswith(lowered))
