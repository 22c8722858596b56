"""The extraction tools: what they understand of Python source, and spans of releases."""

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extract_classes import checked_fields
from extract_config import enums, merging, options
from extract_environment import _reads
from extract_field_sources import FieldSources
from extract_launcher import Reader
from extraction import (
	Facts,
	FunctionNode,
	NotConstantError,
	classes,
	differences,
	dump,
	encode,
	evaluate,
	facts_of,
	first_sentence,
	functions,
	parameters,
)

RELEASES = ["0.9.0", "0.10.0", "0.10.1", "1.0.0", "1.10.0"]
PATHS = st.tuples(st.sampled_from(["fields", "options"]), st.sampled_from(["zero_stage", "debug", "tp_size"]))
VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.lists(st.sampled_from(["no", "yes"]), max_size=2))


def function(source: str) -> FunctionNode:
	(found,) = functions(ast.parse(source)).values()
	return found


def reader_of(source: str) -> Reader:
	seen = Reader()
	seen.block(function(source).body, ())
	return seen


@given(st.fixed_dictionaries({name: st.dictionaries(PATHS, VALUES) for name in RELEASES}))
def test_spans_say_of_each_release_what_was_put_in(by_release: dict[str, Facts]) -> None:
	tree = encode(by_release)
	for name, facts in by_release.items():
		assert differences(facts_of(tree, name), facts) == []
	assert json.loads(dump(tree)) == tree


def test_spans_are_as_long_as_a_value_holds() -> None:
	path = ("options", "fsdp_version")
	tree = encode(
		{"0.9.0": {}, "0.10.0": {path: 1}, "0.10.1": {path: 1}, "1.0.0": {path: True}, "1.10.0": {path: True}}
	)
	assert tree == {"options": {"fsdp_version": [["0.10.0", "0.10.1", 1], ["1.0.0", None, True]]}}


def test_a_value_of_another_type_is_another_value() -> None:
	tree = encode({"1.0.0": {("a",): 1}, "1.1.0": {("a",): True}})
	assert tree == {"a": [["1.0.0", "1.0.0", 1], ["1.1.0", None, True]]}


@pytest.mark.parametrize(
	("source", "value"),
	[
		("['no'] + [name.lower() for name in BACKENDS]", ["no", "eager", "onnxrt"]),
		("f'{MODEL}.bin'", "pytorch_model.bin"),
		("int(1e8)", 100_000_000),
		("-1", -1),
		("(True, None)", [True, None]),
		("BACKENDS[1]", "ONNXRT"),
		("{'a': 2**3}", {"a": 8}),
	],
)
def test_constant_expressions_are_evaluated(source: str, value: Any) -> None:
	names = {"BACKENDS": ["EAGER", "ONNXRT"], "MODEL": "pytorch_model"}
	assert evaluate(ast.parse(source, mode="eval").body, names) == value


@pytest.mark.parametrize("source", ["unknown", "open('x')", "'a' + 1", "lambda: 1", "torch.float16"])
def test_other_expressions_are_not(source: str) -> None:
	with pytest.raises(NotConstantError):
		evaluate(ast.parse(source, mode="eval").body)


def test_a_difference_is_named() -> None:
	committed: Facts = {("a", "b"): 1, ("a", "c"): [], ("d",): "x"}
	fresh: Facts = {("a", "b"): True, ("a", "c"): [], ("e",): None}
	assert differences(committed, fresh) == [
		"a/b: committed 1, fresh true",
		"d: only in the committed data",
		"e: missing from the committed data",
	]


def test_an_assignment_ends_one_prefix_and_begins_another() -> None:
	seen = reader_of(
		"""
def prepare(args):
    prefix = "MEGATRON_LM_"
    current_env[prefix + "TP_DEGREE"] = str(args.megatron_lm_tp_degree)
    prefix = "PARALLELISM_CONFIG_"
    current_env[prefix + "TP_SIZE"] = str(args.parallelism_config_tp_size)
"""
	)
	assert seen.exports == {
		"megatron_lm_tp_degree": {"MEGATRON_LM_TP_DEGREE"},
		"parallelism_config_tp_size": {"PARALLELISM_CONFIG_TP_SIZE"},
	}


