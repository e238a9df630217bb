"""Cases: to whom they belong, what they may yield, and what becomes of those that fail."""

import subprocess
import sys
import textwrap

import pytest
import torch

import gradsmith as gs
from gradsmith.errors import UsageError
from gradsmith.reach._found import Package
from gradsmith.reach.inputs.cases import Cases, _write, load_cases


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low, mode):
        ctx.save_for_backward(x)
        ctx.low = low
        return x.clamp(min=low)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x > ctx.low), None, None


NAME = f"{__name__}:Clip"


@gs.custom_gradient
def triple(x):
    return 3 * x


@triple.backward
def _(grads):
    return 3 * grads


@torch.library.custom_op("gradsmith_cases_test::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def ones(*size):
    return torch.ones(*size, requires_grad=True)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(_write, "REGISTERED", fresh := {})
    monkeypatch.setattr("gradsmith.reach.inputs.cases._run.REGISTERED", fresh)
    return fresh


def calls_for(name, thing=None):
    return Cases({}).calls_for(name, thing)


# --- whom they are for -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (NAME, NAME),
        (Clip, NAME),
        (Clip.apply, NAME),
        (triple, f"{__name__}:triple"),
        (double, "gradsmith_cases_test::double"),
        (torch.ops.gradsmith_cases_test.double, "gradsmith_cases_test::double"),
        ("gradsmith_cases_test::double", "gradsmith_cases_test::double"),
        ("pkg.ops:make.<locals>.Clip", "pkg.ops:make.<locals>.Clip"),
        (torch.nn.ReLU(), "torch.nn.modules.activation:ReLU"),
    ],
    ids=["name", "class", "apply", "declared", "custom_op", "operator", "operator name", "made", "module"],
)
def test_a_subject_is_given_by_name_or_as_itself(subject, name):
    @gs.cases(subject)
    def _():
        yield ones(2), 0.5

    calls, trouble = calls_for(name)
    assert trouble == ""
    assert [call.args[1] for call in calls] == [0.5]
    assert calls_for("other:Clip") == ([], "")


def test_above_the_subject_itself_the_maker_is_given_and_the_subject_stays():
    ran = []
    decorated = gs.cases(lambda: ran.append(1) or (ones(3), 0.5))(Clip)
    assert decorated is Clip
    assert ran == [], "nothing is made before it is asked for"
    (call,), _ = calls_for(NAME, Clip)
    assert (call.args[0].shape, call.source) == ((3,), "case")
    assert call.where.startswith("tests/reach/test_cases.py:")


def test_a_name_by_which_it_is_imported_elsewhere_means_the_same_object(monkeypatch):
    monkeypatch.setattr(gs, "Again", Clip, raising=False)
    gs.cases("gradsmith:Again")(lambda: ones(2))
    assert len(calls_for(NAME, Clip)[0]) == 1
    assert calls_for(NAME, None)[0] == []


def test_a_factory_that_runs_often_registers_its_cases_once(registered):
    for _ in range(3):
        gs.cases(lambda: ones(2))(type("Made", (torch.autograd.Function,), {}))
    assert len(registered) == 1


@pytest.mark.parametrize("wrong", ["", "a b", "pkg:", ":Clip", "pkg:Clip:more", 3, None, [Clip]], ids=repr)
def test_what_can_be_no_subject_is_refused(wrong):
    with pytest.raises(UsageError, match=r"expected .*custom gradient"):
        gs.cases(wrong)


def test_a_maker_with_parameters_is_refused():
    with pytest.raises(UsageError, match="without parameters"):
        gs.cases(NAME)(lambda x: x)


# --- what they yield ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("maker", "shapes"),
    [
        (lambda: ones(2), [(2,)]),
        (lambda: (ones(2), 0.5), [(2,)]),
        (lambda: gs.case(ones(2), 0.5, mode="a"), [(2,)]),
        (lambda: [ones(1), (ones(2), 1)], [(1,), (2,)]),
        (lambda: (ones(n) for n in (1, 2, 3)), [(1,), (2,), (3,)]),
    ],
    ids=["tensor", "tuple", "case", "list", "generator"],
)
def test_forms_of_cases(maker, shapes):
    gs.cases(Clip)(maker)
    calls, trouble = calls_for(NAME)
    assert (trouble, [tuple(call.args[0].shape) for call in calls]) == ("", shapes)


def test_keywords_and_the_declared_intent_go_along():
    def identity(x):
        return x

    @gs.cases(Clip, gradient_of=identity, waive="linearity")
    def _():
        yield gs.case(ones(2), low=0.5)

    (call,), _ = calls_for(NAME)
    assert (call.kwargs, call.gradient_of, call.waive) == ({"low": 0.5}, identity, ("linearity",))


