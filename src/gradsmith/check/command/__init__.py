"""`gradsmith check`, `rules` and `explain`: what was typed, read; what was found, printed."""
