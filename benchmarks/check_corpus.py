"""What `gradsmith.check` finds in the corpus of faulty and correct functions, next to PyTorch's own checkers.

Run it as `python benchmarks/check_corpus.py`. Every case runs in another process, so that one which hangs or crashes
costs its own answer only.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Queue

import check_size
import click
import report
import torch
from rich.console import Console
from rich.progress import track
from tables import Grid

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the tests, which are no package of this folder

from check_tools import CANNOT, ELSEWHERE, FAILED, FOUND, TOOLS, Answer, answer

from tests.check.corpus import CORRECT, FAULTY, Case

__all__ = ["main", "tables"]

DOCS = Path(__file__).parent.parent / "docs" / "corpus.md"
HEAD = """# What the prover finds

Written by `make corpus`, which runs `gradsmith.check` and PyTorch's own checkers over the faulty and the correct
functions in `tests/check/corpus`.
"""
OURS, FAST, *PEERS = TOOLS
SECONDS_ALLOWED = {OURS: 40.0, FAST: 20.0} | dict.fromkeys(PEERS, 10.0)
SECONDS_TO_START = 120.0
PROCESSES = min(2, os.cpu_count() or 1)
FAMILIES = {
    "GS1": "value",
    "GS2": "incoming gradient",
    "GS3": "structure",
    "GS4": "lifetime",
    "GS5": "higher order",
    "GS6": "transforms",
    "GS7": "numerics",
    "GS8": "state",
    "GS9": "source",
}


@dataclasses.dataclass(frozen=True)
class Judged:
    """A case and what every tool said of it."""

    case: Case
    answers: dict[str, Answer]

    @property
    def family(self) -> str:
        """The one it is counted under: the first that would be right."""
        return self.case.family.split("|")[0]


@click.command()
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures there.")
@click.option("--docs", is_flag=True, help="Write the figures to docs/corpus.md.")
def main(json_file: Path | None, docs: bool) -> None:
    """Count what gradsmith.check and PyTorch's checkers find in the corpus, and their false alarms."""
    console = Console() if Console().is_terminal else Console(width=150)
    judged = judge([*FAULTY, *CORRECT])
    shown = tables(judged)
    console.print(f"{report.environment()}\n", highlight=False)
    for table in shown:
        report.draw(table, console)
    if docs:
        DOCS.write_text(f"{HEAD}\n{report.environment()}.\n\n{_body(shown)}\n{_sizes()}", encoding="utf-8")
    if json_file:
        figures = json.loads(report.as_json(shown)) | {"cases": [_as_dict(j) for j in judged]}
        json_file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _body(shown: Sequence[Grid]) -> str:
    """The tables without the head of the other page."""
    text = report.as_markdown(shown)
    return text[text.index("## ") :]


def _sizes() -> str:
    """What a check costs as its inputs grow."""
    lines = [
        "## What a check costs as its inputs grow",
        "",
        "A root-mean-square norm, one process. Memory is the most held beyond what was there before, as a multiple of",
        "inputs and outputs; below some ten megabytes it is the interpreter's own.",
        "",
        "| elements | seconds | memory |",
        "|---|---|---|",
    ]
    lines += [f"| {n:,} | {seconds:.2f} | {times:.1f} times |" for n, seconds, times in check_size.measure()]
    return "\n".join(lines) + "\n"


def _as_dict(judged: Judged) -> dict[str, object]:
    case = judged.case
    answers = {tool: dataclasses.asdict(a) for tool, a in judged.answers.items()}
    return {"name": case.name, "family": case.family, "fault": case.fault, "answers": answers}


# Running the cases ------------------------------------------------------------------------------------------------


def judge(cases: Sequence[Case]) -> list[Judged]:
    """Every tool on every case, some cases at a time."""
    workers: Queue[_Worker] = Queue()
    for _ in range(PROCESSES):
        workers.put(_Worker())

    def run(case: Case) -> Judged:
        worker = workers.get()
        try:
            return Judged(case, {tool: worker.ask(case.name, tool) for tool in TOOLS})
        finally:
            workers.put(worker)

    try:
        with ThreadPoolExecutor(PROCESSES) as threads:
            answers = threads.map(run, cases)
            return list(track(answers, "Judging", len(cases), console=Console(stderr=True), transient=True))
    finally:
        while not workers.empty():
            workers.get().stop()


