"""Examples of the rules in `state`: a bad one and a good one each."""

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    801: ("", ""),
    802: ("", ""),
    803: ("", ""),
    804: ("", ""),
    805: ("", ""),
    806: ("", ""),
    807: ("", ""),
    808: ("", ""),
    809: ("", ""),
}
