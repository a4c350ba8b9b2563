"""Imports: a module that is imported defines things, and does nothing else.

Another process imports everything that is not ours, looks at what the process shares, imports ours,
and looks again. What our modules call meanwhile is noted, too.
"""

import json
import pkgutil
import subprocess
import sys

import headgate

PROGRAM = """\
import atexit, gc, importlib, json, logging, mimetypes, os
import resource, signal, sys, threading, warnings

ours = json.loads(sys.argv[1])
for name in ours:
    importlib.import_module(name)
others = [name for name in sys.modules if name.partition(".")[0] != "headgate"]
for name in [name for name in sys.modules if name not in others]:
    del sys.modules[name]

from concurrent.futures import Executor
from starlette.convertors import CONVERTOR_TYPES


def shared():
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "pools": [repr(each) for each in gc.get_objects() if isinstance(each, Executor)],
        "open files": sorted(os.listdir("/proc/self/fd")),
        "environment": dict(os.environ),
        "working directory": os.getcwd(),
        "garbage collection": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()],
        "callbacks of garbage collection": list(map(repr, gc.callbacks)),
        "handlers at exit": atexit._ncallbacks(),
        "handlers of logging": [repr(getattr(each, "handlers", [])) for each in loggers],
        "levels of logging": [getattr(each, "level", 0) for each in loggers],
        "filters of warnings": list(map(repr, warnings.filters)),
        "handlers of signals": [repr(signal.getsignal(each)) for each in signal.valid_signals()],
        "limits of resources": resource.getrlimit(resource.RLIMIT_NOFILE),
        "media types by suffix": len(mimetypes.types_map),
        "convertors of Starlette": list(map(repr, CONVERTOR_TYPES.items())),
        "recursion": [sys.getrecursionlimit(), sys.getswitchinterval()],
        "hooks": [repr(sys.excepthook), repr(threading.excepthook), repr(sys.unraisablehook)],
    }


read = []


CODE = (".py", ".pyc", "/redis_syntax/commands.json")  # a table that is as good as code


def note_file(event, facts):
    if event == "open" and not str(facts[0]).endswith(CODE):
        read.append(str(facts[0]))


called = []
NOT_TO_BE_CALLED = {"time", "_random", "_thread", "_socket", "posix"}


def note_call(frame, event, function):
    if event == "c_call" and str(frame.f_globals.get("__name__")).startswith("headgate"):
        if getattr(function, "__module__", None) in NOT_TO_BE_CALLED:
            called.append(f"{frame.f_globals['__name__']}: {function.__name__}")
    elif event == "call" and frame.f_globals.get("__name__") == "os":
        caller = frame.f_back.f_globals.get("__name__")
        if str(caller).startswith("headgate"):
            called.append(f"{caller}: os.{frame.f_code.co_name}")


before = shared()
sys.addaudithook(note_file)
sys.setprofile(note_call)
for name in ours:
    importlib.import_module(name)
sys.setprofile(None)
files, calls = list(read), list(called)
after = shared()
changed = {name: [before[name], after[name]] for name in before if before[name] != after[name]}
print(json.dumps({"changed": changed, "read": files, "called": calls}))
"""


def modules() -> list[str]:
    """Return the names of all our modules but the programs, which run when they are imported."""
    names = pkgutil.walk_packages(headgate.__path__, "headgate.")
    return [module.name for module in names if not module.name.endswith("__main__")]


def test_an_import_does_nothing_that_others_would_notice() -> None:
    program = [sys.executable, "-c", PROGRAM, json.dumps(modules())]
    output = subprocess.run(program, check=True, capture_output=True, text=True).stdout

    assert json.loads(output) == {"changed": {}, "read": [], "called": []}
