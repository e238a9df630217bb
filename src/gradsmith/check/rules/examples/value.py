"""Examples of the rules in `value`: a bad one and a good one each."""

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    101: ("", ""),
    102: ("", ""),
    103: ("", ""),
    104: ("", ""),
    105: ("", ""),
    106: ("", ""),
    107: ("", ""),
}
