"""Examples of the rules in `numerics`: a bad one and a good one each."""

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    701: ("", ""),
    702: ("", ""),
    703: ("", ""),
    704: ("", ""),
}
