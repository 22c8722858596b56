"""What a setup needs in the training script: loading, adapters, optimizer and the loop."""

from collections.abc import Iterator

from ..convert.python_code import Name, call
from ..versions import in_span
from .emit_accelerate import ZERO_STAGES
from .emit_plugins import accelerator_arguments, kwargs_handlers
from .facts import Facts
from .setup import FSDP, Setup

DTYPES = {"bf16": Name("torch.bfloat16"), "fp16": Name("torch.float16"), "fp32": Name("torch.float32")}
# By the name of the fact: (module, class, arguments). The learning rate is the user's to choose.
OPTIMIZERS = {
	"adamw_torch": ("torch", "optim.AdamW", "lr=1e-5"),
	"adamw_torch_fused": ("torch", "optim.AdamW", "lr=1e-5, fused=True"),
	"adamw_8bit": ("bitsandbytes", "optim.AdamW8bit", "lr=1e-5"),
	"adamw_torch_8bit": ("torchao.optim", "AdamW8bit", "lr=1e-5"),
	"adamw_torch_4bit": ("torchao.optim", "AdamW4bit", "lr=1e-5"),
	"paged_adamw_32bit": ("bitsandbytes", "optim.PagedAdamW32bit", "lr=1e-5"),
	"paged_adamw_8bit": ("bitsandbytes", "optim.PagedAdamW8bit", "lr=1e-5"),
	"adafactor": ("transformers", "Adafactor", "lr=1e-5, scale_parameter=False, relative_step=False"),
	"sgd": ("torch", "optim.SGD", "lr=1e-3"),
	"sgd_momentum": ("torch", "optim.SGD", "lr=1e-3, momentum=0.9"),
	"lion_32bit": ("bitsandbytes", "optim.Lion32bit", "lr=1e-6"),
	"lion_8bit": ("bitsandbytes", "optim.Lion8bit", "lr=1e-6"),
	"muon": ("torch", "optim.Muon", "lr=1e-3"),
}
# The sections of references/parallelism-and-precision.md.
PAGES = {"cp": "Context parallelism", "sp": "Sequence parallelism (Ulysses)"}
TRAINED = "trained = [parameter for parameter in model.parameters() if parameter.requires_grad]"


def script_code(facts: Facts, setup: Setup) -> str:
	"""The lines, in the order in which they have to run; `loader` and `scheduler` are as for plain PyTorch."""
	body = [*start(facts, setup), *loading(facts, setup), *adapters(facts, setup), *after_loading(facts, setup)]
	body += [*optimizer(facts, setup), *preparing(facts, setup), "", *loop(facts, setup)]
	lines = [*imports(facts, setup), ""]
	if setup.backend == "xla":
		return "\n".join([*lines, "", "def main():", *(f"    {line}" if line else "" for line in body)]) + "\n"
	return "\n".join([*lines, *body]) + "\n"


def imports(facts: Facts, setup: Setup) -> Iterator[str]:
	modules = {"torch"}
	if facts.task.trains:
		modules.add(OPTIMIZERS.get(facts.optimizer or "", ("torch",))[0])
	yield from (f"import {name}" for name in sorted(modules))
	yield "from accelerate import Accelerator" + (", LocalSGD" if setup.backend == "local_sgd" else "")
	handlers = [name for name, _ in kwargs_handlers(setup)]
	handlers += ["DDPCommunicationHookType"] if setup.comm_hook != "no" else []
	if handlers:
		yield f"from accelerate.utils import {', '.join(sorted(handlers))}"
	if fused(facts, setup):
		yield "from liger_kernel.transformers import AutoLigerKernelForCausalLM"
	if facts.task.adapts:
		names = ["LoraConfig", "get_peft_model"]
		names += ["prepare_model_for_kbit_training"] if prepared(facts, setup) else []
		yield f"from peft import {', '.join(names)}"
		if setup.backend == "fsdp1":
			yield "from peft.utils.other import fsdp_auto_wrap_policy"
	names = [] if fused(facts, setup) else ["AutoModelForCausalLM"]
	names += ["BitsAndBytesConfig"] if facts.task.quantized else []
	if names:
		yield f"from transformers import {', '.join(names)}"
	if setup.tp > 1 and new_tensor_parallel(facts):
		yield "from transformers.distributed import DistributedConfig"


def start(facts: Facts, setup: Setup) -> Iterator[str]:
	"""The Accelerator comes first: ZeRO-3 and FSDP change how weights are loaded."""
	arguments = accelerator_arguments(facts, setup, {})
	handlers = [text for _, text in kwargs_handlers(setup)]
	if handlers:
		arguments["kwargs_handlers"] = Name(f"[{', '.join(handlers)}]")
	yield from call("accelerator = Accelerator", arguments).split("\n")


def loading(facts: Facts, setup: Setup) -> Iterator[str]:
	arguments: dict[str, object] = {dtype_name(facts): DTYPES[facts.weights or "bf16"]}
	arguments["attn_implementation"] = facts.attention or "sdpa"
	if facts.task.quantized:
		yield from quantization(facts, setup)
		arguments["quantization_config"] = Name("quantization")
		if setup.backend not in FSDP:
			arguments["device_map"] = Name('{"": accelerator.local_process_index}')
	if setup.tp > 1 and setup.backend != "megatron":
		arguments |= split_while_loading(facts, setup)
	owner = "AutoLigerKernelForCausalLM" if fused(facts, setup) else "AutoModelForCausalLM"
	yield from call(f"model = {owner}.from_pretrained", arguments, Name("MODEL")).split("\n")


