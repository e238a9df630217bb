"""The pytest plugin: `check_gradient` for tests, and `pytest --gradsmith PACKAGE` for a whole package.

The fixture checks one custom gradient and fails the test with what is wrong::

    def test_clip(check_gradient):
        check_gradient(Clip, (torch.randn(3, requires_grad=True), 0.5))

The option makes one item of each custom gradient of a package, so that `-n`, `-k`, `--junitxml` and `--lf` are pytest's
own. Items and the tests that use the fixture carry the marker `gradsmith`; on a test it may hold options of the check:
`@pytest.mark.gradsmith(fast=True, waive=("linearity",))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradsmith.check import Report
    from gradsmith.reach._found import Found, Package
    from gradsmith.reach._runner import Runner
    from gradsmith.reach._verdict import Verdict

__all__ = ["GradientItem", "check_gradient"]

_MARKER = "gradsmith(**options): a check of a custom gradient; options are those of gradsmith.check"
_EXTRA = ("gradsmith_fast", "gradsmith_timeout", "gradsmith_tries")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradsmith", "custom gradients")
    group.addoption(
        "--gradsmith",
        metavar="PACKAGE",
        help="check every custom gradient of a package, module, folder or file, one item each; without test files "
        "named beside it, nothing else is collected",
    )
    group.addoption("--gradsmith-fast", action="store_true", default=None, help="leave out what takes long")
    group.addoption("--gradsmith-timeout", type=float, metavar="SECONDS", help="what one function may take")
    group.addoption("--gradsmith-tries", type=int, metavar="N", help="calls the search for inputs makes")
    group.addoption("--gradsmith-baseline", metavar="FILE", help="findings that are known; only others fail")
    group.addoption("--gradsmith-results", metavar="FOLDER", help="write each verdict there, as JSON")
    group.addoption("--gradsmith-found", metavar="FILE", help="what was found in the package already")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if config.getoption("gradsmith") or config.getoption("gradsmith_found") or _handed(config):
        config.pluginmanager.register(Session(config), "gradsmith-session")


def _handed(config: pytest.Config) -> str:
    return str(getattr(config, "workerinput", {}).get("gradsmith", ""))


# --- the fixture -------------------------------------------------------------------------------------


@pytest.fixture
def check_gradient(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """`gradsmith.check` that fails the test with what is wrong. Returns the report where nothing is.

    Options on the marker `gradsmith` of the test hold unless the call gives them.
    """
    marked: dict[str, Any] = {}
    for marker in request.node.iter_markers("gradsmith"):
        marked = {**marker.kwargs, **marked}

    def run(subject: Any, inputs: Any, **options: Any) -> Report:
        __tracebackhide__ = True
        from gradsmith.check import check
        from gradsmith.check.report._text import failure_text

        report = check(subject, inputs, **{**marked, **options})
        if not report.ok:
            pytest.fail(failure_text(report), pytrace=False)
        return report

    return run


# --- a whole package ---------------------------------------------------------------------------------


class Session:
    """Finds what the package holds once, hands it to the workers, and keeps the child that runs it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.package, self.options = _found(config)
        self.known = _baseline(config)
        self._runner: Runner | None = None

    @property
    def runner(self) -> Runner:
        from gradsmith.reach._runner import Runner

        if self._runner is None:
            self._runner = Runner(self.package.target, self.options)
            self._runner.use(self.package)
        return self._runner

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Workers of pytest-xdist take what was found here: all must have the same items."""
        from gradsmith.reach._wire import to_text

        node.workerinput["gradsmith"] = to_text(self.package, self.options)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Iterator[None]:
        if self.config.args_source is not pytest.Config.ArgsSource.ARGS:
            self.config.args = []
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        from gradsmith.reach._package import checkable

        for place, found in enumerate(checkable(self.package)):
            items.append(GradientItem.of(session, self, place, found))

    def pytest_report_header(self) -> str:
        package = self.package
        return f"gradsmith: {len(package.found)} custom gradients in {package.name} {package.version}".rstrip()

    def pytest_unconfigure(self) -> None:
        if self._runner is not None:
            self._runner.close()


def _found(config: pytest.Config) -> tuple[Package, Any]:
    """The package and the options: from the controller, from a file, or found now."""
    from gradsmith.errors import UsageError
    from gradsmith.reach._wire import from_text

    if text := _handed(config):
        return from_text(text)
    if file := config.getoption("gradsmith_found"):
        return from_text(Path(file).read_text(encoding="utf-8"))
    from gradsmith.reach._config import options_of, read_config
    from gradsmith.reach._package import find_package, narrowed

    target = config.getoption("gradsmith")
    try:
        settings = read_config(Path.cwd())
        given = {name.removeprefix("gradsmith_"): config.getoption(name) for name in _EXTRA}
        options = options_of(settings, **given)
        package = find_package(target, options, lambda done, total, what: None)
        return narrowed(package, exclude=settings.exclude), options
    except UsageError as error:
        raise pytest.UsageError(f"--gradsmith: {error}") from None


def _baseline(config: pytest.Config) -> Any:
    """The findings that are known, from the option or from the configuration."""
    from gradsmith.errors import UsageError
    from gradsmith.reach._baseline import read_baseline
    from gradsmith.reach._config import read_config

    if config.getoption("gradsmith_found"):
        return None  # the command sets aside what is known by itself
    try:
        file = config.getoption("gradsmith_baseline") or read_config(Path.cwd()).baseline
        return read_baseline(file) if file else None
    except UsageError as error:
        raise pytest.UsageError(f"--gradsmith-baseline: {error}") from None


class GradientItem(pytest.Item):
    """One custom gradient of the package."""

    def __init__(self, *, session_of: Session, place: int, found: Found, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.session_of, self.place, self.found = session_of, place, found
        self.add_marker("gradsmith")

    @classmethod
    def of(cls, session: pytest.Session, session_of: Session, place: int, found: Found) -> GradientItem:
        item: GradientItem = cls.from_parent(
            session,
            name=found.id,
            nodeid=f"gradsmith::{found.id}",
            session_of=session_of,
            place=place,
            found=found,
        )
        return item

    def runtest(self) -> None:
        """Judge it: fail with what is wrong, skip what cannot be exercised."""
        from gradsmith.reach._suppress import suppressed
        from gradsmith.reach._wire import write_verdict

        verdict = self.session_of.runner.judge(self.found)
        if folder := self.config.getoption("gradsmith_results"):
            write_verdict(Path(folder), self.place, verdict)
        named = {"verdict": verdict.kind, "inputs": verdict.source, "intent": verdict.intent}
        self.user_properties += [(f"gradsmith.{name}", text) for name, text in named.items() if text]
        (verdict,), _ = suppressed([verdict], self.session_of.known, self.session_of.options)
        if verdict.kind == "not exercised":
            pytest.skip(verdict.why)
        if verdict.open or verdict.kind not in ("right", "wrong"):
            raise GradientError(verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, GradientError):
            from gradsmith.reach.report import verdict_text

            verdict = excinfo.value.verdict
            rules = " ".join(f["rule"] for f in verdict.open)
            return f"{rules or verdict.kind}\n{verdict_text(verdict)}"  # the first line stands in pytest's summary
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path | str, int | None, str]:
        return self.found.file or self.path, self.found.line - 1 if self.found.line else None, self.found.id


class GradientError(Exception):
    """What is wrong with one function of the package."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.kind)
        self.verdict = verdict
