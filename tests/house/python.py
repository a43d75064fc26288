"""Rules for Python: who may touch the world, what the oldest node can run, how long things may get."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from house.tree import Tree

OURS = r"(burnin|plugins|roles|scripts|tests)/.*\.py"
UNWORLDLY = r"burnin/(?!adapters/|node/).*\.py"
PURE = r"burnin/((verdict|report|stack|preflight|readers)/.*|node/catalog|node/plan)\.py"
NODE = r"burnin/node/.*\.py"

MODULE_LINES = 400
FUNCTION_LINES = 60

WORLD = {
    "subprocess", "socket", "signal", "time", "pynvml", "ansible_runner", "multiprocessing", "asyncio", "pty", "pexpect",
    "urllib.request", "http", "requests", "ssl", "ctypes", "sched",
}  # fmt: skip
CLOCKS_AND_PROCESSES = {
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
    "os.system", "os.popen", "os.kill", "os.killpg", "os.fork", "os.forkpty", "os.times", "os.wait", "os.waitpid",
}  # fmt: skip
PROCESS_PREFIXES = ("os.exec", "os.spawn", "os.posix_spawn")

IMPURE_MODULES = {
    "os", "sys", "shutil", "tempfile", "glob", "fileinput", "sqlite3", "urllib", "secrets", "threading", "locale",
    "burnin.adapters", "burnin.cli", "burnin.node",
}  # fmt: skip
# Data that a node and the controller must agree on; held to the rule of the pure packages itself.
PURE_IN_NODE = ("burnin.node.catalog", "burnin.node.plan")
FILE_METHODS = {
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "glob", "rglob", "mkdir", "unlink", "rmdir", "touch",
    "exists", "is_file", "is_dir", "stat", "lstat", "symlink_to", "hardlink_to", "expanduser", "cwd", "home", "sink_csv", "sink_parquet",
}  # fmt: skip
IMPURE_NAMES = {
    "jinja2.FileSystemLoader", "uuid.uuid1", "uuid.uuid4", "random.random", "random.randint", "random.choice", "random.shuffle",
    "random.sample", "random.gauss", "polars.scan_csv", "polars.scan_parquet", "polars.scan_ndjson", "numpy.load", "numpy.loadtxt",
}  # fmt: skip

# What a node may have beside the standard library; a node without it must still start, so it is imported where it is used.
NODE_EXTRAS = {"pynvml", "numpy", "cupy"}
NEWER_THAN_3_9 = {
    "tomllib", "itertools.pairwise", "datetime.UTC", "enum.StrEnum", "enum.verify", "contextlib.chdir", "types.NoneType",
    "types.UnionType", "types.EllipsisType", "bisect.key", "statistics.correlation", "statistics.linear_regression", "math.cbrt",
    "math.exp2", "typing.TypeAlias", "typing.ParamSpec", "typing.Concatenate", "typing.TypeGuard", "typing.Self", "typing.Never",
    "typing.LiteralString", "typing.assert_never", "typing.assert_type", "typing.reveal_type", "typing.Required",
    "typing.NotRequired", "typing.Unpack", "typing.override", "hashlib.file_digest", "importlib.resources.abc", "asyncio.TaskGroup",
}  # fmt: skip
NEWER_KEYWORDS = {"dataclass": {"slots", "kw_only", "match_args", "weakref_slot"}, "zip": {"strict"}, "field": {"kw_only"}}
BUILTIN_TYPES = {"int", "str", "float", "bool", "bytes", "dict", "list", "tuple", "set", "frozenset", "type", "object", "Path"}


def imports(tree: ast.AST) -> Iterator[tuple[int, str, str | None]]:
    """Line, module and (in `from module import name`) name of each absolute import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((node.lineno, node.module, alias.name) for alias in node.names)


