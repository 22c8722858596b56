"""The fields of a plugin in the worker: an argument in Python, else a variable, else what the class has by itself.

Which variable a field takes says the knowledge (`accelerate_api.sources`); what a text becomes says its type, or
data/effective.json where the class does more.
"""

from collections.abc import Mapping
from typing import Any

from ..knowledge import accelerate as knowledge
from ..knowledge import accelerate_api as api
from ..model_effective import Setting
from .arguments import FALSE, TRUE
from .effect import number
from .effective_run import Call, Run

Fields = dict[str, Setting]
Variables = Mapping[str, Setting]
ARGUMENT_WINS = "an argument in Python counts more"
VARIABLE_WINS = "the variable counts more than the argument in Python"


def fields(run: Run, variables: Variables, owner: str, title: str) -> Fields:
	"""All fields of a class as its constructor leaves them, before it checks one against another."""
	release = run.release
	sources, call = api.sources(owner, release), run.calls.get(owner)
	found: Fields = {}
	for name, parameter in api.parameters(owner, release).items():
		source = sources.get(name)
		default = parameter.default if source is None or not source.known else source.otherwise
		names = source.variables if source else more_variables(run, f"{owner}.{name}")
		variable = read(run, variables, names, f"{owner}.{name}", parameter.type)
		argument = call.arguments.get(name) if call else None
		default = [default] * len(names) if len(names) > 1 else shaped(run, f"{owner}.{name}", parameter.type, default)
		winner = chosen(variable, argument, Setting("", default), wins(run, owner, name))
		found[name] = unsure(call, argument, winner._replace(name=f"{title}.{name}"))
	for name, setting in found.items():
		if setting.argued:
			found[name] = setting.becomes(shaped(run, f"{owner}.{name}", "text", setting.value))
	unread(run, owner, found, call.arguments if call else {})
	return found


def unsure(call: Call | None, argument: Setting | None, found: Setting) -> Setting:
	"""Open, where the call has arguments that cannot be told, and this may be one of them."""
	if call is None or not call.open or argument is not None or found.state == "open":
		return found
	return found._replace(
		value=f"{found.value}, unless the call at {call.place and call.place.line} sets it", state="open"
	)


def more_variables(run: Run, field: str) -> tuple[str, ...]:
	spans = run.table("more_variables").get(field, {})
	return tuple(name for span, names in spans.items() if run.covers(span) for name in names)


def wins(run: Run, owner: str, name: str) -> bool:
	spans = run.table("variable_wins").get(owner, {})
	return any(run.covers(span) and name in names for span, names in spans.items())


def chosen(variable: Setting | None, argument: Setting | None, default: Setting, variable_wins: bool) -> Setting:
	given = argument if argument is not None and argument.value is not None else None
	best = default if variable is None else variable
	if given is None:
		return best
	if variable_wins:
		return best._replace(losers=best.losers + given.beaten(VARIABLE_WINS))
	return given if variable is None else given._replace(losers=given.losers + variable.beaten(ARGUMENT_WINS))


def read(run: Run, variables: Variables, names: tuple[str, ...], field: str, kind: str) -> Setting | None:
	"""What the variables of a field give it; three of them make a tuple. None where none is set."""
	given = [variables.get(name) for name in names]
	first = next((one for one in given if one is not None), None)
	if first is None or len(names) == 1:
		return first and first.becomes(shaped(run, field, kind, first.value))
	return first.becomes([False if one is None else shaped(run, "", "bool", one.value) for one in given])


def shaped(run: Run, field: str, kind: str, value: Any) -> Any:
	"""A value as the class turns it; what it would refuse stays as it is."""
	how = run.table("forms").get(field, kind)
	if how == "msamp":
		return value == "MSAMP"
	if how.startswith("FSDP_"):
		return member(knowledge.for_release(run.release).constant(how), value)
	if not isinstance(value, str):
		return value
	if how == "count":
		return number(value)
	if how == "true":
		return value.lower() == "true"
	return value.rpartition(".")[2].upper() if how == "upper" else typed(how, value)


def typed(kind: str, value: Any) -> Any:
	if isinstance(value, str) and "bool" in kind:
		word = value.lower()
		return True if word in TRUE else False if word in FALSE else value
	if isinstance(value, str) and ("int" in kind or "float" in kind):
		known = number(value)
		return float(known) if "float" in kind and isinstance(known, int) else known
	return value


def member(names: list[str] | None, value: Any) -> Any:
	text = value.rpartition(".")[2].upper() if isinstance(value, str) else value
	place = int(text) if isinstance(text, int) or (isinstance(text, str) and text.isdecimal()) else 0
	if names and 0 < place <= len(names):
		text = names[place - 1]
	return None if text == "NO_PREFETCH" else text


def unread(run: Run, owner: str, found: Fields, arguments: Variables) -> None:
	"""Empty the fields whose variable the class does not look at, given what another field is."""
	for span, rules in run.table("not_read").get(owner, {}).items():
		for condition, names in rules.items() if run.covers(span) else ():
			for name in names if holds(condition, found) else ():
				if name in found and not (name in arguments and found[name].argued):
					reason = f"not read with {condition}" if condition else "read by the class only in later releases"
					found[name] = Setting(found[name].name, None, losers=found[name].beaten(reason))
	for condition, names in run.table("dropped").get(owner, {}).items():
		for name in names if holds(condition, found) else ():
			if name in found and found[name].value is not None:
				beaten = found[name].beaten(f"dropped with {condition}")
				found[name] = Setting(found[name].name, None, "accelerate", losers=beaten, state="set")


def holds(condition: str, found: Fields) -> bool:
	"""Tell whether `field=value` holds; the value without a field's stands for always."""
	name, _, value = condition.partition("=")
	return not condition or (name in found and str(found[name].value) == value)
