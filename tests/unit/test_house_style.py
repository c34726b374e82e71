"""The rules of this code base that no linter knows, read from the source itself."""

import ast
import re
import subprocess
from collections.abc import Iterator
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


def each(paths: list[Path]) -> pytest.MarkDecorator:
    """Run a test once for each file."""
    return pytest.mark.parametrize("path", paths, ids=name_of)


@each(LIBRARY + SHOP)
def test_modules_are_small_and_named_for_a_subject(path: Path) -> None:
    """No module is longer than 500 lines, no function longer than 60, and none is called after nothing."""
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES_OF_A_MODULE
    assert path.stem not in NAMES_WITHOUT_A_SUBJECT
    long = [
        function.name
        for function in functions(ast.parse(text))
        if (function.end_lineno or 0) - function.lineno >= MOST_LINES_OF_A_FUNCTION
    ]
    assert long == []


@each(LIBRARY + SHOP)
def test_imports_stand_at_the_top(path: Path) -> None:
    """No import hides in a function or behind TYPE_CHECKING: the layers are what they look like."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = [
        (function.name, node.lineno)
        for function in functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert hidden == []
    assert not any(isinstance(node, ast.Name) and node.id == "TYPE_CHECKING" for node in ast.walk(tree))


@each(LIBRARY)
def test_what_is_public_has_words(path: Path) -> None:
    """Every module that is more than one class, every public class and every public function has a docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    public = [node for node in tree.body if isinstance(node, ast.ClassDef | Function) and _needs_words(node)]
    assert [node.name for node in public] == []
    assert tree.body == [] or ast.get_docstring(tree) is not None


def _needs_words(node: ast.ClassDef | Function) -> bool:
    overload = any(isinstance(decorator, ast.Name) and decorator.id == "overload" for decorator in node.decorator_list)
    return not node.name.startswith("_") and not overload and ast.get_docstring(node) is None


@each(LIBRARY)
def test_no_sql_is_put_together_where_it_runs(path: Path) -> None:
    """What is executed is a loaded statement or a literal, never an f-string, a concatenation or a formatted text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    built = [
        node.lineno
        for node in ast.walk(tree)
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


@each(SQL)
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


@each(SQL)
def test_a_file_holds_one_statement(path: Path) -> None:
    """One statement a file, and it says in which schema each table lies."""
    text = parse(name_of(path), path.read_text(encoding="utf-8")).text
    assert ";" not in re.sub(r"'[^']*'", "", text)
    assert (
        re.search(r"\b(?:FROM|INTO|UPDATE|JOIN) (?:deliveries|outbox_events|subscriptions|dead_letters)\b", text)
        is None
    )


@each(TESTS)
def test_a_test_says_what_it_proves(path: Path) -> None:
    """Every test has a one-sentence docstring, and none sleeps: it waits for a condition."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tests = [function for function in functions(tree) if function.name.startswith("test_")]
    silent = [test.name for test in tests if ast.get_docstring(test) is None]
    assert silent == []
    assert [ast.unparse(node) for node in ast.walk(tree) if _sleeps(node)] == []


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
