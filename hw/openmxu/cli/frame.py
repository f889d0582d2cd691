"""The frame of the command ``openmxu``: its parser, its errors, its progress.

::

    entry points of the group openmxu.commands            one package each: openmxu, openmxu_layout, ...
        matmul = openmxu_sim.commands:add_matmul  ──>     adds its parser with add_command(), names what runs it

A command is loaded when it is named, so that ``--help`` is quick, and a missing extra affects no other command. A
command imports its modules when it runs, for the same reason.
"""

import argparse
import errno
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import entry_points
from typing import Any, NamedTuple, NoReturn

import rich.console
from rich.console import ConsoleOptions, RenderableType, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment

from openmxu.cli.terminal import abandon_output, folded, open_streams, printable
from openmxu.runtime.extras import extra_of, install, release
from openmxu.runtime.files import NotStoredError, UnreadError

Section = tuple[str, Sequence[tuple[str, str]]]
"""A section of ``openmxu list``: a title, and rows of a name and its description."""

_COMMANDS = "openmxu.commands"
"""Group of entry points: functions that take the ``commands`` of :func:`add_command`."""


class Console(rich.console.Console):
    """A console that raises an error if nobody reads it; rich's would end the program and close standard output."""

    def on_broken_pipe(self) -> None:
        """Raise the exception that rich has caught."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


_notes = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, with a suggestion."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, folded(f"{self.prog}: {printable(message)} (see {self.prog} --help)\n", sys.stderr))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse like the base class, but report an unknown option for the command that it was given to."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            meant = _meant(unknown[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return options, unknown


def _meant(word: str, known: Iterable[str]) -> str:
    """A suggestion at the end of an error about an unknown word."""
    from difflib import get_close_matches  # noqa: PLC0415  # as below: most commands need neither

    close = get_close_matches(word.partition("=")[0], known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0: success. 1: the run failed. 2: invalid request, in one line. 130, 143, 129: interrupted, terminated, hung up.
    """
    open_streams()
    notes = logging.StreamHandler(sys.stderr)
    notes.setFormatter(_Notes("note: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[notes])
    warnings.showwarning = lambda message, *_, **__: tell(f"note: {message}")
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    options = argparse.Namespace(prog="openmxu")
    try:
        try:
            options = make_parser(arguments).parse_args(arguments)
        except SystemExit as stop:  # help, version and mistakes
            code = int(stop.code or 0)
        else:
            code = _run(options)
        if (error := abandon_output()) is not None:  # now: later it could not be reported
            raise error
        return code
    except KeyboardInterrupt:
        tell("interrupted")
        return 130
    except ModuleNotFoundError as error:
        _complain(options, f"needs {error.name}, which is not installed: {install(extra_of(error.name or ''))}")
        return 2
    except OSError as error:
        reason = abandon_output()
        if isinstance(error, UnreadError) or isinstance(reason, BrokenPipeError):
            return 0  # the reader of our output has closed it
        _complain(options, error if reason is None else f"standard output cannot be written: {reason.strerror}")
        return 2 if reason is None else 1
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        _complain(options, error)
        return 2
    except RuntimeError as error:
        _complain(options, error)
        return 1


def _run(options: argparse.Namespace) -> int:
    try:
        return int(options.run(options) or 0)
    except SystemExit as stop:  # no command of ours exits: its outputs may be missing
        raise RuntimeError(f"a library asked to exit, with {stop.code!r}, before the command was done") from None


def _complain(options: argparse.Namespace, error: Exception | str) -> None:
    text = str(error) or "there is not enough memory"
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    if choice := re.search(r"must be (?:one of |(?='))(.*), not '(.*)'$", text):
        names = re.findall(r"[\w:.-]+", choice[1])
        if not any(name.startswith(choice[2]) for name in names):  # else what is allowed are its variants
            text += _meant(choice[2], names)
    # The last messages of a tool may have several lines; an invalid request has one.
    shown = _harmless if type(error) is not NotStoredError and isinstance(error, RuntimeError) else printable
    with suppress(OSError):
        sys.stderr.write(folded(f"{options.prog}: {shown(text)}\n", sys.stderr))


def make_parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """A parser for the command that ``arguments`` name; without one, for all commands."""
    parser = _Parser(
        prog="openmxu",
        description="An open bf16 matrix unit: simulate, export, measure.",
        epilog="See openmxu COMMAND --help for each command's options and examples.",
    )
    asked = any("--version".startswith(word) for word in arguments if len(word) > 2)  # git is asked for the commit
    parser.add_argument("--version", action="version", version=f"openmxu {release() if asked else ''}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    known = {point.name: point for point in entry_points(group=_COMMANDS)}
    named = next((word for word in arguments if not word.startswith("-")), None)
    if named is not None and named not in known:
        parser.error(f"COMMAND must be one of {', '.join(known)}, not {named!r}{_meant(named, known)}")
    for name in known if named is None else [named]:
        known[name].load()(commands)
    return parser


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int | None] | None, summary: str, examples: str = ""
) -> argparse.ArgumentParser:
    """Add a command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, prog=parser.prog)
    return parser


def offer(parser: argparse.ArgumentParser, **values: Callable[[], Iterable[str]]) -> None:
    """Say which values options and arguments take, by their ``dest``, for :mod:`openmxu.commands.list_all`."""
    vars(parser).setdefault("offered", {}).update(values)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A command and those below it, each once, whatever its names."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in dict.fromkeys(action.choices.values()):
                yield from parsers(below)


def offered(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.Action, Iterable[str]]]:
    """The arguments of a command and of those below it that have known values."""
    for each in parsers(parser):
        known = vars(each).get("offered", {})
        yield from ((action, known[action.dest]()) for action in each._actions if action.dest in known)


def subcommands(parser: argparse.ArgumentParser, *, required: bool) -> Any:
    """Subcommands of a command."""
    return parser.add_subparsers(
        dest="action", metavar="ACTION" if required else "[ACTION]", required=required, parser_class=_Parser
    )


def integer(text: str) -> int:
    """The type of an argument: an integer."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, not {text!r}") from None


