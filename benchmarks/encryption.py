"""The cost of encryption at rest: tables, flat arrays and logs below a plain and an encrypted root, in turn.

    python benchmarks/encryption.py [--rows 400000]

CPU seconds of this process, the least of five rounds; both roots lie in one temporary folder, so the disk is the same.
Results of a step are compared first. Unfair to us: only reading and writing are timed, while stages also compute.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from common import command_line, least_seconds

from pipelines.artifacts import Source, Target
from pipelines.encryption import places
from pipelines.encryption.places import Place
from pipelines.encryption.ring import new_ring
from pipelines.files import append_lines
from pipelines.tables import ROW, schema
from pipelines.training.data.ragged import RaggedWriter

TABLE = schema("sentences", f"{ROW}, text: string, token_starts: uint32[]")
ROUNDS = 5


def sentences(number: int) -> dict[str, list]:
    generator = np.random.default_rng(0)
    words = np.array([f"w{n:04d}" for n in range(5_000)])
    drawn = generator.integers(0, len(words), (number, 12))
    return {
        "doc_id": [f"{n // 9:032x}" for n in range(number)],
        "sentence_index": [n % 9 for n in range(number)],
        "text": [" ".join(row) for row in words[drawn]],
        "token_starts": [list(range(0, 72, 6))] * number,
    }


def steps(number: int) -> dict[str, Callable[[Path], object]]:
    rows = sentences(number)
    ids = [np.arange(n % 90, dtype=np.int32) for n in range(number)]
    order = np.random.default_rng(1).permutation(number)[:50_000]
    arrays = {}

    def write_table(root: Path) -> None:
        with Target(folder=root).table(TABLE) as writer:
            for at in range(0, number, 16_384):
                writer.extend({name: column[at : at + 16_384] for name, column in rows.items()})

    def write_array(root: Path) -> None:
        with RaggedWriter(Target(folder=root), "ids", np.int32) as writer:
            for row in ids:
                writer.append(row)
        arrays[root] = writer.open()

    def append_log(root: Path) -> None:
        (root / "log.jsonl").unlink(missing_ok=True)
        for number in range(200):
            append_lines(root / "log.jsonl", b'{"number": %d}\n' % number)

    return {
        "write a table": write_table,
        "read a table": lambda root: sum(len(b) for b in Source(folder=root).table(TABLE).batches()),
        "write an array": write_array,
        "read an array, rows drawn at random": lambda root: sum(int(arrays[root][int(n)].sum()) for n in order),
        "append 200 lines to a log": append_log,
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    number = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        roots = [Path(folder, name) for name in ("plain", "sealed")]
        for root in roots:
            root.mkdir()
        places.enter(roots[1], Place(new_ring(), b"digests"))
        print(f"{number:,} rows; CPU seconds, least of {ROUNDS}")
        for name, step in steps(number).items():
            found = [step(root) for root in roots]
            assert found[0] == found[1], name
            least = least_seconds({root.name: partial(step, root) for root in roots}, ROUNDS)
            times = [processor for _, processor in least.values()]
            print(f"  {name:<38} plain {times[0]:7.3f}  sealed {times[1]:7.3f}  ratio {times[1] / times[0]:5.2f}")
        sizes = [sum(path.stat().st_size for path in root.iterdir()) for root in roots]
        print(f"  bytes on disk: plain {sizes[0]:,}, sealed {sizes[1]:,} ({sizes[1] / sizes[0] - 1:+.3%})")


if __name__ == "__main__":
    main()
