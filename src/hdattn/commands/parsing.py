"""Commands that report every problem of their command line at once, one line each."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from functools import partial

import click
from click.core import ParameterSource

from hdattn.errors import UserError

_PROBLEMS = "hdattn.problems"


class _Collecting(click.Parameter):
    """A parameter whose bad value does not hide the problems of the others."""

    def handle_parse_result(self, ctx, opts, args):
        """Note a bad or missing value for :class:`Command`, and go on."""
        try:
            return super().handle_parse_result(ctx, opts, args)
        except click.UsageError as error:
            ctx.meta.setdefault(_PROBLEMS, []).append(usage_line(error))
            return None, args


class Option(_Collecting, click.Option):
    """Option of a :class:`Command`."""


class Argument(_Collecting, click.Argument):
    """Argument of a :class:`Command`."""


option = partial(click.option, cls=Option, show_default=True)
argument = partial(click.argument, cls=Argument)


class Command(click.Command):
    """Command that reports all problems of its command line together (``UserError``)."""

    def parse_args(self, ctx, args):
        """Parse everything, then raise one ``UserError`` with a line per problem."""
        ctx.allow_extra_args = ctx.ignore_unknown_options = True
        rest = super().parse_args(ctx, args)
        problems = self._unknown(ctx, rest) + ctx.meta.pop(_PROBLEMS, [])
        if problems:
            raise UserError("\n".join(problems))
        return rest

    def _unknown(self, ctx: click.Context, rest: list[str]) -> list[str]:
        names = [arg.split("=")[0] for arg in rest if arg.startswith("-")]
        if names:
            return [f"{name}: no such option; {self._remedy(ctx, name)}" for name in names]
        if rest:
            return [f"{' '.join(rest)!r} belongs to no option; see '{ctx.command_path} --help'"]
        return []

    def _remedy(self, ctx: click.Context, name: str) -> str:
        # without the dashes, which all options have in common
        known = {known.strip("-"): known for param in self.get_params(ctx) for known in param.opts}
        near = difflib.get_close_matches(name.strip("-"), known, n=1)
        hint = f"did you mean {known[near[0]]}? " if near else ""
        return f"{hint}see '{ctx.command_path} --help'"


def usage_line(error: click.UsageError) -> str:
    """One line: which option or argument, what is wrong with it, and the remedy."""
    message = " ".join(error.message.split())
    where = error.ctx.command_path if error.ctx else "hdattn"
    param = getattr(error, "param", None)
    if param is None:
        near = getattr(error, "possibilities", None)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"{message.rstrip('.')}; {hint}see '{where} --help'"
    name = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
    if isinstance(error, click.MissingParameter):
        return f"{name}: missing; give a value, see '{where} --help'"
    return f"{name}: {message}"


def given(*names: str) -> list[str]:
    """Those of the parameters ``names`` that the command line holds."""
    ctx = click.get_current_context()
    return [name for name in names if ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE]


def unwanted(names: Iterable[str], because: str) -> list[str]:
    """A problem for each option of ``names`` that the command line holds."""
    return [f"{flag(name)}: {because}; leave it out" for name in given(*names)]


def missing(names: Iterable[str], because: str) -> list[str]:
    """A problem for each option of ``names`` that the command line lacks."""
    names = list(names)
    return [f"{flag(name)}: missing; {because}" for name in names if name not in given(*names)]


def refuse(problems: Iterable[str]) -> None:
    """``UserError`` with these lines, if there are any."""
    text = "\n".join(problems)
    if text:
        raise UserError(text)


def flag(name: str) -> str:
    """``--init-m`` for ``init_m``."""
    return f"--{name.replace('_', '-')}"


def together(*decorators: Callable) -> Callable:
    """One decorator that applies several; the help shows their options in this order."""

    def decorate(function: Callable) -> Callable:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


as_json = option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
