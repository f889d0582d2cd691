"""Ctrl-C and kill end the program at once and quietly, at any moment: imports and clean-up included."""

# Not the module signal, which is read from a file and makes enumerations: Ctrl-C meanwhile would show a traceback.
import _signal  # type: ignore[import-not-found]
import os
import sys
from collections.abc import Callable

_WORDS = {_signal.SIGINT: "interrupted", _signal.SIGTERM: "terminated"}
if hasattr(_signal, "SIGHUP"):  # else __main__ says what system it takes
    _WORDS[_signal.SIGHUP] = "hung up"


def install(handler: Callable[[int, object], None] | None = None) -> None:
    """Install a handler for these signals, unless they are ignored; by default :func:`end`."""
    for number in _WORDS:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, handler or end)


def ignore() -> None:
    """Make these signals do nothing once the work is done: the interpreter's cleanup must not change the exit code."""
    for number in _WORDS:
        _signal.signal(number, _signal.SIG_IGN)


def end(number: int, _: object) -> None:
    """End the program with exit code 128 plus the signal's number.

    No exception, as that would show a traceback in the middle of an import or of a clean-up.
    """
    try:
        ignore()
        # Not imported here: where nothing has imported it, it has nothing to end.
        stop = getattr(sys.modules.get("openmxu.runtime.process"), "stop", None)
        if stop is not None:
            stop()
        tell(number)
    finally:
        os._exit(128 + number)


def tell(number: int) -> None:
    """Print which signal has ended the program."""
    word = _WORDS[number]
    # A bar of progress hides the cursor and leaves half a line.
    os.write(2, (f"\r\x1b[K\x1b[?25h{word}\n" if os.isatty(2) else f"{word}\n").encode())
