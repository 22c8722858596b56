"""What each Accelerate release reads in its config file, on its command line and from the environment.

Every fact comes from `data/accelerate.json` or `data/accelerate_reference.json`, as spans of releases. `for_release`
gives the view of one release.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from .. import versions
from ..resources import load_json
from . import history

DATA = "accelerate.json"
REFERENCE = "accelerate_reference.json"  # which judging a file does not need
RELEASES: tuple[str, ...] = tuple(load_json(DATA)["releases"])
NO_OPTION = "-"


class Field(NamedTuple):
	"""A key at the top of a config file. `default` is what takes effect without it (None where it is required)."""

	name: str
	type: str
	default: Any
	required: bool


class Option(NamedTuple):
	"""An option of `accelerate launch`; `flags` are all spellings, none for a positional argument.

	`negated` has the flags that set the same destination to false.
	"""

	dest: str
	flags: tuple[str, ...]
	type: str | None = None
	choices: tuple[Any, ...] | None = None
	default: Any = None
	action: str | None = None
	nargs: str | int | None = None
	group: str | None = None
	negated: tuple[str, ...] = ()


class Prefix(NamedTuple):
	"""`text` is put before a block's key, unless the key starts with (or, in old releases, contains) `mark`."""

	text: str
	mark: str
	anywhere: bool

	def applied(self, key: str) -> str:
		has_mark = self.mark in key if self.anywhere else key.startswith(self.mark)
		return key if has_mark else self.text + key


class AccelerateRelease:
	"""The knowledge about one release. Mappings are built on first use and shared: do not change them."""

	def __init__(self, release: str) -> None:
		self.release = release

	def section(self, *path: str) -> dict[str, Any]:
		return history.at(DATA, path, self.release)

	# --- the config file ---

	@cached_property
	def cluster(self) -> Mapping[str, Field]:
		return self._fields("ClusterConfig")

	@cached_property
	def sagemaker(self) -> Mapping[str, Field]:
		return self._fields("SageMakerConfig")

	@cached_property
	def fills(self) -> Mapping[str, Mapping[str, Any]]:
		"""Keys that the loader adds where they are missing: `value`, and `when` it does so only sometimes."""
		return self.section("fills")

	def _fields(self, owner: str) -> dict[str, Field]:
		fills = {name: rule["value"] for name, rule in self.fills.items() if "when" not in rule}
		return {
			name: Field(
				name,
				record.get("type", "Any"),
				fills.get(name, record.get("default")),
				"default" not in record and name not in fills,
			)
			for name, record in {**self.section("fields", "BaseConfig"), **self.section("fields", owner)}.items()
		}

	# --- the command line ---

	@cached_property
	def options(self) -> Mapping[str, Option]:
		hyphens = self.section("command_line")["hyphens"]  # whether `--num-processes` is taken too
		return {dest: _option(dest, record, hyphens) for dest, record in self.section("options").items()}

	# --- file into command line ---

	@cached_property
	def merging(self) -> Mapping[str, Any]:
		"""`given_option_wins` over a block; `set_apart`: keys the merge loop leaves to other code."""
		return self.section("merging")

	@cached_property
	def prefixes(self) -> Mapping[str, Prefix]:
		return {
			block: Prefix(rule["prefix"], rule["unless"], rule["test"] == "contains")
			for block, rule in self.section("blocks").items()
			if rule
		}

	def merges(self, block: str) -> bool:
		"""Whether the entries of a block reach the launcher at all (`fp8_config` does since 1.4.0)."""
		return block in self.section("blocks") or "*" in self.section("blocks")

	def destination(self, block: str, key: str) -> str | None:
		"""The argument that a block's key sets, whether or not anything reads it; None if the block is not merged."""
		if not self.merges(block):
			return None
		prefix = self.prefixes.get(block)
		return prefix.applied(key) if prefix else key

	# --- what the launcher does with it ---

	@cached_property
	def reads(self) -> Mapping[str, frozenset[str]]:
		"""The arguments that each launcher function looks at itself; `fp8_*` stands expanded to the options."""
		return {name: frozenset(self._expanded(found)) for name, found in self.section("reads").items()}

	@cached_property
	def exports(self) -> Mapping[str, tuple[str, ...]]:
		"""Environment variables that carry an option to the training processes, whichever launcher runs."""
		merged: dict[str, dict[str, None]] = {}
		for function in self.section("exports"):
			for dest, names in self.exports_of(function).items():
				merged.setdefault(dest, {}).update(dict.fromkeys(names))
		return {dest: tuple(names) for dest, names in merged.items()}

	def exports_of(self, function: str) -> Mapping[str, tuple[str, ...]]:
		"""The same for one launcher function; under `-` the variables that come from no option."""
		found = {dest: tuple(names) for dest, names in self.section("exports", function).items()}
		for pattern in [dest for dest in found if dest.endswith("*")]:
			for dest in self.options:
				if dest.startswith(pattern[:-1]) and dest not in found:
					found[dest] = _fitted(found[pattern], pattern, dest)
			del found[pattern]
		return found

	def exported_as(self, function: str, argument: str) -> tuple[str, ...]:
		"""The variables that carry any argument, also one that is no option, as `setup_fp8_env` carries `fp8_*`."""
		rules = self.section("exports", function)
		if argument in rules:
			return tuple(rules[argument])
		patterns = [dest for dest in rules if dest.endswith("*") and argument.startswith(dest[:-1])]
		return tuple(name for pattern in patterns for name in _fitted(rules[pattern], pattern, argument))

	def reads_through(self, *functions: str, without: Container[str] = ()) -> frozenset[str]:
		"""The arguments that launcher functions look at, those they pass on to torchrun and to others included.

		`without` names functions that a run does not come to."""
		calls, copies = self.section("calls"), self.section("copies")
		found, ahead = set[str](), [*functions]
		while ahead:
			name = ahead.pop()
			if name not in found and name not in without:
				found.add(name)
				ahead += calls.get(name, ())
		read = {dest for name in found for dest in self.reads.get(name, ())}
		to_torchrun = any("distrib_run" in copies.get(name, ()) for name in found)
		return frozenset(read | TORCHRUN_OPTIONS if to_torchrun else read)

	def reads_of_file(self, function: str) -> frozenset[str]:
		"""The keys of the loaded file that a function looks at without the detour over an argument."""
		return frozenset(self.section("reads_file", function))

	def _expanded(self, dests: Mapping[str, Any]) -> Iterator[str]:
		for dest in dests:
			fits = (name for name in self.options if name.startswith(dest[:-1]))
			yield from fits if dest.endswith("*") else (dest,)

	def read_from_environment(self, variable: str) -> tuple[str, ...]:
		"""The places in Accelerate that read an environment variable, as `module:Class.method`; empty if none does."""
		return tuple(history.at(REFERENCE, ("environment",), self.release).get(variable, ()))

	@cached_property
	def help(self) -> Mapping[str, str]:
		"""Option to the first sentence of its help, empty for one that has none."""
		return history.at(REFERENCE, ("help",), self.release)

	# --- names with values ---

	def enum(self, name: str) -> Mapping[str, Any]:
		"""Member to value; empty for an enum that the release does not have."""
		return self.section("enums", name)

	def literal(self, name: str) -> tuple[Any, ...]:
		return tuple(self.section("literals").get(name, ()))

	def constant(self, name: str) -> Any:
		return self.section("constants").get(name)


