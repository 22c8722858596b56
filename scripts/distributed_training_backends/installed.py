"""What the running interpreter has installed, read from metadata and search paths: nothing is imported."""

from collections.abc import Iterable


def releases(distributions: Iterable[str]) -> dict[str, str | None]:
	return {name: release_of(name) for name in distributions}


def release_of(distribution: str) -> str | None:
	from importlib import metadata  # slow, and only some calls need it

	try:
		return metadata.version(distribution)
	except metadata.PackageNotFoundError:
		return None


def missing(packages: Iterable[str]) -> list[str]:
	return [name for name in packages if not is_importable(name)]


def is_importable(package: str) -> bool:
	"""Whether a top-level package would be found.

	A folder without code counts as missing: it is a namespace package at best, and often a checkout or a folder of
	configs that is called like the library.
	"""
	from importlib.util import find_spec

	try:
		spec = find_spec(package.partition(".")[0])
	except (ImportError, ValueError):
		return False
	return spec is not None and spec.origin is not None
