"""Examples of the rules in `higher`: a bad one and a good one each."""

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    501: ("", ""),
    502: ("", ""),
    503: ("", ""),
    504: ("", ""),
}
