"""What the knowledge says of DeepSpeed, against what the real releases said when they were asked.

Numbers of fields, defaults and signatures were printed by each release itself (`model_fields` of its models,
`inspect.signature` of its optimizers), imported on a CPU next to torch 2.13.0 and the pydantic it wants. Whether a
block survives a value or an unknown key was seen by handing it to that release's own `DeepSpeedConfig`.
"""

import textwrap
from pathlib import Path
from typing import Any

from tests.tables import packed_table, table

from distributed_training_backends import versions
from distributed_training_backends.knowledge import deepspeed
from distributed_training_backends.knowledge.pydantic_values import problem
from extract_deepspeed_models import Models
from extract_deepspeed_package import Package
from extract_deepspeed_reads import MISSING, trace

at = deepspeed.for_release
NEWEST = at("0.19.8")
OLDEST = at("0.9.0")


def test_every_release_since_0_9_0_is_known() -> None:
	assert len(deepspeed.releases()) == 73


@packed_table("knowledge_deepspeed.models_have_as_many_fields_as_in_the_release")
def test_models_have_as_many_fields_as_in_the_release(release: str, fields: dict[str, int]) -> None:
	view = at(release)
	for section, number in fields.items():
		paths = {key.path for key in view.children(section).values()}
		assert len(paths) == number, (section, sorted(paths))
		assert all(view.keys[path].read == "model" for path in paths)


@packed_table("knowledge_deepspeed.defaults_are_those_of_the_release")
def test_defaults_are_those_of_the_release(path: str, defaults: dict[str, Any]) -> None:
	for release, default in defaults.items():
		assert at(release).keys[path].default == default, release


REFUSING = "comms_logger hybrid_engine wandb zero_optimization zero_optimization.offload_param"
TAKING = "activation_checkpointing aio autotuning checkpoint data_types flops_profiler optimizer"


@table("""release, refusing, taking
0.9.0, '', fp16 bf16 pipeline
0.16.9, compile tensor_parallel timers.throughput, fp16 bf16 timers
0.19.8, compile weight_quantization fp16 bf16, torch_autocast timers""")
def test_what_becomes_of_an_unknown_key(release: str, refusing: str, taking: str) -> None:
	blocks = at(release).sections
	assert [path for path in f"{REFUSING} {refusing}".split() if blocks[path].unknown != "refused"] == []
	assert [path for path in f"{TAKING} {taking}".split() if blocks[path].unknown not in ("ignored", "stored")] == []
	assert blocks[""].unknown == "ignored"
	assert blocks["pipeline"].unknown == "stored"
	assert blocks["optimizer.params"].unknown == blocks["scheduler.params"].unknown == "kwargs"


@packed_table("knowledge_deepspeed.what_may_stand_in_the_place_of_a_block")
def test_what_may_stand_in_the_place_of_a_block(release: str, section: str, taken: list[Any]) -> None:
	values: list[Any] = [None, True, False, 0, 1, 2.5, "", "auto", "x", [], ["a"]]
	block = at(release).sections[section]
	assert [value for value in values if block.takes(value)] == [value for value in values if has(taken, value)]
	assert block.takes({})


def has(values: list[Any], wanted: Any) -> bool:
	return any(type(value) is type(wanted) and value == wanted for value in values)


def test_blocks_that_cannot_do_without_a_key() -> None:
	view = at("0.16.4")
	assert view.sections["amp"].requires == ("enabled",)
	assert view.sections["compression_training.weight_quantization"].requires == ("different_groups",)
	assert NEWEST.sections["data_types"].requires == ()


def test_blocks_are_read_only_in_the_releases_that_have_them() -> None:
	read = [
		name for name in ("0.13.1", "0.13.2", "0.14.3", "0.14.4", "0.16.5", "0.16.6") if "compile" in sections(name)
	]
	assert read == ["0.13.2", "0.14.3", "0.16.6"]
	assert "weight_quantization" not in sections("0.10.2")
	assert "weight_quantization" in sections("0.10.3")


def sections(release: str) -> Any:
	return at(release).sections


