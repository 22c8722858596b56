"""The real libraries for the tests of a module, in the releases that are pinned or in those that a test asks for."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.oracle import environment
from tests.oracle.client import Oracle
from tests.oracle.environment import PINS
from tests.oracle.triage_checks import Libraries


@pytest.fixture(scope="module")
def libraries() -> Iterator[Libraries]:
	with ExitStack() as stack:
		yield Libraries(environment.default(), stack)


@pytest.fixture
def accelerate(libraries: Libraries) -> Oracle:
	return libraries.oracle("accelerate", PINS["accelerate"])


@pytest.fixture
def deepspeed(libraries: Libraries) -> Oracle:
	return libraries.oracle("deepspeed", PINS["deepspeed"])


@pytest.fixture
def snippets(libraries: Libraries) -> Oracle:
	return libraries.oracle("snippets", PINS["accelerate"])
