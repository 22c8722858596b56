"""What DeepSpeed calls with values of its JSON: optimizers and schedulers; and the keys whose presence it refuses."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from extract_deepspeed_package import Definition, Expression, Package, class_constants, value_of
from extraction import functions

Record = dict[str, Any]
# given by DeepSpeed itself, or refused by it before the constructor is called
GIVEN = {"params", "model_params", "optimizer", "deepspeed", "max_grad_norm"}
REMOVED = {"_REMOVED_TOP_LEVEL_CONFIG_KEYS": "", "_REMOVED_ZERO_CONFIG_KEYS": "zero_optimization."}
ISSUE = re.compile(r"issues/(\d+)")
TORCH_ADAMW = ("lr", "betas", "eps", "weight_decay", "amsgrad")
CLASSES = {
	"FusedAdam": "ops.adam.fused_adam",
	"DeepSpeedCPUAdam": "ops.adam.cpu_adam",
	"FusedLamb": "ops.lamb.fused_lamb",
	"FusedLion": "ops.lion.fused_lion",
	"DeepSpeedCPULion": "ops.lion.cpu_lion",
	"DeepSpeedCPUAdagrad": "ops.adagrad.cpu_adagrad",
	"OnebitAdam": "runtime.fp16.onebit.adam",
	"ZeroOneAdam": "runtime.fp16.onebit.zoadam",
	"OnebitLamb": "runtime.fp16.onebit.lamb",
}
PLAIN = {
	"lamb": {"default": "FusedLamb"},
	"lion": {"default": "FusedLion", "cpu": "DeepSpeedCPULion"},
	"adagrad": {"default": "torch.Adagrad", "cpu": "DeepSpeedCPUAdagrad"},
	"onebitadam": {"default": "OnebitAdam"},
	"zerooneadam": {"default": "ZeroOneAdam"},
	"onebitlamb": {"default": "OnebitLamb"},
	"muadam": {"default": "mup.MuAdam"},
	"muadamw": {"default": "mup.MuAdamW"},
	"musgd": {"default": "mup.MuSGD"},
}


class Calls:
	def __init__(self, package: Package) -> None:
		self.package = package
		engine = package.definition("runtime.engine", "DeepSpeedEngine")
		assert engine is not None, "no DeepSpeedEngine in runtime/engine.py"
		self.engine = engine
		methods = functions(engine.node)
		names = ("_configure_basic_optimizer", "get_optimizer_configuration")
		self.source = "\n".join(ast.unparse(methods[name]) for name in names if name in methods)

	def optimizers(self) -> Iterator[tuple[str, Record]]:
		"""(lower-case type, record of each case) of the optimizers that are DeepSpeed's own."""
		config = self.package.constants("runtime.config")
		for kind in config["DEEPSPEED_OPTIMIZERS"]:
			if kind in ("adam", "adamw") or (kind == "adagrad" and "torch.optim.Adagrad" not in self.source):
				yield kind, self.adam(kind)
			elif kind == "muon":
				yield kind, {"default": self.muon()}
			else:
				yield kind, {case: self.constructor(name) for case, name in PLAIN[kind].items()}

	def adam(self, kind: str) -> Record:
		"""Adam and AdamW, and Adagrad where it shared their branch: some parameters choose the class."""
		popped = {"torch_adam": False, "adam_w_mode": True}
		if "get_optimizer_configuration" in functions(self.engine.node):
			popped["fp32_optimizer_states"] = True
		on_cpu = self.constructor("DeepSpeedCPUAdagrad" if kind == "adagrad" else "DeepSpeedCPUAdam")
		on_cpu["parameters"].pop("adamw_mode", None)
		torch: Record = {"class": "torch.Adam" if kind == "adagrad" else "torch.AdamW", "parameters": {}}
		cases = {"default": self.constructor("FusedAdam"), "cpu": on_cpu, "torch_adam": torch}
		for record in cases.values():
			record["parameters"] = {**record["parameters"], **popped}
		if "ZenFlowCPUAdam" in self.source:
			cases["zenflow"] = self.zenflow(on_cpu, popped)
		return cases

	def zenflow(self, on_cpu: Record, popped: Record) -> Record:
		"""ZenFlow builds PyTorch's AdamW from the same parameters, without those that were taken out for both."""
		shared = {*TORCH_ADAMW, *(() if "dict(self.optimizer_params()" in self.source else popped)}
		both = {name: value for name, value in on_cpu["parameters"].items() if name in shared}
		return {"class": "ZenFlowCPUAdam", "parameters": both}

	def muon(self) -> Record:
		keys: dict[str, None] = {}
		for name, value in class_constants(self.engine, self.package).items():
			if name.endswith("_HALF_KEYS"):
				keys |= dict.fromkeys([*value, "muon_lr", "adam_lr"])
		for node in ast.walk(functions(self.engine.node)["_configure_basic_optimizer"]):
			if isinstance(node, ast.For) and isinstance(node.iter, ast.List):
				keys |= dict.fromkeys(ast.literal_eval(node.iter))
		if "adam_w_mode=adam_w_mode" in self.source and "get_optimizer_configuration" in self.source:
			keys |= dict.fromkeys(["adam_w_mode", "torch_adam", "fp32_optimizer_states"])
		if "per_head_muon" in self.package.path("").read_text(encoding="utf-8"):
			keys["per_head_muon"] = None
		return {"class": "MuonWithAuxAdam", "parameters": dict.fromkeys(sorted(keys)), "unknown": "ignored"}

	def schedulers(self) -> Iterator[tuple[str, Record]]:
		for name in self.package.constants("runtime.lr_schedules")["VALID_LR_SCHEDULES"]:
			found = self.package.definition("runtime.lr_schedules", name)
			assert found is not None, f"no scheduler {name}"
			yield name, self.signature(found)

	def constructor(self, name: str) -> Record:
		"""The parameters of a class of this release; those of PyTorch and of mup are not looked at here."""
		if name not in CLASSES:
			return {"class": name, "parameters": {}}
		found = self.package.definition(CLASSES[name], name)
		assert found is not None, f"no {name} in {CLASSES[name]}"
		return self.signature(found)

	def signature(self, owner: Definition) -> Record:
		function = functions(owner.node)["__init__"]
		names = self.package.constants(owner.module)
		arguments = [each for each in function.args.args if each.arg != "self"]
		defaults = [None] * (len(arguments) - len(function.args.defaults)) + list(function.args.defaults)
		record: Record = {"class": owner.name, "parameters": {}}
		required = []
		for argument, default in zip(arguments, defaults, strict=True):
			if argument.arg not in GIVEN:
				record["parameters"][argument.arg] = None if default is None else value_of(default, names)
				required += [argument.arg] if default is None else []
		return {**record, **({"required": required} if required else {})}


def removed(package: Package) -> Iterator[tuple[str, Record]]:
	"""Keys that `_reject_removed_config_keys` refuses, with DeepSpeed's own words."""
	for table, section in REMOVED.items():
		entry = package.entry("runtime.config", table)
		if isinstance(entry, Expression):
			messages = value_of(entry.node, package.constants(entry.module))
			for key, message in messages.items():
				issue = ISSUE.search(message)
				yield section + key, {"message": message, **({"issue": int(issue[1])} if issue else {})}
