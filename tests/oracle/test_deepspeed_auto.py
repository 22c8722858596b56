"""The table of values "auto" that Accelerate fills names the paths that its source fills, and no others."""

import ast
from collections.abc import Iterator

import pytest
from tests import gated
from tests.oracle import environment
from tests.oracle.agreement import RELEASES

from distributed_training_backends.knowledge.deepspeed import auto_fillers
from distributed_training_backends.resources import load_json
from extraction import FunctionNode, classes, dotted, functions, parse
from releases import source_tree

pytestmark = gated.oracle
BATCH = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"}


@pytest.mark.parametrize("release", RELEASES["accelerate"])
def test_the_table_is_that_of_the_source(release: str) -> None:
	package = source_tree("accelerate", release, environment.default().home) / "accelerate"
	plugin = functions(classes(parse(package / "utils/dataclasses.py"))["DeepSpeedPlugin"])
	accelerator = functions(classes(parse(package / "accelerator.py"))["Accelerator"])
	found = set(mapping_values(plugin["__post_init__"]))
	for function in (plugin["set_mixed_precision"], accelerator["_prepare_deepspeed"]):
		found |= {text for text in given_names(function) if "." in text or text in BATCH}
	table = load_json("deepspeed_auto.json")["accelerate"]
	assert {path for path in table if auto_fillers(path, "accelerate", release, "")} == found


def mapping_values(function: FunctionNode) -> Iterator[str]:
	for node in ast.walk(function):
		match node:
			case ast.Assign(targets=[target], value=ast.Dict(values=values)):
				if dotted(target) == "plugin_to_config_mapping":
					yield from map(ast.literal_eval, values)


def given_names(function: FunctionNode) -> Iterator[str]:
	for node in ast.walk(function):
		match node:
			case ast.Dict(keys=keys):
				yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
			case ast.Subscript(value=ast.Name(id="config_kwargs"), slice=ast.Constant(value=str() as name)):
				yield name
