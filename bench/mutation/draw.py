"""Draws mutants by a seed: `python -m bench.mutation.draw > FILE`.

With `--files 20` it draws files instead, and one mutant in each: to see how soon
`make test-changed` finds what is broken, wherever it is.

A mutant is one small fault: an operator, a constant, a condition turned round, or a
statement dropped. Half are drawn from the files of the README's promises, in equal
parts for each promise; half from all other files, at least four for each room.

Lines of the list quote the code that they change, so that a list of one commit is not
applied to another by mistake. Draw a new one when files have moved.
"""

import argparse
import ast
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.harness.reach.graph import ImportGraph

ROOT = Path(__file__).parents[2]
ROOMS = ("configs", "pipeline", "model", "trainer", "serving")
SEED = 34
IN_PROMISES = 30
ELSEWHERE = 30
IN_EACH_ROOM = 4
# Of files that are drawn.
LOADED_BY_NAME = 4

# Files of each promise, as patterns below the root.
PROMISES = {
    "records are a function": (
        "pipeline/steps/build_records.py",
        "pipeline/records/tf_example.py",
        "pipeline/documents/randomness.py",
        "pipeline/records/shard*.py",
        "pipeline/documents/document.py",
    ),
    "ledger": (
        "pipeline/accounting/document_accounting.py",
        "pipeline/beam/worker_failures.py",
        "pipeline/documents/document_selection.py",
    ),
    "update rules": ("trainer/step/*.py", "trainer/optimizers/*.py"),
    "resume": ("trainer/loop/checkpoint.py", "trainer/loop/training_loop.py"),
    "parity": ("serving/gate/*.py",),
    "tokenizers' ids": (
        "pipeline/tokenizers/byte_bpe/*.py",
        "pipeline/tokenizers/sentencepiece/*.py",
        "pipeline/tokenizers/wordpiece/*.py",
    ),
    "packing": (
        "model/layers/sequence_info.py",
        "pipeline/records/packing/bin_packing.py",
        "pipeline/records/packing/pair_packing.py",
        "pipeline/records/packing/sequence_packing.py",
    ),
}

_OTHER = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "+",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.And: "or",
    ast.Or: "and",
}


@dataclass(frozen=True)
class Mutant:
    """A stretch of a file, and the code that takes its place.

    Attributes:
        group: The promise, or the room.
        kind: operator, constant, condition or statement.
        path: The file, below the root.
        line: Where the stretch begins, from 1.
        start: Its first byte within the file.
        before: The code as it is.
        after: The code of the mutant.
    """

    group: str
    kind: str
    path: str
    line: int
    start: int
    before: str
    after: str

    def fits(self, root: Path) -> bool:
        """Returns whether the file below a root still has the code at its position."""
        file, before = root / self.path, self.before.encode()
        return file.is_file() and file.read_bytes().startswith(before, self.start)

    def apply(self, source: bytes) -> bytes:
        """The source, which the mutant fits, with the fault in it."""
        end = self.start + len(self.before.encode())
        return source[: self.start] + self.after.encode() + source[end:]


def mutants_of(path: str, source: bytes, group: str) -> Iterator[Mutant]:
    """Every fault that can be put into a file."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node in _live_nodes(ast.parse(source)):
        for kind, target, after in _faults(node):
            start = lines[target.lineno - 1] + target.col_offset
            end = lines[target.end_lineno - 1] + target.end_col_offset
            before = source[start:end].decode()
            yield Mutant(group, kind, path, target.lineno, start, before, after)


def _live_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of functions' bodies, but for texts and annotations."""
    waiting = [
        statement
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in function.body
    ]
    seen = set()
    while waiting:
        node = waiting.pop()
        # A nested function is met twice. Messages are not held word for word.
        if id(node) in seen or isinstance(node, ast.JoinedStr | ast.Raise):
            continue
        seen.add(id(node))
        yield node
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns"):
                children = value if isinstance(value, list) else [value]
                waiting += [child for child in children if isinstance(child, ast.AST)]