def quantization(facts: Facts, setup: Setup) -> Iterator[str]:
	"""How the weights are packed; FSDP shards floating-point storage only."""
	if facts.task.quantization == "int8":
		yield "quantization = BitsAndBytesConfig(load_in_8bit=True)"
		return
	arguments: dict[str, object] = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
	arguments["bnb_4bit_compute_dtype"] = DTYPES["fp16" if facts.precision == "fp16" else "bf16"]
	if facts.task.quantization == "nf4_double":
		arguments["bnb_4bit_use_double_quant"] = True
	if setup.backend in FSDP:
		arguments["bnb_4bit_quant_storage"] = DTYPES[facts.weights or "bf16"]
	yield from call("quantization = BitsAndBytesConfig", arguments).split("\n")


def split_while_loading(facts: Facts, setup: Setup) -> dict[str, object]:
	if new_tensor_parallel(facts):
		return {"distributed_config": Name(f"DistributedConfig(tp_size={setup.tp})")}
	return {"tp_plan": "auto", "device_mesh": Name('accelerator.torch_device_mesh["tp"]')}


def adapters(facts: Facts, setup: Setup) -> Iterator[str]:
	"""LoRA, and for FSDP1 a policy that keeps trained and frozen weights in groups of their own."""
	task = facts.task
	if not task.adapts:
		return
	if prepared(facts, setup):
		yield "model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)"
	targets = list(task.lora_targets or ("all-linear",))
	arguments = {
		"r": task.lora_rank or 16,
		"lora_alpha": 2 * (task.lora_rank or 16),
		"lora_dropout": task.lora_dropout or 0.0,
		"target_modules": targets[0] if targets == ["all-linear"] else targets,
		"task_type": "CAUSAL_LM",
	}
	yield from call("lora = LoraConfig", arguments).split("\n")
	yield "model = get_peft_model(model, lora)"
	if setup.backend == "fsdp1":
		yield "accelerator.state.fsdp_plugin.auto_wrap_policy = fsdp_auto_wrap_policy(model)"


def after_loading(facts: Facts, setup: Setup) -> Iterator[str]:
	if not facts.task.trains:
		yield "model.eval()"
		return
	yield "model.config.use_cache = False"
	if setup.checkpointing == "full" and setup.checkpointed_by == "model" and setup.backend != "megatron":
		yield 'model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})'
		if facts.task.adapts:
			yield "model.enable_input_require_grads()"


def optimizer(facts: Facts, setup: Setup) -> Iterator[str]:
	"""The optimizer over what is trained; under ZeRO with offload Accelerate makes a DeepSpeedCPUAdam of it."""
	if not facts.task.trains:
		return
	module, name, arguments = OPTIMIZERS.get(facts.optimizer or "", OPTIMIZERS["adamw_torch"])
	if facts.task.adapts:
		yield TRAINED
		if setup.backend == "fsdp1":
			yield "model = accelerator.prepare(model)  # flat parameters are made here, so the optimizer comes after"
			yield TRAINED
	yield f"optimizer = {module}.{name}({'trained' if facts.task.adapts else 'model.parameters()'}, {arguments})"


def preparing(facts: Facts, setup: Setup) -> Iterator[str]:
	if not facts.task.trains:
		yield "model, loader = accelerator.prepare(model, loader)"
	elif setup.backend == "fsdp1" and facts.task.adapts:
		yield "optimizer, loader, scheduler = accelerator.prepare(optimizer, loader, scheduler)"
	else:
		yield "model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)"


def loop(facts: Facts, setup: Setup) -> Iterator[str]:
	"""The loop; where a backend wants another one, the page that has it."""
	page = next((PAGES[name] for name in ("sp", "cp") if getattr(setup, name) > 1), None)
	page = "Megatron-LM" if setup.backend == "megatron" else page
	if page:
		yield f"# The loop differs for this backend: references/parallelism-and-precision.md, {page}."
		return
	if not facts.task.trains:
		yield "with torch.inference_mode():"
		yield "    for batch in loader:"
		yield "        logits = model(**batch).logits"
		return
	if setup.backend == "local_sgd":
		yield "with LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=8, enabled=True) as local_sgd:"
		yield from (f"    {line}" for line in steps(setup))
	else:
		yield from steps(setup)


def steps(setup: Setup) -> Iterator[str]:
	"""The usual steps; DeepSpeed's engine clips and accumulates by its config."""
	yield "for batch in loader:"
	yield "    with accelerator.accumulate(model):"
	inside = ["loss = model(**batch).loss", "accelerator.backward(loss)"]
	if setup.backend not in ZERO_STAGES:
		inside += ["if accelerator.sync_gradients:", "    accelerator.clip_grad_norm_(model.parameters(), 1.0)"]
	inside += ["optimizer.step()", "scheduler.step()", "optimizer.zero_grad()"]
	inside += ["local_sgd.step()"] if setup.backend == "local_sgd" else []
	yield from (f"        {line}" for line in inside)


def fused(facts: Facts, setup: Setup) -> bool:
	chosen = facts.loss == "fused_linear" if setup.fused_loss is None else setup.fused_loss
	return chosen and facts.task.trains and setup.backend not in ("megatron", "xla")


def prepared(facts: Facts, setup: Setup) -> bool:
	"""Whether norms and head go to fp32 first: not under FSDP, whose groups want one dtype."""
	return bool(facts.task.kbit_preparation) and facts.task.quantized and setup.backend not in FSDP


def dtype_name(facts: Facts) -> str:
	return "dtype" if in_span(facts.versions.transformers, "4.56.0", None) else "torch_dtype"


def new_tensor_parallel(facts: Facts) -> bool:
	return in_span(facts.versions.transformers, "5.14.0", None)