def number(text: str) -> float:
    """The type of an argument: a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None


def interval(text: str) -> range:
    """The type of an argument: a range, its end excluded."""
    match = re.fullmatch(r"(\d{1,18}):(\d{1,18})", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise argparse.ArgumentTypeError(f"must be a range such as 0:8, not {text!r}")
    return range(int(match[1]), int(match[2]))


@contextmanager
def bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Progress of countable work: a bar on a terminal, elsewhere a line every ten seconds."""
    if _notes.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=_notes, transient=True) as progress:
            task = progress.add_task(label, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)
    else:
        last = time.monotonic()

        def show(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > 10:
                last = time.monotonic()
                tell(f"{label}: {done} of {total}")

        yield show


def tell(line: str) -> None:
    """Print a note on stderr during the work."""
    with suppress(OSError):  # nobody reads it, but the work goes on
        _notes.print(folded(printable(line), sys.stderr), markup=False)


def print_markdown(text: str) -> None:
    """Print Markdown: rendered on a terminal, unchanged elsewhere; see :func:`print_foreign`."""
    if sys.stdout.isatty():
        from rich.markdown import Markdown  # noqa: PLC0415  # a third of the time that this module takes to import

        print_drawn(Markdown(_harmless(text)))
    else:
        print_foreign(text)


def print_drawn(drawn: RenderableType, *, soft_wrap: bool = False) -> None:
    """Print a renderable of rich; see :func:`print_foreign`. Brackets in it are no markup."""
    wide = soft_wrap and not sys.stdout.isatty()
    Console(highlight=False, markup=False, soft_wrap=wide).print(_Harmless(drawn))


class _Harmless(NamedTuple):
    drawn: RenderableType

    def __rich_console__(self, console: rich.console.Console, options: ConsoleOptions) -> RenderResult:
        """Rich's segments with unprintable characters escaped; styles are separate from texts."""
        for text, style, control in console.render(self.drawn, options):
            yield Segment(_harmless(text), style, control)


def print_foreign(text: str) -> None:
    """Print lines that contain text from other sources, with unprintable characters escaped."""
    print(folded(_harmless(text), sys.stdout))


def _harmless(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


class _Notes(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line that is safe on a terminal, unless it is folded there."""
        return folded(printable(super().format(record)), sys.stderr)