def bindings(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for, in full: after `from datetime import datetime as dt`, dt is datetime.datetime."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """`a.b.c` with `a` in full; empty where it is no plain chain of an imported name."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute) and (base := dotted(node.value, names)):
        return f"{base}.{node.attr}"
    return ""


def within(module: str, name: str | None, forbidden: set[str]) -> bool:
    """Whether an import reaches one of `forbidden` or something inside it."""
    full = f"{module}.{name}" if name else module
    return any(full == one or full.startswith(f"{one}.") for one in forbidden)


def uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full name of each use of an imported thing, and of each import by a string."""
    names = bindings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and (full := dotted(node, names)):
            yield node.lineno, full
        if isinstance(node, ast.Call) and dotted(node.func, names) in {"importlib.import_module", "importlib.__import__"}:
            yield from ((node.lineno, str(arg.value)) for arg in node.args[:1] if isinstance(arg, ast.Constant))


def only_adapters_and_node_touch_the_world(tree: Tree) -> Iterator[str]:
    for path, module in tree.python(UNWORLDLY):
        for line, name, member in imports(module):
            if within(name, member, WORLD):
                yield f"{path}:{line}: imports {name}; only burnin/adapters and burnin/node may: hand the result in as an argument"
        for line, name in sorted(set(uses(module))):
            if name in CLOCKS_AND_PROCESSES or name.startswith(PROCESS_PREFIXES):
                yield f"{path}:{line}: uses {name}; only burnin/adapters and burnin/node may: hand the result in as an argument"
            if name.split(".")[0] in WORLD and "." not in name:
                yield f"{path}:{line}: reaches {name} by name; only burnin/adapters and burnin/node may"


def pure_packages_do_no_input_or_output(tree: Tree) -> Iterator[str]:
    for path, module in tree.python(PURE):
        for line, name in sorted({(line, name) for line, name, member in imports(module) if within(name, member, IMPURE_MODULES | WORLD)}):
            if name not in PURE_IN_NODE:
                yield f"{path}:{line}: imports {name}; this package is pure: text and numbers in, text and numbers out"
        names = bindings(module)
        for line, name in sorted(set(uses(module))):
            if name in IMPURE_NAMES:
                yield f"{path}:{line}: uses {name}; this package is pure: the same input must give the same bytes"
        ours = _own_data(module, names)
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and (call := _file_call(node, names, ours)):
                yield f"{path}:{node.lineno}: calls {call}; this package is pure: an adapter reads and writes (importlib.resources may)"


def _file_call(node: ast.Call, names: dict[str, str], ours: set[str]) -> str:
    if isinstance(node.func, ast.Name) and node.func.id in {"open", "input"} and node.func.id not in names:
        return f"{node.func.id}()"
    if isinstance(node.func, ast.Attribute) and node.func.attr in FILE_METHODS and not _is_own_data(node.func.value, names, ours):
        return f".{node.func.attr}()"
    return ""


def _is_own_data(node: ast.AST, names: dict[str, str], ours: set[str]) -> bool:
    """Whether a chain of calls and attributes starts at importlib.resources.files(...): data inside the package, no file of a person's."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call) and dotted(node.func, names) == "importlib.resources.files":
            return True
        below = {ast.Call: "func", ast.Attribute: "value", ast.Subscript: "value"}.get(type(node))
        if isinstance(node, ast.BinOp):
            node = node.left
        elif below:
            node = getattr(node, below)
        else:
            return False
    return node.id in ours


def _own_data(module: ast.Module, names: dict[str, str]) -> set[str]:
    ours: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and _is_own_data(node.value, names, ours):
            ours |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return ours


def node_package_runs_on_python_3_9(tree: Tree) -> Iterator[str]:
    for path in tree.files(NODE + r"|burnin/__init__\.py"):
        try:
            module = ast.parse(tree.text(path), feature_version=(3, 9))
        except SyntaxError as error:
            yield f"{path}:{error.lineno}: is no Python 3.9: {error.msg}"
            continue
        for line, what in _too_new(module):
            yield f"{path}:{line}: {what} is newer than Python 3.9, which nodes may have"


def _too_new(module: ast.Module) -> Iterator[tuple[int, str]]:
    for line, name, member in imports(module):
        full = f"{name}.{member}" if member else name
        if full in NEWER_THAN_3_9 or name in NEWER_THAN_3_9:
            yield line, full
    for line, name in set(uses(module)):
        if name in NEWER_THAN_3_9:
            yield line, name
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield from ((node.lineno, f"{called}({word.arg}=...)") for word in node.keywords if word.arg in NEWER_KEYWORDS.get(called, ()))
        if isinstance(node, ast.Match):
            yield node.lineno, "match"
    yield from ((line, "X | Y at run time") for line in _unions_at_run_time(module))


def _unions_at_run_time(module: ast.Module) -> Iterator[int]:
    postponed = any(name == "__future__" and member == "annotations" for _, name, member in imports(module))
    harmless: set[int] = set()
    if postponed:
        for node in ast.walk(module):
            notes = [getattr(node, field, None) for field in ("annotation", "returns")]
            harmless |= {id(inner) for note in notes if isinstance(note, ast.AST) for inner in ast.walk(note)}
    for node in ast.walk(module):
        if id(node) in harmless or not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)):
            continue
        if _is_type(node.left) or _is_type(node.right):
            yield node.lineno


