"""Accelerators by name: spellings people use, TPU slices, and numbers as the vendors print them."""

import pytest

from distributed_training_backends.resources import load_json
from distributed_training_backends.triage.accelerators import find, find_slice, names, nearest_name, rows


def test_the_data_name_their_sources_and_no_device_twice() -> None:
	data = load_json("gpus.json")
	assert {row["source"] for row in rows()} == set(data["sources"])
	spellings = [name for row in rows() for name in (row["name"].lower(), *row["aliases"])]
	assert len(set(spellings)) == len(spellings)


def test_torch_sees_less_than_is_sold() -> None:
	for row in rows():
		assert row["memory_gb"] * 0.9 <= row["memory_gib"] <= row["memory_gb"], row["name"]


SPELLINGS = {
	"A100-80GB": ("NVIDIA A100-SXM4-80GB", "nvidia a100 80gb", "a100-80g"),
	"A100-40GB": ("A100 40 GB",),
	"H100-80GB": ("H100", "H100 SXM5"),
	"T4": ("Tesla T4",),
	"RTX-4090": ("NVIDIA GeForce RTX 4090", "rtx4090", "4090"),
	"RTX-A6000": ("RTX A6000",),
	"MI300X": ("AMD Instinct MI300X",),
	"Gaudi2": ("Gaudi 2",),
	"TPU-v5e": ("TPU v5e",),
}


@pytest.mark.parametrize(
	("spelling", "name"), [(each, name) for name in names() for each in (name, *SPELLINGS.get(name, ()))]
)
def test_spellings(spelling: str, name: str) -> None:
	assert getattr(find(spelling), "name", None) == name


@pytest.mark.parametrize(
	("name", "nodes", "per_node"),
	[
		("v5e-8", 1, 8),
		("tpu-v5e-1", 1, 1),
		("v5litepod-16", 4, 4),
		("v3-8", 1, 8),
		("v4-8", 1, 4),
		("v4-32", 4, 4),
		("v6e-8", 1, 8),
		("v3-32", 4, 8),
	],
)
def test_slices(name: str, nodes: int, per_node: int) -> None:
	found = find_slice(name)
	assert found is not None
	assert (found.nodes, found.per_node) == (nodes, per_node)


@pytest.mark.parametrize("name", ["v4-7", "v5e-0", "v5e-10", "v99-8", "A100-80GB", "v5e"])
def test_what_is_no_slice(name: str) -> None:
	assert find_slice(name) is None


def test_slips_are_recognised_and_nonsense_is_not() -> None:
	assert nearest_name("A10O-80GB") == "A100-80GB"
	assert nearest_name("RTX 40900") == "RTX-4090"
	assert nearest_name("toaster") is None
	assert find("A1000") is None


@pytest.mark.parametrize(
	("name", "tflops", "link"),
	[("A100-80GB", 312, 300), ("H100-80GB", 989, 450), ("L40S", 362, 25), ("MI300X", 1307, 448), ("T4", 65, 25)],
)
def test_rates_are_those_of_the_vendors(name: str, tflops: float, link: float) -> None:
	found = find(name)
	assert found is not None
	assert (found.tflops, found.link_gb_per_s) == (tflops, link)


@pytest.mark.parametrize(("name", "capability"), [("A100-80GB", 8.0), ("L4", 8.9), ("V100-32GB", 7.0)])
def test_fp8_and_bf16_follow_the_capability(name: str, capability: float) -> None:
	found = find(name)
	assert found is not None
	assert found.capability == capability
	assert (found.fp8_tflops is not None) == (capability >= 8.9)
	assert found.bf16 == (capability >= 8.0)
