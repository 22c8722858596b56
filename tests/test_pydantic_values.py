"""Which JSON values pydantic takes, and what it makes of them, against what pydantic itself did.

`TAKEN`, from tests/cases/pydantic_values.json.gz, was printed by pydantic 1.10.27 (generation 1) and 2.14.4
(generation 2): each value was given to a model with one field of the type, as a Python value and in lax mode. What is
not listed was refused. `a -> b`: the field then held b. Where the package is installed the last test asks it again,
with drawn values.
"""

import enum
import json
import pathlib
import random
import re
from functools import partial
from typing import Any, Literal, Optional, Union

import pytest
from tests.tables import packed_table, table

import packed
from distributed_training_backends.knowledge import pydantic_values
from distributed_training_backends.knowledge.deepspeed import Key
from distributed_training_backends.knowledge.pydantic_values import RefusedError, convert

CASES = pathlib.Path(__file__).parent / "cases"
STAGES = (0, 1, 2, 3)
DEVICES = ("none", "cpu", "nvme")
PASSES = ("z1", "z3")

VALUES: list[Any] = json.loads(
	r"""[
    null, true, false, 0, 1, 2, 3, 4, -1, 7, 10000000000000000000, 9223372036854775808, -0.0, 0.0, 1.0, 2.0,
    3.0, 1.5, -2.0, 0.9, 1000000000.0, 500000000.0, 1e+18, 1e+19, NaN, Infinity, "", "0", "1", "2", "3",
    " 2 ", "02", "2.0", "2.00", "2.", "+3", "-1", "1_000", "1__0", "1e5", "5e8", ".5", "0.5", "inf", "nan",
    "-Infinity", "0x10", "\uff11", "true", "True", "TRUE", " true", "false", "no", "Yes", "on", "off", "t", "F",
    "y", "none", "cpu", "CPU", "nvme", "gpu", "auto", "z1", "z3", "/local_nvme", [], ["cpu"], ["z1", "z3"],
    ["z1", 1], [1, 2], [["a", 1]], {}, {"device": "cpu"}]"""
)

TAKEN = {
	(generation, kind, tuple(choices)): text
	for generation, kind, choices, text in json.loads(packed.unpacked(CASES / "pydantic_values.json.gz"))
}


Setting = partial(Key, "a.key", read="model", default="the default")


def exact(value: Any) -> str:
	"""Text that tells 1, 1.0 and true apart, and in which NaN equals itself."""
	return json.dumps(value)


def pairs(text: str) -> dict[str, str]:
	"""`1 -> true, 2` as a mapping of what was written to what it became."""
	decoder, rest = json.JSONDecoder(), text.strip()
	found: dict[str, str] = {}
	while rest:
		value, end = decoder.raw_decode(rest)
		rest = rest[end:].lstrip()
		became = value
		if rest.startswith("->"):
			rest = rest[2:].lstrip()
			became, end = decoder.raw_decode(rest)
			rest = rest[end:].lstrip()
		found[exact(value)] = exact(became)
		rest = rest.removeprefix(",").lstrip()
	return found


def outcome(value: Any, kind: str, choices: tuple[Any, ...], generation: int) -> str | None:
	try:
		return exact(convert(value, kind, choices, generation))
	except RefusedError:
		return None


ROWS = [
	(generation, kind, choices)
	for key_generation, kind, choices in TAKEN
	for generation in ((key_generation,) if key_generation else (1, 2))
]


@pytest.mark.parametrize(("generation", "kind", "choices"), ROWS)
def test_values_are_taken_as_pydantic_takes_them(generation: int, kind: str, choices: tuple[Any, ...]) -> None:
	expected = pairs(TAKEN.get((generation, kind, choices)) or TAKEN[0, kind, choices])
	assert len(VALUES) >= 60
	got = {exact(value): outcome(value, kind, choices, generation) for value in VALUES}
	assert {value: became for value, became in got.items() if became is not None} == expected


def test_optional_types_also_take_null() -> None:
	for kind in ("int", "path", "model"):
		assert outcome(None, kind, (), 2) is None
		assert outcome(None, f"{kind}?", (), 2) == "null"


@table("""value, generation, taken
{}, 1, yes
{}, 2, yes
[], 1, yes
[], 2, no
'', 1, yes
'', 2, no
yes, 1, no""")
def test_a_nested_model_takes_what_dict_takes(value: Any, generation: int, taken: bool) -> None:
	# DeepSpeedZeroConfig(offload_param=…) of 0.14.5 and 0.19.8
	assert (outcome(value, "model?", (), generation) is not None) == taken


@packed_table("pydantic_values.limits_hold_for_the_converted_value")
def test_limits_hold_for_the_converted_value(value: Any, bounds: dict[str, float], problem: str | None) -> None:
	# reduce_bucket_size, offload_optimizer.ratio and zenflow.topk_ratio of DeepSpeed 0.19.8
	kind = "float" if isinstance(value, float) else "int"
	setting = Setting(kind, bounds=bounds)
	assert pydantic_values.problem(value, setting, 2) == problem