# Options of `torch.distributed.run` that `_filter_args` copies under the same name (torch 1.10 to 2.13).
_OF_TORCHRUN = """
duplicate_stderr_filters duplicate_stdout_filters event_log_handler local_addr local_ranks_filter log_dir
logs_specs master_addr master_port max_restarts module monitor_interval nnodes no_python node_rank nproc_per_node
numa_binding rdzv_backend rdzv_conf rdzv_endpoint rdzv_id redirects role run_path shutdown_timeout
signals_to_handle standalone start_method tee training_script training_script_args virtual_local_rank
"""
TORCHRUN_OPTIONS = frozenset(_OF_TORCHRUN.split())


@lru_cache(maxsize=16)
def for_release(release: str) -> AccelerateRelease:
	"""The knowledge that applies to a release, which may be one that is not listed (1.15.1, 1.16.0.dev0)."""
	known = nearest(release)
	return AccelerateRelease(known) if known == release else for_release(known)


def nearest(release: str) -> str:
	return versions.nearest(release, RELEASES)


def spans(*path: str) -> list[tuple[str, str | None]]:
	"""The releases that have a fact at all: `spans("options", "fsdp_version")` is `[("1.6.0", None)]`."""
	return history.presence(DATA, path)


def last_default(option: str) -> Any:
	"""The default of an option of `accelerate launch` in the newest release that has it; None if none has."""
	runs = history.branch(DATA, ("options", option))
	return runs[-1][2].get("default") if runs else None


def _fitted(names: Iterable[str], pattern: str, argument: str) -> tuple[str, ...]:
	rest = argument[len(pattern) - 1 :].upper()
	return tuple(name.replace("*", rest) for name in names)


def _option(dest: str, record: Mapping[str, Any], hyphens: bool) -> Option:
	choices = record.get("choices")
	tuples = {name: _spellings(record.get(name, ()), hyphens) for name in ("flags", "negated")}
	return Option(dest, **{**record, **tuples, "choices": None if choices is None else tuple(choices)})


def _spellings(flags: Iterable[str], hyphens: bool) -> tuple[str, ...]:
	long = [flag for flag in flags if flag.startswith("--")]
	more = ["--" + flag[2:].replace("_", "-") for flag in long] if hyphens else []
	return tuple(dict.fromkeys([*flags, *more]))
