"""What a target is, and which files belong to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gradsmith.errors import UsageError
from gradsmith.reach.find._target import resolve
from tests.reach.finding import folder, write

__all__ = ["folder"]

PACKAGE = {"pkg/__init__.py": "", "pkg/ops.py": "", "pkg/deep/__init__.py": "", "pkg/deep/more.py": ""}
NAMES = {"pkg", "pkg.ops", "pkg.deep", "pkg.deep.more"}


def install(place: Path, name: str, files: dict[str, str], **more: str) -> None:
    """A distribution as pip leaves it, without the files it is made of."""
    info = f"{name.replace('-', '_')}-1.2.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n"
    written = {"METADATA": about, "RECORD": "".join(f"{file},,\n" for file in files)}
    written |= {key.replace("_json", ".json").replace("_txt", ".txt"): text for key, text in more.items()}
    write(place, {f"{info}/{key}": text for key, text in written.items()})


@pytest.fixture
def site(folder: Path) -> Path:
    place = folder / "env" / "site-packages"
    place.mkdir(parents=True)
    sys.path.insert(0, str(place))
    return place


class TestFolders:
    def test_a_package(self, folder: Path) -> None:
        write(folder, PACKAGE)
        found = resolve("pkg")
        assert set(found.files) == NAMES
        assert found.search == (str(folder),)

    @pytest.mark.parametrize("target", ["repo", "./repo", "repo/"])
    def test_a_repository_with_src(self, folder: Path, target: str) -> None:
        write(folder / "repo" / "src", PACKAGE)
        write(folder / "repo", {"setup.py": "", "docs/conf.py": "", "docs/other.py": "", "noxfile.py": ""})
        found = resolve(target)
        assert set(found.files) == NAMES | {"setup", "conf", "other", "noxfile"}
        assert found.only_read == {"setup", "conf", "noxfile"}
        assert str(folder / "repo" / "src") in found.search

    def test_a_part_of_a_package_keeps_its_full_name(self, folder: Path) -> None:
        write(folder, PACKAGE)
        assert set(resolve("pkg/deep").files) == {"pkg.deep", "pkg.deep.more"}

    def test_a_folder_without_init_below_a_package_belongs_to_it(self, folder: Path) -> None:
        write(folder, {**PACKAGE, "pkg/kernels/cpu.py": ""})
        assert set(resolve("pkg").files) == NAMES | {"pkg.kernels.cpu"}

    def test_loose_files_have_names_of_their_own(self, folder: Path) -> None:
        write(folder / "scripts", {"run.py": "", "a/run.py": "", "b/run.py": "", "b/other.py": "", "my-script.py": ""})
        assert set(resolve("scripts").files) == {"run", "a.run", "b.run", "other", "my_script"}

    def test_loose_files_have_the_name_others_import_them_by(self, folder: Path) -> None:
        write(folder / "scripts", {"train.py": "from models.net import Net", "models/net.py": "", "models/rest.py": ""})
        assert set(resolve("scripts").files) == {"train", "models.net", "rest"}

    def test_tests_builds_and_environments_are_left_out(self, folder: Path) -> None:
        names = ["tests/helper.py", "test_it.py", "it_test.py", "conftest.py", "build/lib/pkg/__init__.py"]
        names += [".hidden/x.py", "env/pyvenv.cfg", "env/lib/x.py", "pkg/test/x.py", "gradsmith_cases.py", "dist/x.py"]
        write(folder / "repo", {**PACKAGE, **dict.fromkeys(names, "")})
        assert set(resolve("repo").files) == NAMES

    def test_a_subpackage_called_build_stays(self, folder: Path) -> None:
        write(folder, {**PACKAGE, "pkg/build/__init__.py": "", "pkg/setup.py": ""})
        found = resolve("pkg")
        assert set(found.files) == NAMES | {"pkg.build", "pkg.setup"}
        assert found.only_read == set()

    def test_tests_that_are_named(self, folder: Path) -> None:
        write(folder, {"tests/helper.py": "", "tests/test_it.py": "", "tests/more/x.py": ""})
        found = resolve("tests")
        assert set(found.files) == {"helper", "test_it", "x"}
        assert found.only_read == {"test_it"}

    def test_links_in_a_circle(self, folder: Path) -> None:
        write(folder, PACKAGE)
        (folder / "pkg" / "again").symlink_to(folder / "pkg")
        assert set(resolve("pkg").files) == NAMES

    def test_a_file(self, folder: Path) -> None:
        write(folder, {**PACKAGE, "test_loose.py": ""})
        assert list(resolve("pkg/ops.py").files) == ["pkg.ops"]
        loose = resolve("test_loose.py")
        assert list(loose.files) == ["test_loose"]
        assert not loose.only_read  # it was asked for


class TestInstalled:
    def test_a_distribution_has_the_files_of_its_record(self, site: Path) -> None:
        files = {**PACKAGE, "single.py": "", "build/lib/pkg/ops.py": "", "pkg/tests/test_x.py": ""}
        files["../../bin/x.py"] = ""
        write(site, {**{k: v for k, v in files.items() if ".." not in k}, "pkg/stray.py": ""})
        install(site, "some-pkg", files)
        for name in ("some-pkg", "some_pkg", "Some.Pkg"):
            found = resolve(name)
            assert set(found.files) == {*NAMES, "single"}
            assert (found.version, found.root, found.search) == ("1.2", str(site), (str(site),))

    def test_a_package_by_the_name_it_is_imported_by(self, site: Path) -> None:
        write(site, PACKAGE)
        install(site, "some-pkg", PACKAGE)
        found = resolve("pkg")
        assert set(found.files) == NAMES
        assert found.version == "1.2"
        assert set(resolve("pkg.deep").files) == {"pkg.deep", "pkg.deep.more"}
        assert list(resolve("pkg.deep.more").files) == ["pkg.deep.more"]

    def test_a_name_is_looked_up_without_importing(self, site: Path) -> None:
        write(site, {"pkg/__init__.py": "raise SystemExit", "pkg/ops.py": ""})
        assert list(resolve("pkg.ops").files) == ["pkg.ops"]

    def test_packages_without_init(self, site: Path) -> None:
        files = {"space/one/__init__.py": "", "space/one/x.py": ""}
        write(site, files)
        install(site, "space-one", files)
        assert set(resolve("space-one").files) == set(resolve("space.one").files) == {"space.one", "space.one.x"}

    def test_a_folder_here_comes_first(self, site: Path, folder: Path) -> None:
        write(site, PACKAGE)
        install(site, "pkg", PACKAGE)
        assert resolve("pkg").version == "1.2"
        write(folder, {"pkg/__init__.py": "", "pkg/own.py": ""})
        found = resolve("pkg")
        assert set(found.files) == {"pkg", "pkg.own"}
        assert found.version == ""

    @pytest.mark.parametrize("layout", ["src", "."])
    @pytest.mark.parametrize("tops", ["pkg\n", ""], ids=["top_level", "no top_level"])
    def test_an_editable_install(self, site: Path, folder: Path, layout: str, tops: str) -> None:
        write(folder / "project" / layout, PACKAGE)
        address = json.dumps({"url": (folder / "project").as_uri(), "dir_info": {"editable": True}})
        finder = {"__editable___some_pkg_finder.py": ""}
        write(site, finder)
        install(site, "some-pkg", finder, direct_url_json=address, top_level_txt=tops)
        found = resolve("some-pkg")
        assert set(found.files) == NAMES
        assert (found.version, found.search) == ("1.2", (str(folder / "project" / layout),))

    def test_a_package_in_src_that_is_not_installed(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [n for n in sys.modules if n.partition(".")[0] == "pkg"]:  # of other tests in this process
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "path", [p for p in sys.path if not (Path(p) / "pkg").exists()])
        write(folder / "src", PACKAGE)
        assert set(resolve("pkg").files) == NAMES
        assert set(resolve("pkg.deep").files) == {"pkg.deep", "pkg.deep.more"}


class TestRefusals:
    @pytest.mark.parametrize(
        ("target", "said"),
        [
            ("pakage", "did you mean package?"),
            ("some_pgk", "did you mean some-pkg"),
            ("./nowhere", "there is no file or folder './nowhere'"),
            ("nowhere.py", "there is no file or folder 'nowhere.py'"),
            ("package.nowhere", "there is no package, module or folder 'package.nowhere' here"),
            ("", "is empty"),
            ("a\0b", "there is no package, module or folder"),
            ("x" * 5000, "is no name of a package or path"),
            ("not a name", "there is no package, module or folder"),
            ("empty", "holds no Python files"),
            ("notes.txt", "ends in .py"),
            ("sys", "is not made of Python files"),
        ],
        ids=lambda text: text[:20].replace("\0", "0"),
    )
    def test_each_says_what_came_and_what_to_do(self, site: Path, folder: Path, target: str, said: str) -> None:
        write(folder, {"package/__init__.py": "", "notes.txt": "", "empty/readme.txt": ""})
        install(site, "some-pkg", {})
        with pytest.raises(UsageError) as error:
            resolve(target)
        assert said in str(error.value)
