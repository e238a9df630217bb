"""`# gradsmith: ignore[GS402] reason`: a comment in the source that suppresses a finding of the function it stands at.

It counts on a line of the definition of the function (a decorator, `class`, `def`), on that of one of its methods, in
the comment directly above either, and on the very line a finding names. Codes stand between commas, and may be the
beginning of codes: GS4. Comments are read by Python's own tokenizer, so that one inside of a string is none.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from gradsmith.check.report._plain import clean
from gradsmith.check.rules import RULES
from gradsmith.reach._found import Found
from gradsmith.reach._verdict import Verdict

__all__ = ["apply_ignores"]

_COMMENT = re.compile(r"#\s*gradsmith\s*:\s*ignore\b\s*(\[(?P<codes>[^\]]*)\])?(?P<reason>.*)", re.IGNORECASE)
_KNOWN = tuple(rule.code for rule in RULES)

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Ignore:
    """One comment, and which of its codes suppressed something."""

    line: int
    codes: tuple[str, ...]
    reason: str
    used: set[str] = field(default_factory=set)


@dataclass
class Source:
    """The comments and definitions of one file.

    Args:
        ignores: By line.
        comments: Lines that hold a comment and nothing else.
        definitions: All that are named in it, by qualified name as Python has it, but without "<locals>".
        troubles: Sentences about comments that mean nothing: line and text.
    """

    ignores: dict[int, Ignore] = field(default_factory=dict)
    comments: set[int] = field(default_factory=set)
    definitions: list[tuple[str, Definition]] = field(default_factory=list)
    troubles: list[tuple[int, str]] = field(default_factory=list)


def apply_ignores(
    verdicts: Iterable[Verdict],
    read_text: Callable[[str], str | None],
    asked: Callable[[str], bool] = lambda rule: True,
) -> tuple[list[Verdict], list[str]]:
    """The verdicts with each finding suppressed that a comment names, and remarks on comments that mean nothing.

    `read_text` gives the text of a file, None where there is none. A comment is called needless only where its function
    was exercised, and where `asked` says that its rules would have been found.
    """
    verdicts = list(verdicts)
    sources: dict[str, Source] = {}

    def source(file: str) -> Source:
        if file not in sources:
            sources[file] = _read(read_text(file) if file else None)
        return sources[file]

    marked = [_marked(verdict, source) for verdict in verdicts]
    remarks = []
    for file, one in sources.items():
        mine = [v for v in marked if v.found.file == file and v.kind in ("right", "wrong")]
        told = [*one.troubles, *_needless(one, [v.found for v in mine], asked)]
        remarks += [f"{clean(file)}:{line}: {text}" for line, text in sorted(told)]
    return marked, remarks


def _marked(verdict: Verdict, source: Callable[[str], Source]) -> Verdict:
    own = source(verdict.found.file)
    node = _definition(own, verdict.found)
    on_it = [own.ignores[line] for line in sorted(_lines(own, node)) if line in own.ignores] if node else []
    findings = []
    for finding in verdict.findings:
        rule = str(finding["rule"])
        for ignore in (*on_it, *_on_line(str(finding.get("where", "")), source)):
            fitting = [code for code in ignore.codes if rule.startswith(code)]
            ignore.used.update(fitting)
            if fitting and not finding.get("suppressed"):
                finding = {**finding, "suppressed": f"inline: {ignore.reason}" if ignore.reason else "inline"}
        findings.append(finding)
    for ignore in on_it:  # what is only a note on these inputs may be a finding on others
        ignore.used.update(code for code in ignore.codes if any(str(n["rule"]).startswith(code) for n in verdict.notes))
    return replace(verdict, findings=tuple(findings))


def _on_line(where: str, source: Callable[[str], Source]) -> Iterator[Ignore]:
    file, _, line = where.rpartition(":")
    if file and line.isdecimal() and (ignore := source(file).ignores.get(int(line))):
        yield ignore


def _needless(source: Source, found: list[Found], asked: Callable[[str], bool]) -> Iterator[tuple[int, str]]:
    """Comments at functions that were exercised, and those at no definition at all, which can never do anything."""
    within = {line for one in found if (node := _definition(source, one)) for line in _span(source, node)}
    anywhere = {line for _, node in source.definitions for line in _span(source, node)}
    for ignore in source.ignores.values():
        idle = [code for code in ignore.codes if code not in ignore.used and _would_be_met(code, asked)]
        if idle and ignore.line in within:
            yield ignore.line, f"`ignore[{', '.join(idle)}]` suppresses nothing here; remove it"
        elif idle and ignore.line not in anywhere and not ignore.used:
            yield (
                ignore.line,
                "the comment belongs to no definition; put it on the line of `class`, `def` or the finding, or "
                "directly above",
            )


def _would_be_met(code: str, asked: Callable[[str], bool]) -> bool:
    return all(asked(rule) for rule in _KNOWN if rule.startswith(code))


# --- where a comment counts --------------------------------------------------------------------------


def _definition(source: Source, found: Found) -> Definition | None:
    """The definition of a function: that of its name, or the innermost that begins where it begins."""
    name = found.name.replace("<locals>.", "")
    named = [node for qualified, node in source.definitions if qualified == name]
    begun = [node for _, node in source.definitions if found.line and found.line in _heading(node)]
    both = [node for node in named if node in begun]
    return next(iter([*both, *begun[-1:], *named]), None)


def _lines(source: Source, node: Definition) -> set[int]:
    """Lines at which a comment is about the definition or one of its methods."""
    members = [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, Definition)]
    return {line for one in (node, *members) for line in (*_above(source, one), *_heading(one))}


def _heading(node: Definition) -> range:
    """From the first decorator to the line before the body, or to the end where all is on one line."""
    return range(_start(node), max(node.lineno + 1, min(node.body[0].lineno, (node.end_lineno or 0) + 1)))


def _start(node: Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _above(source: Source, node: Definition) -> range:
    """The comment directly above, as many lines as it has."""
    start = first = _start(node)
    while first - 1 in source.comments:
        first -= 1
    return range(first, start)


def _span(source: Source, node: Definition) -> range:
    return range(_above(source, node).start, (node.end_lineno or node.lineno) + 1)


# --- reading -----------------------------------------------------------------------------------------


def _read(text: str | None) -> Source:
    """What a file holds; nothing where there is none, or it is not Python."""
    source = Source()
    if text is None or "gradsmith" not in text:
        return source
    try:
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
        return source
    _collect(tree, "", source.definitions)
    for token in tokens:
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            if not token.line[: token.start[1]].strip():
                source.comments.add(line)
            if match := _COMMENT.search(token.string):
                _add(source, line, match)
    return source


def _collect(tree: ast.AST, prefix: str, into: list[tuple[str, Definition]]) -> None:
    for node in ast.iter_child_nodes(tree):
        inner = prefix
        if isinstance(node, Definition):
            into.append((f"{prefix}{node.name}", node))
            inner = f"{prefix}{node.name}."
        _collect(node, inner, into)


def _add(source: Source, line: int, match: re.Match[str]) -> None:
    words = [word.strip() for word in (match["codes"] or "").split(",") if word.strip()]
    if not words:
        text = "`gradsmith: ignore` needs the codes of the rules: `# gradsmith: ignore[GS402] reason`"
        source.troubles.append((line, text))
        return
    codes = [word.upper() for word in words if _is_code(word.upper())]
    for word in words:
        if word.upper() not in codes:
            near = difflib.get_close_matches(word.upper(), _KNOWN, 9, 0.5)
            near.sort(key=lambda code: code[:3] != word[:3].upper())  # of the same family first
            hint = f"did you mean {near[0]}?" if near else "`gradsmith rules` lists them"
            source.troubles.append((line, f"`gradsmith: ignore[...]` names {clean(word)!r}, which is no rule; {hint}"))
    if codes:
        source.ignores[line] = Ignore(line, tuple(codes), clean(match["reason"].strip(" \t:-")))


def _is_code(word: str) -> bool:
    return len(word) > 2 and any(code.startswith(word) for code in _KNOWN)
