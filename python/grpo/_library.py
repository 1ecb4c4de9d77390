"""libgrpo: its functions with types, failures as exceptions, callbacks that exceptions may leave."""
from __future__ import annotations

import ctypes
import logging
import os
import signal
import threading
from typing import Any, Callable

from . import _abi

logger = logging.getLogger("grpo")


class Error(RuntimeError):
    """A call of the library failed: what is wrong, where, and what to do.  `status` is its name, such as "EARG"."""

    __module__ = "grpo"

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libgrpo.so.1"))
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _load()


def options(kind: Any) -> Any:
    """A struct of options with its defaults."""
    o = kind()
    status = getattr(lib, kind.__name__ + "_init")(ctypes.byref(o), ctypes.sizeof(o))
    if status != _abi.GRPO_OK:
        raise Error((lib.grpo_message(None) or b"").decode(), (lib.grpo_status_name(status) or b"?").decode())
    return o


def _log(_: Any, level: int, line: bytes) -> None:
    logger.log(logging.WARNING if level == _abi.GRPO_LOG_WARNING else logging.INFO, line.decode("utf-8", "replace"))


def file_of(path: Any, name: str) -> bytes:
    """A path as the library takes it, where a NUL would end it."""
    if not isinstance(path, (str, bytes, os.PathLike)) or not path:
        raise TypeError(f"{name} is {path!r}, because no path was given; give one as text or as a pathlib.Path")
    file = os.fsencode(path)
    if b"\0" in file:
        raise ValueError(f"{name} is {path!r}, which no file can be called, because it has a NUL; remove it")
    return file


class Owner:
    """An object that owns memory of the library, which a copy of it would free again."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"{type(self).__name__}: it cannot be copied or pickled, because it owns memory of this process; "
                        "load another from the path")


class Context(Owner):
    """What all objects of one thread are made from."""

    def __init__(self, threads: int = 0) -> None:
        self._raised: BaseException | None = None
        self._user = False  # is a function of the user's running?
        self._log = _abi.grpo_log_fn(_log)
        # Python looks for Ctrl-C while it runs this, so that a long call can be interrupted.
        self._progress = self.callback(_abi.grpo_progress_fn, lambda *_: None, _abi.GRPO_ECANCELED)
        o = options(_abi.grpo_context_options)
        o.threads, o.log, o.progress = threads, self._log, self._progress
        self.handle = ctypes.c_void_p()
        self.check(lib.grpo_context_new(ctypes.byref(o), ctypes.byref(self.handle)))

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            lib.grpo_context_free(self.handle)
            self.handle = ctypes.c_void_p()

    def callback(self, kind: Any, function: Callable[..., Any], failed: int) -> Any:
        """A function as a callback of the library; if the call around it fails, `check` raises what this raised."""

        def call(*arguments: Any) -> int:
            try:
                if self._interrupted():
                    return failed
                try:
                    self._user = True
                    function(*arguments)
                finally:
                    self._user = False
                return failed if self._interrupted() else _abi.GRPO_OK
            except BaseException as raised:  # SystemExit too
                self._raised = raised
                return failed

        return kind(call)

    def _interrupted(self) -> bool:
        return self._raised is not None and not isinstance(self._raised, Exception)

    def check(self, status: int) -> None:
        end = self._interrupted() or status != _abi.GRPO_OK
        raised, self._raised = self._raised, None
        if raised is not None and end:
            raise raised
        if status != _abi.GRPO_OK:
            message = lib.grpo_message(self.handle) or lib.grpo_message(None) or b""
            raise Error(message.decode("utf-8", "replace"), (lib.grpo_status_name(status) or b"?").decode())

    def call(self, function: Callable[..., int], *arguments: Any, stop: Callable[[], Any] | None = None) -> None:
        """A call that Ctrl-C ends; with `stop`, which asks it to end well, the second one.

        Outside a callback's function Ctrl-C is noted and not raised at once, because ctypes would drop it at the first line.
        """
        asked = False
        ours = (threading.current_thread() is threading.main_thread()
                and signal.getsignal(signal.SIGINT) is signal.default_int_handler)

        def note(*_: Any) -> None:
            nonlocal asked
            if stop and not asked:
                asked = True
                stop()
                logger.warning("Ctrl-C: the run ends after this step, with a checkpoint; once more ends it at once")
                return
            self._raised = KeyboardInterrupt()
            if self._user:
                raise self._raised

        if ours:
            signal.signal(signal.SIGINT, note)
        try:
            status = function(*arguments)
        finally:
            if ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        self.check(status)
        if asked:
            raise KeyboardInterrupt

    def make(self, function: Callable[..., int], *arguments: Any) -> ctypes.c_void_p:
        """The handle that a function writes to its last argument."""
        handle = ctypes.c_void_p()
        self.call(function, *arguments, ctypes.byref(handle))
        return handle
