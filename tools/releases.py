"""Archives of the releases that the knowledge covers, each pinned by version and the first 128 bits of its sha256.

    python tools/releases.py accelerate 1.15.0 path/to/accelerate-1.15.0-py3-none-any.whl

This adds one to the table, ``tools/releases.json.gz``. Nothing that is fetched runs here: archives are checked against
the table, unpacked file by file and read as text. (``pip download`` would run a source archive's ``setup.py``.)
"""

import argparse
import hashlib
import html
import json
import os
import re
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import packed
from extraction import dump, release_order

TABLE = Path(__file__).with_name("releases.json.gz")
WHEEL, SOURCE = "{}-{}-py3-none-any.whl", "{}-{}.tar.gz"
ARCHIVES = {"accelerate": WHEEL, "deepspeed": SOURCE, "transformers": WHEEL}
ATTEMPTS = 4
# Kernels and their headers are most of a DeepSpeed archive, and nobody here compiles them.
TEXT_SUFFIXES = {".py", ".json", ".txt", ".yaml", ".j2", ".in", ""}


class ReleaseError(Exception):
	"""A release is not in the table, cannot be fetched, or is not what the table says."""


def table(path: Path = TABLE) -> dict[str, dict[str, str]]:
	"""The digest of every pinned release, oldest first, by package and version."""
	rows: dict[str, dict[str, str]] = json.loads(packed.unpacked(path))
	return rows


def file_of(package: str, version: str) -> str:
	return ARCHIVES[package].format(package, version)


def known(package: str) -> list[str]:
	return list(table()[package])


def fetch(package: str, release: str, cache_dir: Path) -> Path:
	"""The verified archive of a release, downloaded into ``cache_dir/archives`` unless it is there."""
	pinned = table()[package].get(release)
	if pinned is None:
		raise ReleaseError(f"{package} {release} is not in {TABLE.name}")
	archive = cache_dir / "archives" / file_of(package, release)
	if archive.is_file() and digest(archive.read_bytes()) == pinned:
		return archive
	archive.parent.mkdir(parents=True, exist_ok=True)
	data = download(archive_url(package, archive.name))
	if (got := digest(data)) != pinned:
		raise ReleaseError(f"{archive.name}: sha256 begins with {got}, {TABLE.name} says {pinned}")
	write_atomically(archive, data)
	return archive


def source_tree(package: str, release: str, cache_dir: Path) -> Path:
	"""The folder that holds the unpacked package of a release: what goes on ``sys.path`` to import it."""
	target = cache_dir / "sources" / package / release
	if target.is_dir():
		return target
	archive = fetch(package, release, cache_dir)
	target.parent.mkdir(parents=True, exist_ok=True)
	with tempfile.TemporaryDirectory(dir=target.parent) as staging:
		unpacked = Path(staging) / release
		for name, data in members(archive, package):
			file = unpacked / name
			file.parent.mkdir(parents=True, exist_ok=True)
			file.write_bytes(data)
		if not (unpacked / package / "__init__.py").is_file():
			raise ReleaseError(f"{archive.name} holds no package {package}")
		try:
			unpacked.rename(target)
		except OSError:
			if not target.is_dir():  # else another process was quicker, with the same content
				raise
	return target


# --- archives ---


def digest(data: bytes) -> str:
	return hashlib.sha256(data).hexdigest()[:32]


def write_atomically(target: Path, data: bytes) -> None:
	handle, name = tempfile.mkstemp(dir=target.parent)
	with os.fdopen(handle, "wb") as out:
		out.write(data)
	Path(name).replace(target)


def members(archive: Path, package: str) -> Iterator[tuple[PurePosixPath, bytes]]:
	"""The text files of an archive that belong to the package or its metadata, under their import paths."""
	for name, data in wheel_files(archive) if archive.suffix == ".whl" else sdist_files(archive):
		path = PurePosixPath(name)
		if path.is_absolute() or ".." in path.parts or "\\" in name:
			raise ReleaseError(f"{archive.name} holds an unsafe path: {name}")
		wanted = path.parts[:1] == (package,) or ".dist-info" in path.parts[0]
		if wanted and path.suffix in TEXT_SUFFIXES:
			yield path, data


def wheel_files(archive: Path) -> Iterator[tuple[str, bytes]]:
	with zipfile.ZipFile(archive) as wheel:
		for info in wheel.infolist():
			if not info.is_dir():
				yield info.filename, wheel.read(info)


def sdist_files(archive: Path) -> Iterator[tuple[str, bytes]]:
	with tarfile.open(archive) as sdist:
		for info in sdist:
			_, _, name = info.name.partition("/")
			stream = sdist.extractfile(info) if info.isfile() and name else None
			if stream is not None:
				yield name, stream.read()


# --- the index that pip uses ---


def pip_settings() -> dict[str, str]:
	listed = subprocess.run(
		[sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
	)
	if listed.returncode:
		raise ReleaseError(f"fetching needs pip in this interpreter: {listed.stderr.strip()}")
	found = sorted(
		re.findall(r"^(\S+)\.([\w-]+)='(.*)'$", listed.stdout, re.MULTILINE), key=lambda row: row[0] == ":env:"
	)
	return {name: value for _, name, value in found}


def index_url() -> str:
	configured = pip_settings().get("index-url")
	if configured:
		return configured.rstrip("/")
	from pip._internal.models.index import PyPI  # the index that pip falls back to

	return str(PyPI.simple_url).rstrip("/")


def archive_url(package: str, file: str) -> str:
	page_url = f"{index_url()}/{package}/"
	page = download(page_url).decode("utf-8", "replace")
	for address in re.findall(r'href="([^"]+)"', page):
		target = urllib.parse.urljoin(page_url, html.unescape(address))
		if PurePosixPath(urllib.parse.urlsplit(target).path).name == file:
			return target.partition("#")[0]
	raise ReleaseError(f"the package index lists no {file}")


def download(url: str) -> bytes:
	request = urllib.request.Request(url, headers={"Accept": "text/html, */*;q=0.1"})
	context = ssl.create_default_context(cafile=pip_settings().get("cert"))
	for attempt in range(ATTEMPTS):
		try:
			with urllib.request.urlopen(request, timeout=120, context=context) as answer:
				return bytes(answer.read())
		except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
			if attempt + 1 == ATTEMPTS or getattr(error, "code", 500) in (403, 404):
				raise ReleaseError(f"cannot download {PurePosixPath(url).name}: {error}") from error
			time.sleep(2**attempt)
	raise AssertionError("unreachable")


# --- maintenance of the table ---


def pin(package: str, version: str, archive: Path, path: Path = TABLE) -> None:
	"""Add a release to the table (or correct it), keeping one line for each release, oldest first."""
	rows = table(path)
	if archive.name != (wanted := file_of(package, version)):
		raise ReleaseError(f"{archive.name} is not {wanted}")
	of = {**rows.get(package, {}), version: digest(archive.read_bytes())}
	rows[package] = {name: of[name] for name in sorted(of, key=release_order)}
	packed.pack(path, dump(rows))


def main() -> int:
	parser = argparse.ArgumentParser(description="Add a release to those that the knowledge covers.")
	parser.add_argument("package", choices=sorted(ARCHIVES))
	parser.add_argument("version")
	parser.add_argument("archive", type=Path)
	options = parser.parse_args()
	try:
		pin(options.package, options.version, options.archive)
	except ReleaseError as error:
		print(error, file=sys.stderr)
		return 2
	return 0


if __name__ == "__main__":
	sys.exit(main())