def test_models_drop_auto_so_that_the_default_takes_effect() -> None:
	assert pydantic_values.problem("auto", Setting("int"), 2) is None
	assert pydantic_values.effective("auto", Setting("int"), 2) == "the default"
	# CommsLoggerConfig was a model of its own before 0.15.0
	assert pydantic_values.problem("auto", Setting("bool", keeps_auto=True), 1) == "should be true or false"


@packed_table("pydantic_values.plain_reads_refuse_what_breaks_them")
def test_plain_reads_refuse_what_breaks_them(
	accepts: str, choices: tuple[Any, ...], taken: list[Any], refused: list[Any]
) -> None:
	# DeepSpeedConfig of 0.19.8 was given each of these values
	setting = Setting(read="dict", accepts=accepts, choices=choices)
	assert [value for value in taken if pydantic_values.problem(value, setting, 2)] == []
	assert [value for value in refused if not pydantic_values.problem(value, setting, 2)] == []


def test_validators_that_run_before_the_type() -> None:
	# DeepSpeedFP16Config and ZenFlowConfig of 0.19.8
	scale, window = Setting("float", accepts="loss-scale"), Setting("int", accepts="scale-integer")
	interval = Setting("str|int", accepts="auto-or-int")
	refused: list[Any] = [True, -1, "x", float("inf"), None, []]
	assert [value for value in refused if not pydantic_values.problem(value, scale, 2)] == []
	assert pydantic_values.effective("128", scale, 2) == 128.0
	refused = [True, 1.5, float("nan"), "x"]
	assert [value for value in refused if not pydantic_values.problem(value, window, 2)] == []
	assert pydantic_values.problem(1000, window, 2) is None
	assert pydantic_values.problem("auto", interval, 2) is None
	assert pydantic_values.problem(4, interval, 2) is None
	assert pydantic_values.problem("4", interval, 2)


class Stage(int, enum.Enum):
	disabled = 0
	optimizer_states = 1
	gradients = 2
	weights = 3


class Device(str, enum.Enum):
	none = "none"
	cpu = "cpu"
	nvme = "nvme"


ANNOTATIONS: list[tuple[str, tuple[Any, ...], Any]] = [
	("int", (), int),
	("float", (), float),
	("bool", (), bool),
	("str", (), str),
	("path", (), pathlib.Path),
	("dict", (), dict[str, Any]),
	("list[str]", (), list[str]),
	("tuple?", (), Optional[tuple]),  # noqa: UP045 - what DeepSpeed writes
	("enum", STAGES, Stage),
	("enum", DEVICES, Device),
	("list[literal]?", PASSES, Optional[list[Literal["z1", "z3"]]]),  # noqa: UP045
	("str|int", (), Union[str, int]),  # noqa: UP007
]


def drawn(source: random.Random, depth: int = 0) -> Any:
	"""A JSON value of the odd kind: number-like texts, floats at the edge of integers, words."""
	number = str(source.randint(0, 10 ** source.randint(0, 20)))
	match source.randrange(8 if depth < 2 else 6):
		case 0:
			return source.choice(["", "+", "-", " "]) + number + source.choice(["", ".0", ".5", "e3", " ", "."])
		case 1:
			return source.choice(["true", "No", "T", "cpu", "CPU", "auto", "z1", "inf", "NaN", "1_0", "/nvme", ""])
		case 2:
			return "".join(source.choice("0123456789+-.eExtrue ") for _ in range(source.randint(0, 5)))
		case 3:
			return source.choice([0.0, 1.0, 1.5, 3.0, -2.0, 1e9, 9.2e18, 9.3e18, 1e300, float("nan"), float("inf")])
		case 4:
			return source.choice([None, True, False, 2**63, 10**400])
		case 5:
			return source.randint(-3, 5)
		case 6:
			return [drawn(source, depth + 1) for _ in range(source.randint(0, 2))]
		case _:
			return {str(source.randint(0, 3)): drawn(source, depth + 1)}


def test_drawn_values_against_pydantic_itself() -> None:
	pydantic = pytest.importorskip("pydantic", minversion="2.0")
	source = random.Random(20260730)
	values = [value for value in (drawn(source) for _ in range(4000)) if not has_zero_groups(value)]
	config = pydantic.ConfigDict(use_enum_values=True)
	for kind, choices, annotation in ANNOTATIONS:
		model = pydantic.create_model("Model", __config__=config, field=(annotation, ...))
		for value in values:
			try:
				real = exact(unpacked(model(field=value).field))
			except pydantic.ValidationError:
				real = None
			got = outcome(value, kind, choices, 2)
			same = (got is None) == (real is None) if kind == "path" else got == real  # a path is left as it stands
			assert same, (kind, value, got, real)


def has_zero_groups(value: Any) -> bool:
	return bool(re.search(r"0_", json.dumps(value)))


def unpacked(value: Any) -> Any:
	if isinstance(value, pathlib.Path):
		return str(value)
	return list(value) if isinstance(value, tuple) else value
