"""The bad and the good example of every rule, as source text that is run by the tests."""

__all__ = ["put_right"]


def put_right(bad: str, *changes: tuple[str, str]) -> tuple[str, str]:
    """A bad example and the good one that it becomes by replacing text.

    Args:
        bad: Python source.
        changes: What is replaced, and by what; each must occur.

    Returns:
        Bad and good.

    >>> put_right("y = x - 1", ("-", "+"))
    ('y = x - 1', 'y = x + 1')
    """
    good = bad
    for old, new in changes:
        if old not in good:
            raise ValueError(f"there is no {old!r} in the example")
        good = good.replace(old, new)
    return bad, good