def test_random_numbers_are_the_same_each_time_and_the_program_keeps_its_own():
    gs.cases(Clip)(lambda: torch.randn(3, requires_grad=True))
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = calls_for(NAME)[0][0].args[0]
    assert torch.rand(1) == expected
    assert first.tolist() == calls_for(NAME)[0][0].args[0].tolist()


@pytest.mark.parametrize(
    ("maker", "said"),
    [
        (lambda: {}[3], "KeyError: 3"),
        (lambda: sys.exit(2), "SystemExit: 2"),
        (lambda: 3, "got int as a case"),
        (lambda: iter([[1, 2]]), "got list as a case"),
        (lambda: None, "yields no case"),
    ],
    ids=["error", "exit", "number", "list", "nothing"],
)
def test_a_case_that_cannot_be_made_is_a_reason(maker, said):
    gs.cases(Clip)(maker)
    calls, trouble = calls_for(NAME)
    assert calls == []
    assert said in trouble
    assert "test_cases.py:" in trouble


def test_the_cases_before_an_error_count():
    @gs.cases(Clip)
    def _():
        yield ones(2), 0.5, "a"
        raise OSError("no such file")

    calls, trouble = calls_for(NAME)
    assert len(calls) == 1
    assert "OSError: no such file" in trouble


# --- cases that run the package ----------------------------------------------------------------------


def test_what_a_case_calls_is_recorded_for_its_subject():
    @gs.cases(Clip)
    def _():
        Clip.apply(2 * ones(2, 3), 0.5, "a").sum().backward()

    (call,), trouble = calls_for(NAME)
    assert trouble == ""
    assert (call.args[0].tolist(), call.args[1:]) == ([[2.0] * 3] * 2, (0.5, "a"))
    assert call.args[0].requires_grad
    assert (call.source, call.subject) == ("case", None)


def test_a_package_stands_for_whatever_is_called():
    @gs.cases("somewhere")
    def _():
        Clip.apply(ones(2), 0.5, "a")
        triple(ones(4))

    assert calls_for(NAME)[0][0].args[1:] == (0.5, "a")
    assert calls_for(f"{__name__}:triple")[0][0].args[0].shape == (4,)
    assert calls_for("other:Clip") == ([], "")


def test_a_case_of_a_package_that_fails_is_told_once_not_for_every_function():
    gs.cases("somewhere")(lambda: 1 / 0)
    cases = Cases({})
    assert cases.calls_for(NAME) == ([], "")
    (said,) = cases.broken()
    assert "ZeroDivisionError" in said


def test_names_that_nothing_has_are_told_with_what_was_meant():
    gs.cases("pkg.ops:Clp")(lambda: ones(2))
    gs.cases("pkg.ops:Clip")(lambda: ones(2))
    (said,) = Cases({}).unmatched(["pkg.ops:Clip", "pkg.ops:Round"])
    assert "'pkg.ops:Clp'" in said
    assert "did you mean 'pkg.ops:Clip'?" in said


# --- files -------------------------------------------------------------------------------------------


def written(path, text):
    path.write_text(textwrap.dedent(text))
    return path


def test_files_are_found_beside_the_target_and_by_name_each_run_once(tmp_path, monkeypatch):
    folder = tmp_path / "pkg"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    text = "import torch, gradsmith as gs\ngs.cases({!r})(lambda: torch.ones({}, requires_grad=True))\n"
    written(tmp_path / "gradsmith_cases.py", text.format(NAME, 1))
    written(folder / "gradsmith_cases.py", text.format(NAME, 2))
    written(tmp_path / "more.py", text.format(NAME, 3))
    cases = load_cases(Package("pkg", "pkg", root=str(tmp_path), search=(str(tmp_path),)), ["more.py"])
    assert cases.errors == {}
    assert sorted(len(call.args[0]) for call in cases.calls_for(NAME)[0]) == [1, 2, 3]
    again = load_cases(Package("pkg", "pkg", root=str(tmp_path)), ["more.py"])
    assert len(again.calls_for(NAME)[0]) == 3


def test_a_file_that_does_not_run_is_told_and_what_it_registered_stays(tmp_path):
    path = written(
        tmp_path / "broken.py",
        f"""
        import torch, gradsmith as gs
        gs.cases({NAME!r})(lambda: torch.ones(1, requires_grad=True))
        import no_such_module
        """,
    )
    cases = load_cases(None, [path])
    ((file, why),) = cases.errors.items()
    assert file == str(path)
    assert "No module named 'no_such_module'" in why
    assert len(cases.calls_for(NAME)[0]) == 1


def test_a_named_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no file"):
        load_cases(None, [tmp_path / "none.py"])


def test_naming_gradsmith_cases_imports_no_torch():
    code = "import sys, gradsmith; assert 'cases' in dir(gradsmith); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
