"""Examples of the rules in `lifetime`: a bad one and a good one each."""

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    401: ("", ""),
    402: ("", ""),
    403: ("", ""),
    404: ("", ""),
    405: ("", ""),
    406: ("", ""),
    407: ("", ""),
}
