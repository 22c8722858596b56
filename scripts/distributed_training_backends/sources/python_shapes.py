"""What the objects of a script are, by how they are made: models, optimizers, schedulers and data loaders."""

import ast
import re

from .python_scopes import Scope, dotted_name

_SCHEDULER = re.compile(r"get_\w*schedule\w*|\w*(?:Scheduler|LR)")
_OPTIMIZER = re.compile(r"(?:\w*(?:Adam|Adamax|Adamw|AdamW\w*|SGD|RMSprop|Adagrad|Adafactor|Lion|Optim))")
_MODEL = re.compile(r"\w*(?:Model|For[A-Z]\w+|Autoencoder\w*|UNet\w*|Transformer2D\w*)")


def shape(node: ast.expr, scope: Scope, modules: frozenset[str]) -> str:
	"""What an argument of `prepare` is: "model", "optimizer", "scheduler", "dataloader", "*" for several that are not
	known, or "" for what is not known. `modules` are the classes of the script that are modules of torch."""
	if isinstance(node, ast.Starred):
		return "*"
	if isinstance(node, ast.Name):
		found = {made(one.value, one.scope, modules) for one in scope.bindings(node.id) if one.value and one.scope}
		return found.pop() if len(found) == 1 else ""
	return made(node, scope, modules)


def made(node: ast.expr, scope: Scope, modules: frozenset[str]) -> str:
	if not isinstance(node, ast.Call):
		return ""
	function = node.func
	name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
	dotted = dotted_name(function, scope)
	if name in modules or name == "get_peft_model" or dotted.startswith("torch.nn."):
		return "model"
	if name in ("from_pretrained", "from_config") and isinstance(function, ast.Attribute):
		owner = getattr(function.value, "attr", "") or getattr(function.value, "id", "")
		return "model" if _MODEL.fullmatch(owner) and "Config" not in owner else ""
	if _SCHEDULER.fullmatch(name):
		return "scheduler"
	if _OPTIMIZER.fullmatch(name):
		return "optimizer"
	return "dataloader" if name.endswith("DataLoader") else ""