class _Worker:
    """A process that judges one case after another, started again where it hung or died."""

    def __init__(self) -> None:
        self.process: multiprocessing.process.BaseProcess | None = None
        self.connection: Connection | None = None

    def ask(self, name: str, tool: str) -> Answer:
        if self.process is None:
            self._start()
        start = time.perf_counter()
        message = f"no answer within {SECONDS_ALLOWED[tool]:.0f} s"
        try:
            self.connection.send((name, tool))
            if self.connection.poll(SECONDS_ALLOWED[tool]):
                return self.connection.recv()
        except (EOFError, OSError):
            message = "the process died"
        self.stop()
        # The author sees a hang or a crash. Of PyTorch's checkers that is all one can ask.
        return Answer(FOUND if tool in PEERS else FAILED, time.perf_counter() - start, message)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=False)
        self.process.start()
        theirs.close()
        with suppress(EOFError):
            if self.connection.poll(SECONDS_TO_START) and self.connection.recv():
                return
        self.stop()
        raise click.ClickException(f"A process that judges cases did not start within {SECONDS_TO_START:.0f} s.")

    def stop(self) -> None:
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # with all that the case started
        self.process.join()
        self.connection.close()
        self.process = None


def _serve(connection: Connection) -> None:
    """The other process: answers what it is asked, and keeps what the cases print to itself."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    cases = {case.name: case for case in [*FAULTY, *CORRECT]}
    if CORRECT:
        answer(OURS, CORRECT[0])  # loads what the first check has to load
    connection.send("ready")
    while True:
        name, tool = connection.recv()
        connection.send(answer(tool, cases[name]))


# Counting ---------------------------------------------------------------------------------------------------------


def tables(judged: Sequence[Judged]) -> list[Grid]:
    """What was found, and how long it took."""
    faulty = [j for j in judged if j.case.family]
    correct = [j for j in judged if not j.case.family]
    lines = []
    for code, name in FAMILIES.items():
        members = [j for j in faulty if j.family == code]
        if members:
            lines.append([f"{code} {name}", str(len(members)), *_counts(members)])
    lines.append(["all faulty", str(len(faulty)), *_counts(faulty)])
    lines.append(["correct: false alarms", str(len(correct)), *_counts(correct)])
    heads = ["family", "functions", *TOOLS, "any of the last three"]
    found = Grid("The corpus: faults found, and false alarms", heads, lines, [*NOTES, *_remarks(faulty, correct)])
    return [found, _costs(judged)]


NOTES = [
    "gradsmith has found a fault only where a rule of the right family says so. For the others any exception counts, "
    "a hang or a crash too; of gradsmith these count as nothing found, and on a correct function as a false alarm.",
    "gradcheck and gradgradcheck get the inputs in float64 and default settings. opcheck gets a custom op as it is, "
    "and a Function wrapped as one. None of them can be told of a deliberate gradient, nor of a kink.",
    "not judged: the checker cannot take the function (float32 only, a dict as output, no second derivative, what no "
    "custom op can be).",
]


def _counts(members: Sequence[Judged]) -> list[str]:
    def alarmed(member: Judged, tool: str) -> bool:
        verdict = member.answers[tool].verdict
        return verdict == FOUND or (not member.case.family and verdict == FAILED)

    cells = []
    for tool in TOOLS:
        unjudged = sum(m.answers[tool].verdict == CANNOT for m in members)
        count = sum(alarmed(m, tool) for m in members)
        cells.append(f"{count} ({unjudged} not judged)" if unjudged else str(count))
    return [*cells, str(sum(any(alarmed(m, tool) for tool in PEERS) for m in members))]


def _remarks(faulty: Sequence[Judged], correct: Sequence[Judged]) -> list[str]:
    """By name, what gradsmith did not get right."""
    remarks = []
    for tool in (OURS, FAST):
        for words, members in [("missed", faulty), ("false alarm", correct)]:
            for j in members:
                got = j.answers[tool]
                right = FOUND if j.case.family else "nothing"
                if got.verdict != right:
                    of = f", of {j.case.family}" if j.case.family else ""
                    only = "only " if got.verdict == ELSEWHERE else ""
                    remarks.append(f"{tool}, {words}: {j.case.name}{of} ({only}{got.message or 'nothing'})")
    return remarks


def _costs(judged: Sequence[Judged]) -> Grid:
    lines = []
    for tool in TOOLS:
        took = {j.case.name: j.answers[tool].seconds for j in judged if j.answers[tool].verdict != CANNOT}
        if took:
            slowest = max(took, key=took.__getitem__)
            middle = statistics.median(took.values())
            lines.append([tool, str(len(took)), f"{middle:.2f} s", f"{took[slowest]:.2f} s", slowest])
    notes = [f"{PROCESSES} processes side by side, each with one thread; loading torch is not counted."]
    return Grid("The corpus: what a function costs", ["", "functions", "median", "maximum", "slowest"], lines, notes)


if __name__ == "__main__":
    main()
