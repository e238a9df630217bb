"""How to call a custom gradient: cases its author wrote, calls that were recorded, and a search."""