def _faults(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """The faults of a node: their kind, what is replaced, and the code instead."""
    match node:
        case ast.BinOp(op=operator) | ast.Compare(ops=[operator]):
            if sign := _OTHER.get(type(operator)):
                left, right = (
                    (node.left, node.right)
                    if isinstance(node, ast.BinOp)
                    else (node.left, node.comparators[0])
                )
                yield "operator", node, f"(({_code(left)}) {sign} ({_code(right)}))"
        case ast.BoolOp(op=operator, values=values):
            sign = _OTHER[type(operator)]
            joined = f" {sign} ".join(f"({_code(value)})" for value in values)
            yield "operator", node, f"({joined})"
        case ast.Constant(value=bool(value)):
            yield "constant", node, str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", node, str(value + 1)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield "condition", test, f"(not ({_code(test)}))"
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "statement", node, "pass"


def _code(node: ast.AST) -> str:
    return ast.unparse(node)


def draw(seed: int, root: Path = ROOT) -> list[Mutant]:
    """The list of a seed, without a second mutant of any line."""
    generator = random.Random(seed)
    promised: dict[str, list[Mutant]] = {}
    taken = set()
    for promise, patterns in PROMISES.items():
        files = [file for pattern in patterns for file in sorted(root.glob(pattern))]
        if not files:
            raise ValueError(f"no file of {promise!r} is where it was: {patterns}")
        taken |= set(files)
        promised[promise] = [m for file in files for m in _read(file, root, promise)]
    rooms = {
        room: [
            mutant
            for file in sorted((root / room).rglob("*.py"))
            if file not in taken
            for mutant in _read(file, root, room)
        ]
        for room in ROOMS
    }
    chosen = [
        *_shares(promised, IN_PROMISES, IN_PROMISES // len(promised), generator),
        *_shares(rooms, ELSEWHERE, IN_EACH_ROOM, generator),
    ]
    return sorted(chosen, key=lambda mutant: (mutant.path, mutant.start))


def draw_files(seed: int, count: int, root: Path = ROOT) -> list[Mutant]:
    """One mutant in each of so many files, some of which are only loaded by name."""
    generator = random.Random(seed)
    mutants = {
        file: found
        for room in ROOMS
        for file in sorted((root / room).rglob("*.py"))
        if (found := _read(file, root, room))
    }
    graph = ImportGraph(root)
    by_name = {root / graph.file(module) for module in graph.loaded_by_name}
    named = generator.sample([f for f in mutants if f in by_name], LOADED_BY_NAME)
    others = [file for file in mutants if file not in named]
    chosen = [*named, *generator.sample(others, count - len(named))]
    return [generator.choice(mutants[file]) for file in sorted(chosen)]


def _read(file: Path, root: Path, group: str) -> list[Mutant]:
    return [*mutants_of(file.relative_to(root).as_posix(), file.read_bytes(), group)]


def _shares(
    groups: dict[str, list[Mutant]], count: int, least: int, generator: random.Random
) -> list[Mutant]:
    """So many of all groups, at least `least` of each; a line's first alone."""
    lines: set[tuple[str, int]] = set()
    chosen: list[Mutant] = []

    def take(candidates: list[Mutant], wanted: int) -> None:
        for mutant in generator.sample(candidates, len(candidates)):
            if wanted and (mutant.path, mutant.line) not in lines:
                lines.add((mutant.path, mutant.line))
                chosen.append(mutant)
                wanted -= 1

    for candidates in groups.values():
        take(candidates, least)
    everything = [mutant for candidates in groups.values() for mutant in candidates]
    take(everything, count - len(chosen))
    return chosen


def main() -> None:
    """Prints the list, a mutant a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--files", type=int, help="so many, with a mutant in each")
    arguments = parser.parse_args()
    seed, files = arguments.seed, arguments.files
    for mutant in draw_files(seed, files) if files else draw(seed):
        print(json.dumps(asdict(mutant), ensure_ascii=False))


if __name__ == "__main__":
    main()
