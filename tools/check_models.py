#!/usr/bin/env python3
"""Hold the counting of parameters against Transformers: random configs of every kind, built on the meta device.

Needs torch and transformers. Fails where the library counts otherwise than tests/cases/parameter_counts.json.gz says;
`--write` puts its counts there.
"""

import argparse
import importlib
import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import packed
import project
from distributed_training_backends.triage.families import Family, families

CASES = project.CASES / "parameter_counts.json.gz"
EACH = 2


def main() -> int:
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--write", action="store_true")
	args = parser.parse_args()
	found = {kind: [built(config) for config in configs(kind)] for kind in families()}
	if args.write:
		library = importlib.import_module("transformers")
		lines = ",\n".join(f'  "{kind}": {json.dumps(counts)}' for kind, counts in found.items())
		told = f"built by tools/check_models.py with transformers {library.__version__}"
		packed.pack(CASES, f'{{\n "provenance": "{told}",\n "models": {{\n{lines}\n }}\n}}\n')
	committed = json.loads(packed.unpacked(CASES))["models"]
	differing = [kind for kind in found if committed.get(kind) != found[kind]]
	print(f"{len(found)} kinds of models, {len(differing)} counted otherwise", *differing, sep="\n")
	return int(bool(differing))


def configs(kind: str) -> Iterator[dict[str, Any]]:
	chance = random.Random(kind)
	return (drawn(kind, families()[kind], chance) for _ in range(EACH))


def built(config: dict[str, Any]) -> int:
	"""Build a model without memory and count its parameters, shared ones once."""
	torch, library = importlib.import_module("torch"), importlib.import_module("transformers")
	with torch.device("meta"):
		model = library.AutoModelForCausalLM.from_config(library.AutoConfig.for_model(**config))
	return sum({id(one): one.numel() for one in model.parameters()}.values())


def drawn(kind: str, family: Family, chance: random.Random) -> dict[str, Any]:
	heads, head_dim = chance.choice([4, 8]), chance.choice([16, 32])
	keys = family.keys
	config: dict[str, Any] = {"model_type": kind, "pad_token_id": 0, "tie_word_embeddings": chance.random() < 0.5}
	config[keys["layers"]] = layers = chance.choice([2, 3, 5])
	config[keys["hidden"]] = heads * head_dim
	config[keys["heads"]] = heads
	config[keys["vocab"]] = chance.choice([512, 1000])
	if family.name not in ("mpt", "bloom"):
		config[keys["intermediate"]] = chance.choice([64, 96])
	if family.gated or family.name in ("arcee", "apertus", "nemotron", "starcoder2", "phi"):
		config["num_key_value_heads"] = heads if family.latent else chance.choice([1, 2, 4])
	if family.positions is not None:
		config[keys["positions"]] = chance.choice([64, 128])
	if kind in ("ministral", "hunyuan_v1_dense"):
		config["head_dim"] = head_dim
	switches = (
		family.qkv_bias,
		family.out_bias,
		family.mlp_bias,
		family.head_bias,
		family.qk_norm_if,
		family.parallel_if,
	)
	config |= {name: chance.random() < 0.5 for name in switches if isinstance(name, str)}
	return {**config, **special(kind, layers, chance), **mixture(family, chance)}


def special(kind: str, layers: int, chance: random.Random) -> dict[str, Any]:
	if kind == "falcon":
		grouped = chance.random() < 0.5
		return {"new_decoder_architecture": grouped, "num_kv_heads": 2, "alibi": False, "multi_query": True}
	if kind == "gpt_neo":
		return {"attention_types": [[["global"], layers]]}
	if kind in ("deepseek_v2", "deepseek_v3"):
		ranks = {"q_lora_rank": chance.choice([None, 24]), "kv_lora_rank": 16, "qk_nope_head_dim": 16}
		return {**ranks, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_group": 1, "topk_group": 1}
	return {}


def mixture(family: Family, chance: random.Random) -> dict[str, Any]:
	spelled = family.experts
	if spelled is None:
		return {}
	config: dict[str, Any] = {spelled.number.partition("|")[0]: 4, spelled.per_token: 2}
	for key, value in ((spelled.width, 48), (spelled.shared, 2), (spelled.shared_width, 80), (spelled.first, 1)):
		config |= {key: value} if key else {}
	if spelled.step:
		config |= {spelled.step: chance.choice([1, 2]), "mlp_only_layers": [0]}
	return config


if __name__ == "__main__":
	sys.exit(main())
