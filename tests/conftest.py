"""The support table of `tests/transforms` is written, or held against the docs, at the end of a session."""

import logging

import pytest
import torch

torch.set_num_threads(1)  # tensors are tiny, and tests run side by side
logging.getLogger("torch.__trace").propagate = False  # hundreds of empty lines below every failure

OUTCOMES = pytest.StashKey[dict]()
VERDICT = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--support-table",
        choices=["off", "check", "write"],
        default="check",
        help="the table of transforms in docs/transforms.md and README.md: leave it alone, fail where it is out of "
        "date (once every quick cell has run), or write it (once every cell has run)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OUTCOMES] = {}


class _Collector:
    """Gathers the outcomes; with pytest-xdist, reports of all workers come by in the main process."""

    def __init__(self, config: pytest.Config) -> None:
        self.outcomes = config.stash[OUTCOMES]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for key, value in report.user_properties:
            if key == "cell" and report.when == "call" and not report.failed:
                case, variant, kind, reason = value
                self.outcomes[case, variant] = (kind, reason)


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_Collector(session.config))


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    mode = config.getoption("--support-table")
    if mode == "off" or hasattr(config, "workerinput") or (mode == "check" and not config.stash[OUTCOMES]):
        return
    verdict, wrong = _finish(mode, config.stash[OUTCOMES])
    config.stash[VERDICT] = verdict
    if wrong and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _finish(mode: str, recorded: dict) -> tuple[str, bool]:
    """What to say about the table, and whether that is a failure."""
    from tests.transforms import table
    from tests.transforms.cases import CASES
    from tests.transforms.variants import VARIANTS

    outcomes = {cell: outcome for cell, outcome in recorded.items() if outcome[0] != "no compiler"}
    missing = [(c.name, v.name) for v in VARIANTS for c in CASES if (c.name, v.name) not in outcomes]
    if mode == "write":
        if missing:
            return f"support table not written: {len(missing)} cells were not run or failed, such as {missing[0]}", True
        table.write(outcomes)
        return "support table written to docs/transforms.md and README.md", False
    slow = {v.name for v in VARIANTS if v.slow}
    if any(cell not in recorded and cell[1] not in slow for cell in missing):
        return "", False  # a selection of tests, or failures that speak for themselves
    if files := table.outdated(outcomes):
        return f"support table out of date in {' and '.join(files)}: run `make table`", True
    return "support table up to date", False


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if verdict := terminalreporter.config.stash.get(VERDICT, ""):
        terminalreporter.write_sep("-", verdict)
