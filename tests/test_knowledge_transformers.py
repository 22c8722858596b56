"""What the knowledge says of Transformers, against the source of the releases that are named.

The arguments of 5.24.0 were compared in full with `dataclasses.fields(TrainingArguments)` of the real library.
"""

from tests.tables import packed_table, table

from distributed_training_backends.knowledge import transformers

at = transformers.for_release
NEWEST = at("5.24.0")


@packed_table("knowledge_transformers.the_keys_of_fsdp_config")
def test_the_keys_of_fsdp_config(release: str, read: list[str], not_read: list[str]) -> None:
	keys = at(release).fsdp_keys
	assert set(read) <= keys.keys()
	assert not keys.keys() & set(not_read)


def test_defaults_that_depend_on_the_fsdp_version() -> None:
	assert NEWEST.fsdp_default_version == 2
	assert at("5.9.0").fsdp_default_version == 1
	assert at("4.57.6").fsdp_default_version == 1
	assert NEWEST.fsdp_keys["reshard_after_forward"].default_by_version == {"1": "full_shard", "2": True}
	assert NEWEST.fsdp_keys["auto_wrap_policy"].default == "TRANSFORMER_BASED_WRAP"
	assert NEWEST.fsdp_keys["use_orig_params"].only_version == 1
	assert at("4.57.6").fsdp_keys["use_orig_params"].only_version is None
	assert NEWEST.fsdp_keys["cpu_ram_efficient_loading"].only_version is None


def test_who_reads_a_key() -> None:
	assert at("4.46.3").fsdp_keys["limit_all_gathers"].readers == ("trainer",)
	assert NEWEST.fsdp_keys["limit_all_gathers"].readers == ("training_args",)
	assert NEWEST.fsdp_keys["xla_fsdp_grad_ckpt"].readers == ("tpu", "training_args")


def test_the_prefix_of_keys() -> None:
	assert at("4.51.3").strips_prefix == "in files"
	assert at("4.52.4").strips_prefix == "always"


def test_the_words_of_the_fsdp_argument() -> None:
	assert set(NEWEST.enum("FSDPOption")) == {
		"full_shard",
		"shard_grad_op",
		"no_shard",
		"hybrid_shard",
		"hybrid_shard_zero2",
		"offload",
		"auto_wrap",
	}


def test_arguments_come_and_go() -> None:
	assert len(NEWEST.training_arguments) == 114
	assert NEWEST.training_arguments["gradient_accumulation_steps"].default == 1
	assert NEWEST.training_arguments["fsdp"].default is None
	assert at("4.56.2").training_arguments["fsdp"].default == ""
	assert transformers.spans("training_arguments", "tp_size") == [("4.50", "4.51")]
	assert transformers.spans("training_arguments", "fsdp_min_num_params") == [("4.40", "4.57")]
	assert at("4.46.3").training_arguments["output_dir"].required
	assert "use_configured_state" in NEWEST.accelerator_config


def test_bits_and_bytes() -> None:
	assert len(NEWEST.bits_and_bytes) == 10
	assert NEWEST.bits_and_bytes["llm_int8_threshold"].instance == ("float",)
	assert "uint8" in NEWEST.bits_and_bytes["bnb_4bit_quant_storage"].allowed
	assert "str" in NEWEST.bits_and_bytes["bnb_4bit_compute_dtype"].instance


def test_the_accelerate_that_it_needs() -> None:
	assert NEWEST.needs["accelerate"] == "1.1.0"
	assert at("4.46.3").needs["accelerate"] == "0.26.0"


@table("""asked, applies
4.56.0, '4.56'
4.57.6, '4.57'
4.30.0, '4.40'
5.25.0.dev0, '5.24'
5.0.0rc1, '5.0'""")
def test_the_minor_version_that_applies(asked: str, applies: str) -> None:
	assert transformers.nearest(asked) == applies