def test_a_value_is_followed_through_local_names_and_a_constant_to_its_condition() -> None:
	seen = reader_of(
		"""
def prepare(args):
    backend = DynamoBackend(args.dynamo_backend.upper())
    current_env["ACCELERATE_DYNAMO_BACKEND"] = backend.value
    gpu_ids = getattr(args, "gpu_ids", "all")
    if gpu_ids != "all":
        if is_xpu_available():
            current_env["ZE_AFFINITY_MASK"] = gpu_ids
    if args.debug:
        current_env["ACCELERATE_DEBUG_MODE"] = "true"
    current_env["ACCELERATE_USE_DEEPSPEED"] = "true"
    args.nnodes = "2"
    setattr(args, "node_rank", int(args.machine_rank))
"""
	)
	assert seen.exports == {
		"dynamo_backend": {"ACCELERATE_DYNAMO_BACKEND"},
		"gpu_ids": {"ZE_AFFINITY_MASK"},
		"debug": {"ACCELERATE_DEBUG_MODE"},
		"-": {"ACCELERATE_USE_DEEPSPEED"},
	}
	assert seen.reads == {"dynamo_backend", "gpu_ids", "debug", "machine_rank"}
	assert seen.sets == {"nnodes", "node_rank"}


def test_a_loop_over_all_arguments_is_narrowed_by_its_conditions() -> None:
	seen = reader_of(
		"""
def setup(args, current_env):
    for arg in vars(args):
        if arg.startswith("fp8_"):
            value = getattr(args, arg)
            if arg == "fp8_override_linear_precision":
                current_env["ACCELERATE_FP8_OVERRIDE_FPROP"] = str(value[0])
            else:
                current_env[f"ACCELERATE_{arg.upper()}"] = str(value)
"""
	)
	assert seen.exports == {
		"fp8_override_linear_precision": {"ACCELERATE_FP8_OVERRIDE_FPROP"},
		"fp8_*": {"ACCELERATE_FP8_*"},
	}


@pytest.mark.parametrize(
	("test", "rule"),
	[
		("'fsdp' not in key", {"test": "contains", "unless": "fsdp", "prefix": "fsdp_"}),
		("not key.startswith('fsdp')", {"test": "startswith", "unless": "fsdp", "prefix": "fsdp_"}),
	],
)
def test_the_prefix_rule_of_a_block_is_read(test: str, rule: dict[str, str]) -> None:
	facts = merging(
		function(
			f"""
def merge(args, defaults):
    for name, attr in defaults.__dict__.items():
        for key in defaults.fsdp_config:
            if {test}:
                key = "fsdp_" + key
            setattr(args, key, defaults.fsdp_config[key])
        for key in defaults.deepspeed_config:
            setattr(args, key, defaults.deepspeed_config[key])
"""
		)
	)
	assert facts["blocks", "fsdp_config"] == rule
	assert facts["blocks", "deepspeed_config"] == {}


def test_options_of_one_destination_are_one() -> None:
	facts = options(
		function(
			"""
def launch_parser():
    group = parser.add_argument_group("TPU", "About TPUs.")
    group.add_argument("--tpu_cluster", action="store_true", dest="tpu_use_cluster", help="Use a pod. Always.")
    group.add_argument("--no_tpu_cluster", action="store_false", dest="tpu_use_cluster")
    parser.add_argument("-m", "--module", action="store_true")
"""
		),
		{},
		custom_parser=True,
	)
	assert facts["options", "tpu_use_cluster"] == {
		"flags": ["--tpu_cluster"],
		"action": "store_true",
		"default": False,
		"negated": ["--no_tpu_cluster"],
		"group": "TPU",
	}
	assert facts["help", "tpu_use_cluster"] == "Use a pod."
	assert facts["options", "module"]["default"] is None


