"""What is asked about conversions can fail, and does not."""

import pytest
from tests import gated
from tests.oracle import environment
from tests.oracle.cases import Case
from tests.oracle.conversions import Bench, round_trip
from tests.oracle.triage_checks import Libraries
from tests.test_convert import FSDP1, ZERO3, fsdp1

from distributed_training_backends.model_convert import ConvertReport

pytestmark = gated.oracle
CP = """\
distributed_type: FSDP
fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}
num_processes: 8
parallelism_config:
  parallelism_config_dp_shard_size: 2
  parallelism_config_cp_size: 4
  parallelism_config_cp_comm_strategy: alltoall
"""
FILES = {
	"cp": CP,
	"fsdp1": FSDP1,
	"fsdp2": fsdp1(fsdp_version=2, fsdp_offload_params=True, fsdp_ignored_modules=".*norm"),
	"zero3": ZERO3,
	"ddp": "distributed_type: MULTI_GPU\nmixed_precision: fp16\nnum_processes: 4\ndynamo_config: {backend: INDUCTOR}\n",
}


@pytest.fixture(scope="module")
def bench(libraries: Libraries) -> Bench:
	return Bench(libraries, environment.PINS["accelerate"])


@pytest.mark.parametrize("to", ["fsdp2", "fsdp", "deepspeed", "launch", "python", "trainer"])
@pytest.mark.parametrize("name", FILES)
def test_what_the_libraries_make_of_it(name: str, to: str, bench: Bench) -> None:
	assert bench.outcome(Case(name, "accelerate", FILES[name]), to).wrong == ()


@pytest.mark.parametrize("there", ["launch", "python"])
@pytest.mark.parametrize("name", FILES)
def test_there_and_back(name: str, there: str, bench: Bench) -> None:
	trip = round_trip(bench, Case(name, "accelerate", FILES[name]), there, "accelerate")
	assert trip is not None
	assert trip.wrong == ()


@pytest.mark.parametrize(
	("name", "to", "old", "new"),
	[
		("fsdp1", "fsdp2", "reshard_after_forward: true", "reshard_after_forward: false"),
		("fsdp1", "fsdp2", "fsdp_version: 2", "fsdp_version: 3"),
		("fsdp2", "launch", "--fsdp_offload_params true", "--fsdp_offload_params false"),
		("fsdp2", "launch", "FSDP_IGNORED_MODULES='.*norm' ", ""),
		("zero3", "launch", "--zero_stage 3", "--zero_stag 3"),
		("zero3", "python", "zero_stage=3", "zero_stage=2"),
		("fsdp1", "trainer", "BACKWARD_PRE", "BACKWARDS"),
	],
)
def test_what_is_wrong_is_found(name: str, to: str, old: str, new: str, bench: Bench) -> None:
	case = Case(name, "accelerate", FILES[name])
	report = bench.convert(case, to)
	assert isinstance(report, ConvertReport)
	assert old in report.text
	broken = report._replace(text=report.text.replace(old, new))
	assert list(bench.after(case, broken, bench.launched(case), to))
