"""What the doors call: validate files or texts, list and explain rules, look up. Nothing here prints or exits."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from os.path import dirname, exists, isdir, join
from typing import TYPE_CHECKING, Any, Literal

from . import validate
from .linking import Links, Reader, files_named, named_file
from .model import BadQueryError, Context, Kind, Report, RuleInfo, Targets
from .resources import load_json
from .rules import catalog
from .rules.registry import RULES, Rule
from .sources.detect import detect, named_like_ours
from .sources.document import Document
from .sources.limits import Unreadable
from .sources.load import load_all
from .sources.reading import Raw, decode, find_files, glimpse, read_path
from .validate import Options
from .versions import nearest, parse

if TYPE_CHECKING:
	from .model_convert import ConvertReport
	from .model_diagnose import DiagnoseReport
	from .model_lookup import LookupReport
	from .model_triage import TriageReport

__all__ = [
	"BadQueryError",
	"Context",
	"Options",
	"Targets",
	"about_targets",
	"convert_paths",
	"convert_text",
	"default_targets",
	"diagnose",
	"editor_schema",
	"explain",
	"facts_in",
	"look_up",
	"rules",
	"triage",
	"validate_paths",
	"validate_text",
	"validate_together",
]


@cache
def default_targets() -> Targets:
	"""The newest releases that the knowledge covers."""
	newest = load_json("targets.json")
	return Targets(*(newest[library] for library in Targets._fields))


def about_targets(targets: Targets) -> Iterator[str]:
	"""Say which releases are judged like another one, because they are not known here."""
	for library, release in targets.items():
		newest = default_targets().of(library)
		known = tuple(load_json(f"{library}.json")["releases"]) if release != newest and library != "torch" else ()
		oldest = min(known, key=parse, default=newest)
		if parse(release) > parse(newest):
			yield f"{library} {release} is newer than what is known here: judged like {newest}"
		elif known and parse(release) < parse(oldest):
			yield f"{library} {release} is older than what is known here: judged like {oldest}"
		elif known and library != "transformers" and parse(release) not in map(parse, known):
			yield f"{library} {release} is no release that is known here: judged like {nearest(release, known)}"


def validate_paths(
	paths: Sequence[str], options: Options, stdin: bytes | None = None, launch: str | None = None
) -> Report:
	"""Judge files as one run. "-" is the bytes given as `stdin`; directories are walked for files of our kinds.

	`launch` is the command that starts the run.
	"""
	sources = read_together(paths, stdin, launch, options.kind)
	if options.skip_unknown:
		sources = [one for one in sources if not (isinstance(one, Unreadable) and one.reason == "unknown-kind")]
	return judged(sources, options, read_file)


def validate_text(text: str, options: Options, path: str = "<text>", files: Mapping[str, str] | None = None) -> Report:
	"""Judge one text. `files` holds companions by the name under which the text refers to them; no file is read."""
	companions = files or {}

	def read(name: str) -> Raw | Unreadable | None:
		return from_text(name, companions[name]) if name in companions else None

	return judged(parsed(from_text(path, text), options.kind), options, read)


def validate_together(texts: Mapping[Kind | Literal["config"], str], options: Options) -> Report:
	"""Judge texts that belong to one run; no file is read. The text "config" is of the kind that it looks like.

	A DeepSpeed file goes by the name that another text gives it in `deepspeed_config_file`, if one does.
	"""
	main: list[Document | Unreadable] = []
	for kind, text in texts.items():
		if kind != "deepspeed":
			path = "<text>" if kind == "config" else f"<{kind}>"
			main += parsed(from_text(path, text), options.kind if kind == "config" else kind)
	return judged([*main, *beside(main, texts.get("deepspeed"))], options, lambda _: None)


def beside(main: Sequence[Document | Unreadable], deepspeed: str | None) -> Sequence[Document | Unreadable]:
	"""Parse the text of a DeepSpeed file under the name that one of the others gives it."""
	if deepspeed is None:
		return []
	names = (
		name for one in main if isinstance(one, Document) and (name := named_file(one) or next(files_named(one), ""))
	)
	return parsed(from_text(next(names, "<deepspeed>"), deepspeed), "deepspeed")


def from_text(path: str, text: str) -> Raw | Unreadable:
	"""Take a text as if it had come from a file, with the same limits."""
	return decode(text.encode("utf-8", "surrogatepass"), path)


def read_file(path: str) -> Raw | Unreadable | None:
	return read_path(path) if exists(path) else None


def read_together(
	paths: Sequence[str], stdin: bytes | None, launch: str | None, kind: Kind | None
) -> list[Document | Unreadable]:
	sources = [source for path in paths for source in read_all(path, stdin, kind)]
	return sources if launch is None else [*sources, *parsed(from_text("<launch>", launch), "launch")]


def read_all(path: str, stdin: bytes | None, kind: Kind | None) -> Iterator[Document | Unreadable]:
	"""Read one argument: standard input, a file, or every file below a directory that looks like one of our kinds.

	What a directory holds besides is passed over, and with a `kind` the files of other kinds too.
	"""
	if path == "-" and stdin is not None:
		yield from parsed(decode(stdin, "-"), kind)
	elif isdir(path):
		yield from read_below(path, kind)
	else:
		yield from parsed(read_path(path), kind)


def read_below(directory: str, kind: Kind | None) -> Iterator[Document | Unreadable]:
	"""Read the files below a directory; what cannot be judged is told where it looks like one of our kinds."""
	for found in find_files(directory):
		for one in [found] if isinstance(found, Unreadable) else parsed(read_path(found), None):
			if isinstance(one, Document):
				wanted = kind in (None, one.kind) and (one.kind != "python" or one.get("calls", 0) is not None)
			else:
				wanted = one is found or (one.reason != "unknown-kind" and seems_ours(one))
			if wanted:
				yield one


def seems_ours(unread: Unreadable) -> bool:
	"""Tell by its name, and by what can be made out of its first part, whether a file is a config of ours."""
	return named_like_ours(unread.path) or detect(None, glimpse(unread.path), unread.path) is not None


def parsed(raw: Raw | Unreadable, kind: Kind | None) -> Sequence[Document | Unreadable]:
	"""Parse what could be read: one document, or one for each block of a page."""
	return [raw] if isinstance(raw, Unreadable) else load_all(raw, kind)


def judged(sources: Sequence[Document | Unreadable], options: Options, read: Reader) -> Report:
	links = Links([source for source in sources if isinstance(source, Document)], read, from_text)
	units = list(links.units())
	unread = [*(one for one in sources if isinstance(one, Unreadable)), *links.unread]
	failed = [validate.unreadable(one) for one in dict.fromkeys(unread)]
	if options.check_imports and options.absent is None:
		options = options._replace(absent=absent_features())
	report = Report(options.targets, (*validate.judge(units, options), *failed))
	if options.effective or options.compare:
		from . import effects

		return effects.added(report, units, options, links.of_scripts())
	return report


def absent_features() -> frozenset[str]:
	"""The features of data/packages.json whose package this interpreter would not find; nothing is imported."""
	from . import installed

	features = load_json("packages.json")["features"]
	missing = set(installed.missing({record["module"] for record in features.values()}))
	return frozenset(name for name, record in features.items() if record["module"] in missing)


def editor_schema(kind: str, targets: Targets) -> dict[str, Any]:
	"""The JSON Schema of a kind for editors: accelerate, deepspeed or fsdp. Raises KeyError for another kind."""
	from . import schemas

	return schemas.schema(kind, targets)


def rules() -> Sequence[RuleInfo]:
	"""Every rule, by code."""
	catalog.load()
	return [described(RULES[code]) for code in sorted(RULES)]


def described(rule: Rule) -> RuleInfo:
	severities = tuple((severity.value, spans) for severity, spans in rule.severities)
	return RuleInfo(rule.code, rule.name, rule.summary, severities, rule.library, rule.page)


def explain(code: str) -> str | None:
	"""The documentation of a rule, or None for an unknown code."""
	catalog.load()
	rule = RULES.get(code.upper())
	return f"{rule.code} {rule.name}\n\n{rule.documentation}\n\nSee {rule.page}\n" if rule else None


def diagnose(
	log: str | Iterable[bytes] = "",
	symptoms: Sequence[str] = (),
	configs: Mapping[str, str] | None = None,
	launch: str = "",
	versions: str = "",
	targets: Targets | None = None,
) -> "DiagnoseReport":
	"""Find why a run failed: from its log (a text, or a stream of bytes), symptoms (SYMPTOMS, or words), and context.

	`configs` are texts by path, `launch` is the command line, `versions` what `accelerate env`, `ds_report`, `pip list`
	or torch's collect_env print. Releases that none of them names are taken from `targets`.
	"""
	from .diagnose import answer, circumstances, question, reading

	texts = pieces_of(log) if isinstance(log, str) else reading.decoded(log)
	told = circumstances.releases(versions)
	chosen = (targets or default_targets())._replace(**{name: told[name] for name in Targets._fields if name in told})
	report = judged_together(configs, chosen, circumstances.settings([launch])) if configs else None
	return answer.diagnose(question.Question(texts, chosen, tuple(symptoms), configs or {}, launch, versions, report))


def pieces_of(text: str, size: int = 1 << 16) -> Iterator[str]:
	"""Give a text in pieces, so that no second copy of a large one is made."""
	return (text[start : start + size] for start in range(0, len(text), size))


def judged_together(configs: Mapping[str, str], targets: Targets, launch: Mapping[str, str]) -> Report:
	count = launch.get("processes", "")
	context = Context(num_processes=int(count) if count.isdecimal() and int(count) else None)
	sources = [one for path, text in configs.items() for one in parsed(from_text(path, text), None)]
	return judged(sources, Options(targets=targets, context=context), lambda _: None)


def convert_paths(
	paths: Sequence[str],
	to: str,
	options: Options,
	stdin: bytes | None = None,
	launch: str | None = None,
	script: str = "",
) -> "ConvertReport":
	"""Say what files say in another way (model_convert.TARGETS); raises BadConversionError, which says why not."""
	return converted(read_together(paths, stdin, launch, options.kind), to, options, read_file, script)


def convert_text(
	text: str,
	to: str,
	options: Options,
	files: Mapping[str, str] | None = None,
	deepspeed: str | None = None,
	script: str = "",
) -> "ConvertReport":
	"""Say what a text says in another way; `files` as for `validate_text`, `deepspeed` as for `validate_together`."""
	sources = [*parsed(from_text("<text>", text), options.kind)]
	for path, given in (files or {}).items():
		sources += parsed(from_text(path, given), None)
	return converted([*sources, *beside(sources, deepspeed)], to, options, lambda _: None, script)


def converted(
	sources: Sequence[Document | Unreadable], to: str, options: Options, read: Reader, script: str
) -> "ConvertReport":
	"""Convert what the validator accepts, and have it judge the result."""
	from .convert import run

	options = options._replace(fixes=False)
	report = judged(sources, options, read)
	documents = [source for source in sources if isinstance(source, Document)]
	if report.exit_code:
		return run.refused(report, documents, to)
	given = run.main_of(documents)
	main, links = given.main, Links(documents, read, from_text)
	if main.kind == "launch" and main.get("launcher") == "accelerate":
		given = run.with_config(given, *links.config(main))

	def find(hub: Document) -> Document | None:
		found = links.companion(hub)
		given_too = (one for one in documents if one.kind == "deepspeed" and one is not main)
		return found or next(given_too, None)

	done, made, trainer = run.convert(given, find, to, options, script)
	others = [document for document in documents if document is not main]
	if trainer and done.result == "python":  # what fills in the DeepSpeed file is gone
		alone = options._replace(context=options.context._replace(consumer="accelerate"))
		done = run.checked(done, report, judged([made] if made else [], alone, read))
	elif done.result in ("accelerate", "trainer"):
		options = options._replace(ignore=(*options.ignore, "DSP023")) if trainer else options
		path = main.path if done.same_format else join(dirname(main.path), "converted.yaml")
		kind: Kind = "trainer" if done.result == "trainer" else "accelerate"
		again = [made] if made else parsed(from_text(path, done.text), kind)
		done = run.checked(done, report, judged([*again, *others], options, read))
	return done


def look_up(
	query: str,
	detail: Literal["concise", "full"] = "concise",
	limit: int = 5,
	offset: int = 0,
	targets: Targets | None = None,
) -> "LookupReport":
	"""Find the sections of the reference that answer a question; raises BadQueryError, which says why, in one line."""
	from .lookup import search  # needs markdown-it-py, which validating does not

	return search.look_up(query, targets or default_targets(), detail, limit, offset)


def triage(facts: Mapping[str, Any], offered: int = 3, names: Container[str] = ()) -> "TriageReport":
	"""Choose a backend for these facts (data/schemas/facts.schema.json.gz); raises BadFactsError, which names them.

	So many candidates that may fit, the best of each backend first, and those named come with their files.
	"""
	from .triage import answer, report  # which validating does not need

	asked = answer.question(facts)
	made = report.report(asked, answer.answer(asked), offered, names)
	return made._replace(notes=(*made.notes, *about_targets(made.targets)))


def facts_in(text: str) -> dict[str, Any]:
	"""Read facts from YAML or JSON; raises BadFactsError."""
	from .triage import fact_text

	return fact_text.facts_in(text)
