"""The tables: each has a schema, which it fits."""

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from distributed_training_backends.resources import DATA, load_json

SCHEMAS = load_json("table_schemas.json")
TABLES = sorted(path.name.split(".")[0] for path in Path(DATA).glob("*.json*"))


def test_every_table_has_a_schema() -> None:
	assert {*TABLES} - {"table_schemas", "targets"} == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_table_fits_its_schema(name: str) -> None:
	Draft202012Validator.check_schema(SCHEMAS[name])
	Draft202012Validator(SCHEMAS[name]).validate(load_json(f"{name}.json"))
