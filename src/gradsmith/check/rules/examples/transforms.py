"""Examples of the rules in `transforms`: a bad one and a good one each."""

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    601: ("", ""),
    602: ("", ""),
    603: ("", ""),
    604: ("", ""),
    605: ("", ""),
    606: ("", ""),
    607: ("", ""),
}