def test_the_environment_is_read_through_prefixes_and_helpers() -> None:
	tree = ast.parse(
		"""
HOME = os.environ.get("HF_HOME")
class Plugin:
    def __post_init__(self):
        prefix = "FSDP_"
        self.version = int(os.environ.get(prefix + "VERSION", "1"))
        self.debug = parse_flag_from_env(f"{prefix}DEBUG")
        size = get_int_from_env(["PMI_SIZE", "WORLD_SIZE"], 1)
        os.environ["FSDP_WRITTEN"] = "1"
    def reset(self, prefix):
        return prefix + "VERSION" in os.environ
"""
	)
	assert set(_reads(tree, "", {})) == {
		("HF_HOME", ""),
		("FSDP_VERSION", "Plugin.__post_init__"),
		("FSDP_DEBUG", "Plugin.__post_init__"),
		("PMI_SIZE", "Plugin.__post_init__"),
		("WORLD_SIZE", "Plugin.__post_init__"),
		("*VERSION", "Plugin.reset"),
	}


def test_the_checks_of_a_class_are_read() -> None:
	setup = function(
		"""
def __post_init__(self):
    if not isinstance(self.load_in_8bit, bool):
        raise ValueError
    if self.skip_modules is not None and not isinstance(self.skip_modules, list):
        raise ValueError
    if self.policy.upper() not in POLICIES:
        raise ValueError
    if self.dtype == "fp32":
        pass
    elif self.dtype == "fp16":
        pass
    else:
        raise ValueError
    if self.version == 2 and not isinstance(self.reshard, bool):
        raise ValueError
"""
	)
	assert checked_fields(setup, {"POLICIES": ["A", "B"]}) == {
		"load_in_8bit": {"instance": ["bool"]},
		"skip_modules": {"instance": ["list", "None"]},
		"policy": {"allowed": ["A", "B"]},
		"dtype": {"allowed": ["fp32", "fp16"]},
	}


def test_a_descriptor_is_no_member_of_an_enum() -> None:
	module = ast.parse("class Kind(str, enum.Enum):\n    NO = 'NO'\n    TPU = Deprecated('TPU')\n")
	assert enums(module) == {("enums", "Kind", "NO"): "NO"}
	assert list(classes(module)) == ["Kind"]


def test_parameters_have_types_and_defaults() -> None:
	found = parameters(function("def f(self, a, b: List[str] = None, *rest, c=LIMIT, **more): pass"), {"LIMIT": 3})
	assert found == {
		("a",): {},
		("b",): {"type": "list[str]", "default": None},
		("c",): {"default": 3},
		("*rest",): {},
		("**more",): {},
	}


def test_a_long_sentence_is_cut_at_a_word() -> None:
	assert first_sentence("Use it. Or not.") == "Use it."
	cut = first_sentence("word " * 40)
	assert len(cut) <= 120
	assert cut.endswith("word…")


def test_fields_take_values_from_variables() -> None:
	body = function(
		"""
def __post_init__(self):
    prefix = "FSDP_"
    fallback = "te" if found() else "ao"
    if self.version is None:
        self.version = int(os.environ.get(prefix + "VERSION", "1"))
    self.offload = str_to_bool(os.environ.get(prefix + "OFFLOAD", "False")) == 1
    steps = os.environ.get("STEPS", "auto")
    self.steps = int(steps) if steps.isdigit() else steps
    self.backend = os.environ.get("BACKEND", fallback)
    self.enabled = parse_flag_from_env("ENABLED")
    if os.environ.get("LAYERS") is not None:
        self.layers = int(os.environ.get("LAYERS", 0))
    if os.environ.get("CPU", "false") == "true":
        self.device = CPU()
    self.other = 3
"""
	).body
	assert FieldSources({}, ()).read(body) == {
		"version": {"variables": ["FSDP_VERSION"], "otherwise": "1"},
		"offload": {"variables": ["FSDP_OFFLOAD"], "otherwise": False},
		"steps": {"variables": ["STEPS"], "otherwise": "auto"},
		"backend": {"variables": ["BACKEND"], "otherwise": {"expr": "'te' if found() else 'ao'"}},
		"enabled": {"variables": ["ENABLED"], "otherwise": False},
		"layers": {"variables": ["LAYERS"], "otherwise": None},
		"device": {"variables": ["CPU"], "otherwise": "false"},
	}


def test_parameters_take_values_from_variables() -> None:
	body = function("def __init__(self, cpu=False, state=None):\n if parse_flag_from_env('CPU'): cpu = True").body
	assert FieldSources({}, ["cpu"]).read(body) == {"cpu": {"variables": ["CPU"], "otherwise": False}}