def _is_type(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_type(node.value)
    return (isinstance(node, ast.Constant) and node.value is None) or (isinstance(node, ast.Name) and node.id in BUILTIN_TYPES)


def node_package_needs_no_other_package(tree: Tree) -> Iterator[str]:
    for path, module in tree.python(NODE):
        at_import = {node.lineno for node in _run_at_import(module)}
        for line, name, member in imports(module):
            top = name.partition(".")[0]
            if top in NODE_EXTRAS and line in at_import:
                yield f"{path}:{line}: imports {name} at import time; a node without it must still start: import it where it is used"
            elif top == "burnin" and not within(name, member, {"burnin.node", "burnin.__version__"}):
                yield f"{path}:{line}: imports {name}; only burnin/node goes to the node"
            elif top not in sys.stdlib_module_names | NODE_EXTRAS | {"burnin"}:
                yield f"{path}:{line}: imports {name}; a node has the standard library, {', '.join(sorted(NODE_EXTRAS))} and nothing else"


def _run_at_import(module: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.iter_child_nodes(module):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _run_at_import(node)


def no_shell_eval_or_broad_except(tree: Tree) -> Iterator[str]:
    for path, module in tree.python(OURS):
        for node in ast.walk(module):
            if isinstance(node, ast.Call):
                yield from (f"{path}:{node.lineno}: {what}" for what in _dangerous_call(node))
            if isinstance(node, ast.ExceptHandler) and (caught := _too_broad(node.type)):
                yield f"{path}:{node.lineno}: catches {caught}; name what can go wrong, let the rest reach main"


def _dangerous_call(node: ast.Call) -> Iterator[str]:
    if isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec"}:
        yield f"calls {node.func.id}()"
    if any(word.arg == "shell" and not (isinstance(word.value, ast.Constant) and not word.value.value) for word in node.keywords):
        yield "passes shell=; commands are argv lists"


def _too_broad(caught: ast.expr | None) -> str:
    if caught is None:
        return "everything"
    one_or_more = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return next((one.id for one in one_or_more if isinstance(one, ast.Name) and one.id in {"Exception", "BaseException"}), "")


def modules_and_functions_stay_short(tree: Tree) -> Iterator[str]:
    for path, module in tree.python(r"burnin/.*\.py"):
        lines = len(tree.text(path).splitlines())
        if lines > MODULE_LINES:
            yield f"{path}:{lines}: {lines} lines; split a module by {MODULE_LINES}"
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    yield f"{path}:{node.lineno}: {node.name}() is {length} lines long; {FUNCTION_LINES} is the most"
