"""Examples of the rules in `incoming`: a bad one and a good one each."""

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    201: ("", ""),
    202: ("", ""),
    203: ("", ""),
    204: ("", ""),
    205: ("", ""),
    206: ("", ""),
    207: ("", ""),
    208: ("", ""),
    209: ("", ""),
}
