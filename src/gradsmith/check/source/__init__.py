"""The text of a subject, taken apart: which names share memory with what, and who writes to them."""
