"""`gradsmith check` and `gradsmith record`: what was typed, read; what came of it, written."""