def test_keys_whose_presence_is_refused() -> None:
	assert at("0.19.6").removed == {}
	in_0_19_7 = set(at("0.19.7").removed)
	assert {"nebula", "compression_training", "quantize_training", "sparse_attention"} < in_0_19_7
	assert "zero_optimization.mics_shard_size" in in_0_19_7
	assert {"amp", "elasticity", "zero_optimization.zeropp_loco_param"} <= set(NEWEST.removed) - in_0_19_7
	assert NEWEST.removed["amp"].message.startswith("NVIDIA Apex AMP integration has been removed.")
	assert (NEWEST.removed["amp"].issue, NEWEST.removed["amp"].since) == (8489, "0.19.8")
	assert NEWEST.removed["elasticity"].issue is None


def test_two_spellings_share_a_key() -> None:
	key = NEWEST.keys["zero_optimization.prefetch_bucket_size"]
	assert key is NEWEST.keys["zero_optimization.stage3_prefetch_bucket_size"]
	assert (key.name, key.section) == ("stage3_prefetch_bucket_size", "zero_optimization")
	assert NEWEST.key_at("bfloat16.enabled") == NEWEST.keys["bf16.enabled"]
	assert NEWEST.key_at("tensor_parallel.tensor_parallel.tp_size") == NEWEST.keys["tensor_parallel.tp.tp_size"]
	assert NEWEST.section_at("tensor_parallel.tensor_parallel") == NEWEST.sections["tensor_parallel.tp"]
	assert NEWEST.section_at("zero_optimization.stage") is None


def test_parts_that_stand_for_any_name() -> None:
	view = at("0.16.4")
	path = "compression_training.weight_quantization.different_groups.wq1.params.start_bits"
	found = view.key_at(path)
	assert found is not None
	assert found.path == path.replace("wq1", "*")
	assert view.section_at(path.rpartition(".")[0]) is not None


def test_deprecated_and_unread_keys() -> None:
	assert NEWEST.keys["zero_optimization.cpu_offload"].replaced_by == "offload_optimizer"
	assert not NEWEST.keys["disable_allgather"].used
	assert not NEWEST.keys["pipeline.partition"].used
	assert NEWEST.keys["pipeline.activation_checkpoint_interval"].used


@packed_table("knowledge_deepspeed.values_are_judged_as_the_release_does")
def test_values_are_judged_as_the_release_does(release: str, path: str, value: Any, expected: str | None) -> None:
	view = at(release)
	assert problem(value, view.keys[path], view.generation) == expected


def optimizer(view: deepspeed.DeepSpeedRelease, kind: str, case: str = "default") -> deepspeed.Constructor:
	found = view.optimizer(kind, case)
	assert found is not None, kind
	return found


def test_optimizers_take_what_their_constructor_takes() -> None:
	adam, on_cpu = optimizer(NEWEST, "Adam"), optimizer(NEWEST, "AdamW", "cpu")
	fused = {"lr", "bias_correction", "betas", "eps", "adam_w_mode", "weight_decay", "amsgrad", "set_grad_none"}
	assert (adam.name, set(adam.parameters)) == ("FusedAdam", fused | {"torch_adam", "fp32_optimizer_states"})
	# DeepSpeed gives adamw_mode itself: "got multiple values for keyword argument"
	assert on_cpu.name == "DeepSpeedCPUAdam"
	assert "adamw_mode" not in on_cpu.parameters
	torch_adam = optimizer(NEWEST, "adam", "torch_adam")
	assert "bias_correction" not in torch_adam.parameters
	assert {"foreach", "fused", "torch_adam"} <= set(torch_adam.parameters)
	muon = optimizer(NEWEST, "Muon")
	assert (muon.unknown, "ns_method" in muon.parameters) == ("ignored", True)


def test_optimizer_names_by_release() -> None:
	assert NEWEST.optimizer("OneBitAdam") is None
	assert at("0.19.6").optimizer("OneBitAdam") is not None
	assert OLDEST.optimizer("Lion") is None
	assert at("0.11.0").optimizer("LION") is not None
	# DeepSpeed's own names in any case, PyTorch's exactly
	assert NEWEST.optimizer("sgd") is None
	sgd, mu = optimizer(NEWEST, "SGD"), optimizer(NEWEST, "MuAdam")
	assert ("momentum" in sgd.parameters, sgd.open, mu.open) == (True, False, True)
	old_adagrad, adagrad = optimizer(OLDEST, "adagrad"), optimizer(NEWEST, "adagrad")
	assert (old_adagrad.name, adagrad.name) == ("FusedAdam", "torch.Adagrad")


