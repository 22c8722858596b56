"""Check which values "auto" Accelerate fills in a DeepSpeed config, against the releases' own source.

    python tools/extract_deepspeed_auto.py --check               # the newest three Accelerate releases
    python tools/extract_deepspeed_auto.py --check --newest 52

``data/deepspeed_auto.json`` is written by hand, since it also says where each value comes from. This tool finds the
dotted paths that `DeepSpeedPlugin` and `Accelerator._prepare_deepspeed` can fill, and compares. The part about the
Trainer rests on Transformers, whose releases are not pinned here.
"""

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import packed
import releases as pinned
from extraction import FunctionNode, classes, dotted, functions, parse, release_order

DATA = "deepspeed_auto.json"
BATCH = {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"}
MAPPING = "plugin_to_config_mapping"


def filled(package: Path) -> set[str]:
	"""Paths that Accelerate replaces an "auto" at: those of the plugin, of mixed precision and of `prepare`."""
	plugin = functions(classes(parse(package / "utils/dataclasses.py"))["DeepSpeedPlugin"])
	accelerator = functions(classes(parse(package / "accelerator.py"))["Accelerator"])
	found = set(mapping_values(plugin["__post_init__"]))
	for function in (plugin["set_mixed_precision"], accelerator["_prepare_deepspeed"]):
		found |= {text for text in given_names(function) if "." in text or text in BATCH}
	return found


def mapping_values(function: FunctionNode) -> Iterator[str]:
	for node in ast.walk(function):
		if isinstance(node, ast.Assign) and dotted(node.targets[0]) == MAPPING and isinstance(node.value, ast.Dict):
			yield from (ast.literal_eval(value) for value in node.value.values)


def given_names(function: FunctionNode) -> Iterator[str]:
	for node in ast.walk(function):
		match node:
			case ast.Dict(keys=keys):
				yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
			case ast.Subscript(value=ast.Name(id="config_kwargs"), slice=ast.Constant(value=str() as name)):
				yield name
			case ast.Call(func=ast.Attribute(attr="fill_match"), args=[ast.Constant(value=str() as name), *_]):
				yield name


def stated(content: dict[str, Any], release: str) -> set[str]:
	at = release_order(release)
	return {
		path
		for path, runs in content["accelerate"].items()
		for first, last, _ in runs
		if (first is None or release_order(first) <= at) and (last is None or at <= release_order(last))
	}


def main() -> int:
	parser = argparse.ArgumentParser(description='Check the table of values "auto" that Accelerate fills.')
	parser.add_argument("--check", action="store_true", required=True)
	parser.add_argument("--newest", type=int, default=3, help="how many releases are looked at (default: 3)")
	parser.add_argument("--sources", type=Path, help="folder with one unpacked release in each subfolder")
	parser.add_argument("--cache", type=Path, default=Path(".oracle"), help="where fetched releases go")
	options = parser.parse_args()
	content = json.loads(packed.text_of(DATA))
	lines = []
	for release in pinned.known("accelerate")[-options.newest :]:
		root = options.sources / release if options.sources else None
		package = (root or pinned.source_tree("accelerate", release, options.cache)) / "accelerate"
		lines += [f"{release}: {path}" for path in sorted(stated(content, release) ^ filled(package))]
	print("\n".join(lines) or f"{DATA}: agrees with {options.newest} releases of accelerate")
	return 1 if lines else 0


if __name__ == "__main__":
	sys.exit(main())
