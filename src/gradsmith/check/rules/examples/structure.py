"""Examples of the rules in `structure`: a bad one and a good one each."""

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    301: ("", ""),
    302: ("", ""),
    303: ("", ""),
    304: ("", ""),
    305: ("", ""),
    306: ("", ""),
    307: ("", ""),
    308: ("", ""),
    309: ("", ""),
    310: ("", ""),
    311: ("", ""),
    312: ("", ""),
    313: ("", ""),
}
