"""What the command line says about rules: the list, one explanation, and the codes that may be selected."""

import json
from collections.abc import Sequence

from .cli_common import UsageError
from .model import RuleInfo


def rules_listing(rules: Sequence[RuleInfo], output_format: str) -> str:
	if output_format == "json":
		return json.dumps([_rule_data(rule) for rule in rules], indent=2) + "\n"
	names = max((len(rule.name) for rule in rules), default=0)
	weights = ["/".join(dict.fromkeys(severity for severity, _ in rule.severities)) for rule in rules]
	rows = zip(rules, weights, strict=True)
	return "".join(f"{rule.code}  {weight:<15}  {rule.name:<{names}}  {rule.summary}\n" for rule, weight in rows)


def _rule_data(rule: RuleInfo) -> dict[str, object]:
	severities = [{"severity": severity, "releases": releases} for severity, releases in rule.severities]
	return {**rule._asdict(), "severities": severities}


def find_code(text: str, rules: Sequence[RuleInfo]) -> str:
	for rule in rules:
		if text.upper() == rule.code or text.lower() == rule.name:
			return rule.code
	raise UsageError(f"there is no rule {text!r}{_suggestion(text, rules)}")


def selection(texts: Sequence[str], rules: Sequence[RuleInfo]) -> tuple[str, ...]:
	"""Read "FSD,DSP012" as prefixes of codes; one that fits no rule is a mistake worth telling."""
	prefixes = [word.strip().upper() for text in texts for word in text.split(",") if word.strip()]
	if texts and not prefixes:
		raise UsageError("--select and --ignore want codes, such as FSD or DSP012 (--list-rules)")
	for prefix in prefixes:
		if not any(rule.code.startswith(prefix) for rule in rules):
			raise UsageError(f"there is no rule {prefix!r}{_suggestion(prefix, rules)}")
	return tuple(prefixes)


def _suggestion(text: str, rules: Sequence[RuleInfo]) -> str:
	from difflib import get_close_matches

	known = [word for rule in rules for word in (rule.code, rule.name)]
	near = get_close_matches(text, known, 1) or get_close_matches(text.upper(), known, 1)
	families = ", ".join(sorted({rule.code[:3] for rule in rules}))
	return f"; did you mean {near[0]}?" if near else f"; codes start with {families} (--list-rules)"
