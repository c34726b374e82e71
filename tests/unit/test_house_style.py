"""The rules of this code base that no linter knows, read from the source itself."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from homing.schema.statement import parse

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = sorted((ROOT / "src" / "homing").rglob("*.py"))
SHOP = sorted((ROOT / "shop").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
SQL = sorted(path for path in (ROOT / "src" / "homing").rglob("*.sql") if path.parent.name == "sql")

MOST_LINES_OF_A_MODULE = 500
MOST_LINES_OF_A_FUNCTION = 60
NAMES_WITHOUT_A_SUBJECT = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
EXECUTING = {"execute", "executemany", "fetch", "fetchval", "fetchrow", "prepare", "text", "cursor"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    """The path below the root, for messages and test ids."""
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, at any depth."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


@cache
def read(path: Path) -> tuple[str, ast.Module]:
    """The text of a module and its tree: read once, for all rules."""
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)


def test_modules_are_small_and_named_for_a_subject() -> None:
    """No module is longer than 500 lines, no function longer than 60, and none is called after nothing."""
    modules = {name_of(path): (path.stem, *read(path)) for path in LIBRARY + SHOP}
    assert [name for name, (_, text, _) in modules.items() if text.count("\n") > MOST_LINES_OF_A_MODULE] == []
    assert [name for name, (stem, _, _) in modules.items() if stem in NAMES_WITHOUT_A_SUBJECT] == []
    long = [
        f"{name}: {function.name}"
        for name, (_, _, tree) in modules.items()
        for function in functions(tree)
        if (function.end_lineno or 0) - function.lineno >= MOST_LINES_OF_A_FUNCTION
    ]
    assert long == []


def test_imports_stand_at_the_top() -> None:
    """No import hides in a function or behind TYPE_CHECKING: the layers are what they look like."""
    trees = {name_of(path): read(path)[1] for path in LIBRARY + SHOP}
    hidden = [
        f"{name}:{node.lineno}, in {function.name}"
        for name, tree in trees.items()
        for function in functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert hidden == []
    asking = [
        name
        for name, tree in trees.items()
        if any(isinstance(node, ast.Name) and node.id == "TYPE_CHECKING" for node in ast.walk(tree))
    ]
    assert asking == []


def test_what_is_public_has_words() -> None:
    """Every module that is more than one class, every public class and every public function has a docstring."""
    trees = {name_of(path): read(path)[1] for path in LIBRARY}
    silent = [
        f"{name}: {node.name}"
        for name, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef | Function) and _needs_words(node)
    ]
    assert silent == []
    assert [name for name, tree in trees.items() if tree.body and ast.get_docstring(tree) is None] == []


def _needs_words(node: ast.ClassDef | Function) -> bool:
    overload = any(isinstance(decorator, ast.Name) and decorator.id == "overload" for decorator in node.decorator_list)
    return not node.name.startswith("_") and not overload and ast.get_docstring(node) is None


def test_no_sql_is_put_together_where_it_runs() -> None:
    """What is executed is a loaded statement or a literal, never an f-string, a concatenation or a formatted text."""
    built = [
        f"{name_of(path)}:{node.lineno}"
        for path in LIBRARY
        for node in ast.walk(read(path)[1])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute | ast.Name)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id) in EXECUTING
        and node.args
        and _is_built(node.args[0])
    ]
    assert built == []


def _is_built(argument: ast.expr) -> bool:
    match argument:
        case ast.JoinedStr() | ast.BinOp():
            return True
        case ast.Call(func=ast.Attribute(attr="format" | "join")):
            return True
        case _:
            return False


@pytest.mark.parametrize("path", SQL, ids=name_of)
def test_a_statement_opens_with_its_contract(path: Path) -> None:
    """Purpose, parameters, result, guard, locks and index stand on top, and the parameters named are those used."""
    statement = parse(name_of(path), path.read_text(encoding="utf-8"))
    assert statement.contract.lower().startswith(f"{path.stem}: ")
    for part in ("Result", "Guard", "Locks", "Index"):
        assert re.search(rf"\b{part}\b", statement.contract), part
    assert sorted(contract_parameters(statement.contract)) == sorted(statement.parameters)


def contract_parameters(contract: str) -> list[str]:
    """The names in `Parameters: id uuid; consumers, queues text[] (…)`, or in lines that begin with `:id`."""
    lines = re.findall(r"^:([a-z_][a-z_0-9]*)", contract, re.MULTILINE)
    if lines:
        return lines
    listed = " ".join(contract.partition("Parameters:")[2].partition("Result:")[0].split())
    bare = re.sub(r"\([^()]*\)|, of equal length", "", listed).removesuffix(".")
    groups = [group.partition(":")[0].split(",") for group in bare.split(";")]
    names = [part.split()[0] for group in groups for part in group if part.strip()]
    return [] if names == ["none"] else names


def test_a_file_holds_one_statement() -> None:
    """One statement a file, and it says in which schema each table lies."""
    texts = {name_of(path): parse(name_of(path), path.read_text(encoding="utf-8")).text for path in SQL}
    assert [name for name, text in texts.items() if ";" in re.sub(r"'[^']*'", "", text)] == []
    bare = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN) (?:deliveries|outbox_events|subscriptions|dead_letters)\b")
    assert [name for name, text in texts.items() if bare.search(text)] == []


def test_a_test_says_what_it_proves() -> None:
    """Every test has a one-sentence docstring, and none sleeps: it waits for a condition."""
    trees = {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in TESTS}
    silent = [
        f"{name}: {function.name}"
        for name, tree in trees.items()
        for function in functions(tree)
        if function.name.startswith("test_") and ast.get_docstring(function) is None
    ]
    assert silent == []
    sleeping = [
        f"{name}: {ast.unparse(node)}" for name, tree in trees.items() for node in ast.walk(tree) if _sleeps(node)
    ]
    assert sleeping == []


def _sleeps(node: ast.AST) -> bool:
    """A call of some `sleep`, except `sleep(0)`, which only lets other tasks run."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep"):
        return False
    return not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)


def test_nothing_names_a_machine_or_an_index() -> None:
    """No tracked text holds a path of somebody's machine or the address of a package index."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)  # noqa: S607 - git of the path
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    personal = re.compile(
        r"(?<![\w.])/(?:home|Users|root|work)/\w|--(?:extra-)?index-url[= ]|//[\w.-]*pypi[\w.-]*/|/simple/"
    )
    found = []
    for name in listing.stdout.decode().split("\0"):
        path = ROOT / name
        if not name or not path.is_file() or path == Path(__file__).resolve():
            continue
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{name}: {match[0]}" for match in personal.finditer(text)]
    assert found == []


def test_the_rules_find_what_they_look_for() -> None:
    """Each hand-made rule flags the bad case and passes the good one beside it."""
    built = ["f'SELECT {x}'", "'SELECT ' + x", "'SELECT %s' % x", "'SELECT {}'.format(x)", "' '.join(x)"]
    assert [_is_built(ast.parse(text, mode="eval").body) for text in (*built, "'SELECT 1'", "load(x).text")] == [
        *(True for _ in built),
        False,
        False,
    ]
    assert [
        _sleeps(ast.parse(text, mode="eval").body) for text in ("time.sleep(1)", "sleep.sleep(x)", "asyncio.sleep(0)")
    ] == [
        True,
        True,
        False,
    ]
    assert contract_parameters("x\nParameters: a uuid; b, c text[] (d, e), of equal length.\nResult: f") == [
        "a",
        "b",
        "c",
    ]
    assert contract_parameters("x\nParameters: none.\nResult: f") == []