def test_schedulers_by_release() -> None:
	assert set(OLDEST.schedulers) == {"LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR"}
	cosine = NEWEST.scheduler("WarmupCosineLR")
	assert cosine
	assert (cosine.required, "warmup_min_lr" in cosine.parameters) == (("total_num_steps",), False)
	assert NEWEST.scheduler("warmuplr") is None
	step = NEWEST.scheduler("StepLR")
	assert step
	assert step.required == ("step_size",)
	assert at("0.17.1").schedulers["WarmupLR"].parameters["warmup_max_lr"] == 0.001
	assert at("0.17.2").schedulers["WarmupLR"].parameters["warmup_max_lr"] is None


def test_generations_of_pydantic() -> None:
	assert [at(name).generation for name in ("0.9.0", "0.14.5", "0.15.0", "0.19.8")] == [1, 1, 2, 2]


def test_where_a_key_is_read_and_since_when() -> None:
	assert deepspeed.spans("compile.enabled") == (versions.Span("0.13.2", "0.14.3"),)
	assert deepspeed.spans("zero_optimization.prefetch_bucket_size") == (versions.Span("0.9.0", None),)
	assert deepspeed.spans("zero_optimisation") == ()
	assert deepspeed.known_elsewhere("overlap_comm") == ("zero_optimization.overlap_comm",)
	assert deepspeed.known_elsewhere("allgather_sequential") == ("zero_optimization.allgather_sequential",)
	assert "zero_optimization.offload_param.device" in deepspeed.known_elsewhere("device")


def test_releases_that_are_not_known() -> None:
	assert (deepspeed.nearest("0.19.9"), deepspeed.nearest("0.8.3")) == ("0.19.8", "0.9.0")
	assert at("0.20.0").release == "0.19.8"


@packed_table("knowledge_deepspeed.what_fills_an_auto")
def test_what_fills_an_auto(path: str, consumer: Any, transformers: str, first: str | None) -> None:
	found = deepspeed.auto_fillers(path, consumer, "1.15.0", transformers)
	assert (found[0] if found else None) == first


def test_the_tracer_follows_the_dict_through_a_package(tmp_path: Path) -> None:
	files = {
		"__init__.py": "",
		"runtime/__init__.py": "",
		"runtime/constants.py": 'AIO = "aio"\nDEPTH = "depth"\nDEPTH_DEFAULT = 2 * 4\n',
		"runtime/config_utils.py": """
            from pydantic import BaseModel, ConfigDict
            class DeepSpeedConfigModel(BaseModel):
                model_config = ConfigDict(extra="forbid")
            """,
		"runtime/part.py": """
            from enum import Enum
            from typing import Optional
            from pydantic import Field
            from deepspeed.runtime.config_utils import DeepSpeedConfigModel
            class Kind(str, Enum):
                a = "a"
                b = "b"
            class Part(DeepSpeedConfigModel):
                kind: Kind = "a"
                size: Optional[int] = Field(None, ge=1, alias="part_size")
            """,
		"runtime/config.py": """
            import copy
            from .constants import *
            from .part import Part
            def read_aio(param_dict):
                if AIO in param_dict.keys():
                    block = param_dict[AIO]
                else:
                    block = {}
                return block.get(DEPTH, DEPTH_DEFAULT)
            class DeepSpeedConfig:
                def __init__(self, config):
                    self._param_dict = config
                    self._initialize_params(copy.copy(self._param_dict))
                def _initialize_params(self, param_dict):
                    self.depth = read_aio(param_dict)
                    self.part = Part(**param_dict.get("part", {}))
                    self.kept = copy.copy(param_dict.get("kept", {}))
            """,
	}
	for name, text in files.items():
		path = tmp_path / name
		path.parent.mkdir(exist_ok=True)
		path.write_text(textwrap.dedent(text))
	package = Package(tmp_path)
	reads = trace(package)
	assert reads.keys == {("aio",): MISSING, ("aio", "depth"): 8, ("part",): {}, ("kept",): {}}
	assert reads.stored == {("kept",)}
	fields = {path: record for path, record, _ in Models(package).mounted(("part",), reads.models["part",]) if record}
	assert fields == {
		("part", "kind"): {"type": "enum", "choices": ["a", "b"], "default": "a"},
		("part", "part_size"): {"type": "int?", "default": None, "bounds": {"ge": 1}, "names": ["size"]},
	}
